package hostinfo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

func spin(t *testing.T, wanted time.Duration) time.Duration {
	t.Helper()
	own := func() time.Duration {
		var u syscall.Rusage
		testutil.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	first := own()
	for own()-first < wanted {
	}
	return own() - first
}

// count is the counter of one place, and whether it is there.
func count(c DropCounts, place string) (uint64, bool) {
	i := slices.IndexFunc(c.Places, func(d DropCount) bool { return d.Place == place })
	if i < 0 {
		return 0, false
	}
	return c.Places[i].Packets, true
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	testutil.OK(t, err)
	return text
}

// The files of testdata are those of a host on Linux 6.18, with some counters
// of lost packets set apart from zero and from each other.
func TestParseCounters(t *testing.T) {
	for _, test := range []struct {
		file  string
		parse func([]byte, *DropCounts) error
		want  map[string]uint64
	}{
		{"dev", parseNetDev, map[string]uint64{
			"lo receive drops": 0, "eth0 receive errors": 3, "eth0 receive drops": 7, "eth0 transmit errors": 11, "eth0 transmit drops": 13,
		}},
		{"softnet_stat", parseSoftnet, map[string]uint64{"softnet backlog": 0x1f + 0x2}},
		{"snmp", parseSNMP, map[string]uint64{"UDP receive buffer": 4711, "UDP memory": 5}},
		{"netstat", parseSNMP, map[string]uint64{"TCP listen queue": 21, "TCP socket backlog": 0}},
		{"snmp6", parseSNMP6, map[string]uint64{"UDP receive buffer (IPv6)": 99, "IPv6 receive": 0}},
	} {
		var got DropCounts
		if err := test.parse(recorded(t, test.file), &got); err != nil {
			t.Errorf("%s: %v", test.file, err)
		}
		for place, want := range test.want {
			if n, found := count(got, place); !found || n != want {
				t.Errorf("%s: %s is %d (%v), want %d", test.file, place, n, found, want)
			}
		}
	}
	var repeated DropCounts // SYN, which is no loss; what the path damaged, no host lost
	if err := parseSNMP([]byte("Tcp: InErrs OutRsts InCsumErrors\nTcp: 3 0 1\n"), &repeated); err != nil || len(repeated.Places) != 0 {
		t.Errorf("of three errors, one of them a wrong checksum: %+v, %v", repeated, err)
	}
	var c DropCounts
	if err := parseSoftnet(recorded(t, "softnet_stat"), &c); err != nil || c.Squeezes != 1+0xa || !c.Places[0].HostWide {
		t.Errorf("softnet: %+v, %v", c, err)
	}
}

func TestParseCountersRefuses(t *testing.T) {
	for _, test := range []struct {
		parse func([]byte, *DropCounts) error
		text  string
	}{
		{parseNetDev, "eth0: 1 2 3\n"},
		{parseNetDev, "eth0: 1 2 x 4 5 6 7 8 9 10 11 12\n"},
		{parseSoftnet, "1 2\n"},
		{parseSoftnet, "0 xyz 0\n"},
		{parseSoftnet, "0 0 123456789\n"},
		{parseSNMP, "Udp RcvbufErrors\n"},
		{parseSNMP, "Udp: RcvbufErrors\nTcp: 1\n"},
		{parseSNMP, "Udp: RcvbufErrors\nUdp: 1 2\n"},
		{parseSNMP, "Udp: RcvbufErrors\nUdp: -1\n"},
		{parseSNMP6, "Udp6RcvbufErrors\n"},
		{parseSNMP6, "Udp6RcvbufErrors x\n"},
	} {
		if err := test.parse([]byte(test.text), &DropCounts{}); err == nil {
			t.Errorf("%q was understood", test.text)
		}
	}
}

func FuzzParseCounters(f *testing.F) {
	for i, name := range []string{"dev", "softnet_stat", "snmp", "netstat", "snmp6"} {
		f.Add(byte(i), recorded(f, name))
	}
	parsers := []func([]byte, *DropCounts) error{parseNetDev, parseSoftnet, parseSNMP, parseSNMP, parseSNMP6}
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		var c DropCounts
		if err := parsers[int(which)%len(parsers)](text, &c); err == nil && len(c.Places) > 4*(1+len(text)) {
			t.Errorf("%d places in %d bytes", len(c.Places), len(text))
		}
	})
}

func FuzzParseQdiscs(f *testing.F) {
	f.Add([]byte{})
	f.Add(qdiscMessage(3, tcRoot, "fq", 17))
	f.Add(append(qdiscMessage(3, tcRoot, "fq", 17), 20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, _, err := parseQdiscs(b)
		if err != nil && len(found) > 0 {
			t.Errorf("%d found in spite of %v", len(found), err)
		}
		if len(found)*(unix.SizeofNlMsghdr+tcMessageLength) > len(b) {
			t.Errorf("%d found in %d bytes", len(found), len(b))
		}
	})
}

