package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// The kernel answers a bare ENOENT; what is missing is said in words.
func TestExplain(t *testing.T) {
	features := Features()
	err := explain(unix.ENOENT, []Feature{features[1], features[3]})
	want := "lacks connection tracking (CONFIG_NFT_CT; where it is a module: sudo modprobe nft_ct) and connection counting (CONFIG_NFT_CONNLIMIT; "
	if !strings.Contains(err.Error(), want) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
	if err := explain(unix.ENOBUFS, nil); !errors.Is(err, unix.ENOBUFS) || strings.Contains(err.Error(), "lacks") {
		t.Errorf("nothing is missing, but: %v", err)
	}
}

func TestNeededFeatures(t *testing.T) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, test := range []struct {
		table Table
		want  string
	}{
		{Table{Silent: true}, "nftables"},
		{Table{Firewall: &Firewall{}}, "nftables, connection tracking"},
		{Table{NAT: &NAT{Public: loopback, Destination: loopback}}, "nftables, address translation"},
		{Table{FlowLimit: 1}, "nftables, connection tracking, connection counting"},
	} {
		var names []string
		for _, f := range Features() {
			if f.needed(test.table) {
				names = append(names, f.Name)
			}
		}
		if got := strings.Join(names, ", "); got != test.want {
			t.Errorf("%s needs %s, want %s", test.table, got, test.want)
		}
	}
}

// namespace is a network namespace of the test's own, as a descriptor.
func namespace(t *testing.T) int {
	t.Helper()
	type made struct {
		f   *os.File
		err error
	}
	results := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err == nil {
			m.f, m.err = os.Open("/proc/thread-self/ns/net")
		}
		results <- m
	}()
	m := <-results
	testutil.Need(t, m.err == nil, fmt.Sprintf("the right to make network namespaces: %v", m.err))
	t.Cleanup(func() { m.f.Close() })
	return int(m.f.Fd())
}

// A part that the kernel lacks is an error, not an endless wait for answers,
// and leaves nothing behind.
func TestTry(t *testing.T) {
	netns := namespace(t)
	lacking := Feature{Name: "a part that no kernel has", add: func(b *builder) error {
		chain := b.chain("some")
		b.rule(chain, &expr.Counter{}, drop)
		b.rule(chain, &expr.Objref{Type: 1, Name: "no-such-counter"}, drop)
		b.rule(chain, &expr.Counter{}, accept)
		return nil
	}}
	start := time.Now()
	if err := lacking.Try(netns); !errors.Is(err, unix.ENOENT) || time.Since(start) >= patience {
		t.Errorf("after %v: %v, want %v", time.Since(start), err, unix.ENOENT)
	}
	for _, f := range Features() {
		err := f.Try(netns)
		testutil.Need(t, err == nil, fmt.Sprintf("a kernel with %s: %v", f.Config, err))
	}
	conn, err := dial(netns)
	testutil.OK(t, err)
	defer conn.CloseLasting()
	tables, err := conn.ListTables()
	if err != nil || len(tables) > 0 {
		t.Errorf("tables are left: %v, %v", tables, err)
	}
}

// A firewall whose rules fill many transactions comes up whole.
func TestApply(t *testing.T) {
	netns := namespace(t)
	for _, f := range Features() {
		err := f.Try(netns)
		testutil.Need(t, err == nil, fmt.Sprintf("a kernel with %s: %v", f.Config, err))
	}
	if _, err := Apply(netns, Table{FlowLimit: -1}); err == nil {
		t.Error("an invalid table was applied")
	}
	const n = 5_000
	a, err := Apply(netns, Table{Firewall: &Firewall{Rules: n, Pairs: []Pair{pair("10.0.0.1", "10.0.0.2")}}})
	testutil.OK(t, err)
	chains, err := a.conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	testutil.OK(t, err)
	rules := 0
	for _, c := range chains {
		if !strings.HasPrefix(c.Name, "rules-") {
			continue
		}
		there, err := a.conn.GetRules(a.table, c)
		testutil.OK(t, err)
		rules += len(there)
	}
	if rules != n {
		t.Errorf("%d of %d rules stand", rules, n)
	}
	if dropped, err := a.Dropped(); err != nil || dropped != 0 {
		t.Errorf("%d dropped, %v", dropped, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
