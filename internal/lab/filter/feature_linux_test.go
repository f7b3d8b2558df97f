package filter

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
