package broker

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A port that somebody has is named, and nothing is left of the broker.
func TestPortInUse(t *testing.T) {
	secret, _, err := join.Open(filepath.Join(t.TempDir(), "fw.join"), "fw")
	testutil.OK(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	at := netip.MustParseAddrPort(ln.Addr().String())
	if _, err := Start(Options{Listen: at, Secret: secret, MaxAgents: 2}); err == nil || !strings.Contains(err.Error(), "another program may have the port") {
		t.Error(err)
	}
}
