package hostinfo

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

const (
	someDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100      10    0    0    0     0          0         0      100      10    0    0    0     0       0          0
  eth0: 5000      50    1    2    0     0          0         0     6000      60    3    4    0     0       0          0
`
	someConntrack = `entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
0000000a  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000010 00000002 00000000  00000000 00000000 00000000 00000000
0000000a  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000f 00000003 00000000  00000000 00000000 00000000 00000000
`
)

func TestParseInterface(t *testing.T) {
	got, err := parseInterface([]byte(someDev), "eth0")
	testutil.OK(t, err)
	want := InterfaceCounters{
		ReceivedBytes: 5000, ReceivedPackets: 50, ReceiveErrors: 1, ReceiveDrops: 2,
		SentBytes: 6000, SentPackets: 60, SendErrors: 3, SendDrops: 4,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := parseInterface([]byte(someDev), "eth1"); err == nil || !strings.Contains(err.Error(), "lo, eth0") {
		t.Errorf("an interface that is not there: %v", err)
	}
}

func TestParseConntrack(t *testing.T) {
	got, err := parseConntrack([]byte(someConntrack))
	testutil.OK(t, err)
	if want := (ConntrackCounters{Drops: 0x1f, EarlyDrops: 5, InsertFailures: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "drop\n1 2\n", "drop\nx\n"} {
		if got, err := parseConntrack([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}

func FuzzParseInterface(f *testing.F) {
	f.Add([]byte(someDev), []byte(someConntrack))
	f.Fuzz(func(_ *testing.T, dev, conntrack []byte) {
		_, _ = parseInterface(dev, "eth0")
		_, _ = parseConntrack(conntrack)
	})
}
