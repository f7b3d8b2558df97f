package apply

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestAppArmorProfile(t *testing.T) {
	profile := AppArmorProfile("/opt/hop bench/hopbench")
	if !strings.Contains(profile, `"/opt/hop bench/hopbench" flags=(unconfined)`) || !strings.Contains(profile, "userns,") {
		t.Errorf("profile:\n%s", profile)
	}
}

func TestKernelThatLacksALink(t *testing.T) {
	for _, err := range []error{errNoWireGuard, errNoVXLAN, errNoBridge} {
		if errors.Is(err, unix.EOPNOTSUPP) || explainKernel(fmt.Errorf("make it: %w", err)).Error() != "make it: "+err.Error() {
			t.Errorf("%v is explained once more: %v", err, explainKernel(err))
		}
	}
}

func TestTunnelKeys(t *testing.T) {
	first, second := netip.MustParseAddr("10.255.1.1"), netip.MustParseAddr("10.255.1.2")
	keys, err := newTunnelKeys(first)
	testutil.OK(t, err)
	a, peerOfA := keys.of(first)
	b, peerOfB := keys.of(second)
	if a == b || a.PublicKey() != peerOfB || b.PublicKey() != peerOfA {
		t.Error("the ends do not know each other")
	}
	other, err := newTunnelKeys(first)
	if err != nil || other == keys {
		t.Errorf("two labs have the same keys (%v)", err)
	}
}

func FuzzSourcePort(f *testing.F) {
	udp := append([]byte{0x45, 8: 64, 9: 17, 19: 2}, 0x12, 0x34, 0x12, 0xb5)
	f.Add(udp)
	f.Add(udp[:21])
	f.Add(append([]byte{0x46}, udp[1:]...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, packet []byte) {
		port, ok := sourcePort(packet)
		if !ok {
			return
		}
		header := int(packet[0]&15) * 4
		if packet[0]>>4 != 4 || packet[9] != 17 || int(packet[header])<<8|int(packet[header+1]) != int(port) {
			t.Fatalf("port %d of %x", port, packet)
		}
	})
}
