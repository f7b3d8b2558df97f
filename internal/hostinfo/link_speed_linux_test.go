package hostinfo

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A speed is that of a device's own interface, or not known.
func TestLinkSpeed(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		name           string
		driver         string // empty for no device
		index, address string
		speed          string
		want           float64
	}{
		{"a gigabit", "igb", "3", mac.String(), "1000", 1e9},
		{"no device", "", "3", mac.String(), "10000", 0},
		{"virtio", "virtio_net", "3", mac.String(), "10000", 0},
		{"not known", "igb", "3", mac.String(), "-1", 0},
		{"not known either", "igb", "3", mac.String(), "4294967295", 0},
		{"no carrier", "igb", "3", mac.String(), "", 0},
		{"no number", "igb", "3", mac.String(), "fast", 0},
		{"another namespace's", "igb", "4", mac.String(), "1000", 0},
		{"another of that index", "igb", "3", "02:00:00:00:00:02", "1000", 0},
	} {
		folder := t.TempDir()
		at := filepath.Join(folder, "eth0")
		testutil.OK(t, os.MkdirAll(at, 0o755))
		for name, text := range map[string]string{"ifindex": c.index, "address": c.address, "speed": c.speed} {
			testutil.OK(t, os.WriteFile(filepath.Join(at, name), []byte(text+"\n"), 0o644))
		}
		if c.driver != "" {
			testutil.OK(t, os.MkdirAll(filepath.Join(at, "device"), 0o755))
			testutil.OK(t, os.Symlink("../../bus/pci/drivers/"+c.driver, filepath.Join(at, "device", "driver")))
		}
		if got := linkSpeed(folder, net.Interface{Name: "eth0", Index: 3, HardwareAddr: mac}); got != c.want {
			t.Errorf("%s: %v bit/s, want %v", c.name, got, c.want)
		}
	}
	if got := LinkSpeed(netip.MustParseAddr("127.0.0.1")); got != 0 {
		t.Errorf("loopback has %v bit/s", got)
	}
}
