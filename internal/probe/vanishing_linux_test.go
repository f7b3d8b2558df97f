package probe_test

import (
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A server that sends packets has the kernel ask whether the client is still there,
// and asks nobody where a test may well be silent.
func TestVanishingClientsAreAskedFor(t *testing.T) {
	_, err := exec.LookPath("ss")
	testutil.Need(t, err == nil, "ss of iproute2")
	target := servertest.Serve(t, probe.ServerOptions{})
	timer := func(p *badPeer) string {
		local := strconv.Itoa(p.LocalAddr().(*net.TCPAddr).Port)
		out, err := exec.CommandContext(t.Context(), "ss", "-Htno", "sport", "=", ":"+strconv.Itoa(int(target.Port())), "and", "dport", "=", ":"+local).Output()
		testutil.OK(t, err)
		return strings.TrimSpace(string(out))
	}
	// The next question is two seconds away, which ss writes as 1.984ms.
	soon := regexp.MustCompile(`timer:\(keepalive,([01]\.[0-9]+ms|[0-9]+ms|[12]sec),`)
	udp := measurement.Spec{Kind: measurement.UDP, Flows: 1, Direction: measurement.Receive, Duration: 5, RateBitsPerSecond: 1e5, PacketBytes: 100}
	p := dialBad(t, target, "127.0.0.1")
	reaches(target, udp)(t, p)
	p.start(t)
	if got := timer(p); !soon.MatchString(got) {
		t.Errorf("where packets are sent: %q", got)
	}
	idle := dialBad(t, target, "127.0.0.1")
	opens(tinyTCP, "start")(t, idle)
	if got := timer(idle); soon.MatchString(got) {
		t.Errorf("where bytes are received: %q", got)
	}
}