// qdiscMessage is a message as RTM_GETQDISC is answered with.
func qdiscMessage(index int, parent uint32, kind string, drops uint32) []byte {
	attribute := func(kind uint16, value []byte) []byte {
		b := native16(uint16(4+len(value)), kind)
		b = append(b, value...)
		return append(b, make([]byte, align4(len(b))-len(b))...)
	}
	stats := native32(0, 0, drops, 0, 0)
	body := slices.Concat(
		native32(0, uint32(index), 0, parent, 0),
		attribute(unix.TCA_KIND, append([]byte(kind), 0)),
		attribute(unix.TCA_STATS2|unix.NLA_F_NESTED, slices.Concat(attribute(1, make([]byte, 16)), attribute(tcStatsQueue, stats))),
	)
	head := slices.Concat(native32(uint32(unix.SizeofNlMsghdr+len(body))), native16(unix.RTM_NEWQDISC, 0), native32(0, 0))
	return append(head, body...)
}

func TestParseQdiscs(t *testing.T) {
	dump := slices.Concat(
		qdiscMessage(2, tcRoot, "mq", 40),
		qdiscMessage(2, 0x10001, "fq_codel", 40), // its drops are in those of the root
		qdiscMessage(2, tcIngress, "ingress", 2),
		slices.Concat(native32(20), native16(unix.NLMSG_DONE, 0), native32(0, 0, 0)),
	)
	got, done, err := parseQdiscs(dump)
	if want := []qdisc{{2, "mq", 40}, {2, "ingress", 2}}; err != nil || !done || !slices.Equal(got, want) {
		t.Errorf("%v, %v, %v, want %v", got, done, err, want)
	}
	refusal := slices.Concat(native32(20), native16(unix.NLMSG_ERROR, 0), native32(0, 0, ^uint32(unix.EPERM)+1))
	if _, _, err := parseQdiscs(refusal); !errors.Is(err, unix.EPERM) {
		t.Errorf("a refusal is %v", err)
	}
	for cut := 1; cut < len(qdiscMessage(2, tcRoot, "mq", 40)); cut++ {
		whole := qdiscMessage(2, tcRoot, "mq", 40)
		if found, _, _ := parseQdiscs(whole[:cut]); len(found) > 0 {
			t.Errorf("a message cut to %d bytes was understood", cut)
		}
	}
}

// inNamespace runs f on a thread of its own, in a network namespace of its own
// whose loopback is up.
func inNamespace(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	testutil.Need(t, os.Geteuid() == 0, "root, for a network namespace")
	for _, program := range []string{"ip", "tc"} {
		_, err := exec.LookPath(program)
		testutil.Need(t, err == nil, program+" of iproute2")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare the network namespace: %v", err)
			return
		}
		if run(t, "ip", "link", "set", "lo", "up") == nil {
			return
		}
		f(t)
	}()
	<-done
}

// run is what a program prints, nil after a failure. Commands of a locked
// thread run in its network namespace.
func run(t *testing.T, name string, args ...string) []byte {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		return nil
	}
	return append(out, '\n')
}

// Datagrams that nobody reads overflow the receive buffer: those that were
// sent and cannot be read afterwards are the kernel's count.
func TestReadDropsCountsUDPOverflow(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		first, err := ReadDrops()
		if err != nil {
			t.Error(err)
			return
		}
		const sent = 500
		got, err := overflow(sent)
		if err != nil {
			t.Error(err)
			return
		}
		last, err := ReadDrops()
		if err != nil {
			t.Error(err)
			return
		}
		before, _ := count(first, "UDP receive buffer")
		after, _ := count(last, "UDP receive buffer")
		if lost := sent - got; lost == 0 || after-before != uint64(lost) {
			t.Errorf("%d of %d datagrams were lost, the counter says %d", lost, sent, after-before)
		}
	})
}

// overflow sends datagrams to a socket with the smallest buffer, reads what
// arrived, and returns how many.
func overflow(sent int) (int, error) {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if err := in.SetReadBuffer(1); err != nil {
		return 0, err
	}
	for range sent {
		if _, err := out.Write(make([]byte, 100)); err != nil {
			return 0, err
		}
	}
	// Loopback delivers before a send returns: all that came is there.
	raw, err := in.SyscallConn()
	if err != nil {
		return 0, err
	}
	got := 0
	err = raw.Read(func(fd uintptr) bool {
		for b := make([]byte, 200); ; got++ {
			if _, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT); err != nil {
				return true
			}
		}
	})
	return got, err
}

// The oracle of a queueing discipline's drops is tc(8).
func TestReadDropsCountsQueueingDiscipline(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		const sent = 50
		if run(t, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "8kbit", "burst", "200", "limit", "400") == nil {
			return
		}
		in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		out, err := net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		for range sent {
			if _, err := out.Write([]byte("lost")); err != nil {
				t.Error(err)
				return
			}
		}
		counts, err := ReadDrops()
		if err != nil {
			t.Error(err)
			return
		}
		var queues []struct {
			Drops uint64 `json:"drops"`
		}
		if err := json.Unmarshal(run(t, "tc", "-s", "-j", "qdisc", "show", "dev", "lo", "root"), &queues); err != nil || len(queues) != 1 {
			t.Errorf("tc: %v, %v", queues, err)
			return
		}
		got, found := count(counts, "lo queue (tbf)")
		if !found || got != queues[0].Drops || got == 0 || got > sent {
			t.Errorf("%d drops (%v) of %d sent; tc says %d", got, found, sent, queues[0].Drops)
		}
	})
}

func native16(values ...uint16) []byte {
	var b []byte
	for _, v := range values {
		b = binary.NativeEndian.AppendUint16(b, v)
	}
	return b
}

func native32(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}
