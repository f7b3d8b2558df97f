package hosts

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The limits of an agent concern the tests in which it takes part.
func TestLimitsOfAnEnd(t *testing.T) {
	for _, c := range []struct {
		end, test string
		wrong     bool
	}{
		{"a", "{name: latency, kind: ping, count: 100, interval: 1s}", true},
		{"b", "{name: latency, kind: ping, count: 100, interval: 1s}", false},
		{"a", "{name: latency, kind: rr, duration: 20s}", true},
		{"b", "{name: latency, kind: rr, duration: 20s}", true},
		{"b", "{name: latency, kind: rr, duration: 1s}", false},
	} {
		e, err := experiment.Load("two.yaml", []byte(strings.Replace(twoPaths, "{name: latency, kind: rr, duration: 100ms}", c.test, 1)))
		testutil.OK(t, err)
		h := &Hosts{e: e.OnHosts(), inventory: &inventory.Inventory{Name: "two"}}
		h.limits(&end{Endpoint: inventory.Endpoint{Name: c.end}, hello: agent.Hello{MaxDuration: 10}})
		if err := h.wrong(); (err != nil) != c.wrong {
			t.Errorf("%s at %s: %v", c.test, c.end, err)
		}
	}
}

// Where the destination's agent would turn iperf3's clients away, that is found before a trial is.
func TestIPerf3ThatIsNotServed(t *testing.T) {
	for _, c := range []struct {
		test    string
		allowed string
		wrong   bool
	}{
		{"{name: load, kind: tcp, protocol: iperf3, duration: 1s}", "10.0.0.0/24", false},
		{"{name: load, kind: tcp, protocol: iperf3, duration: 1s}", "10.0.1.0/24", true},
		{"{name: load, kind: tcp, duration: 1s}", "10.0.1.0/24", false},
	} {
		e, err := experiment.Load("two.yaml", []byte(strings.Replace(twoPaths, "{name: latency, kind: rr, duration: 100ms}", c.test, 1)))
		testutil.OK(t, err)
		hello := agent.Hello{Lease: 30, AllowTargets: []netip.Prefix{netip.MustParsePrefix(c.allowed)}}
		h := &Hosts{e: e.OnHosts(), inventory: &inventory.Inventory{Name: "two"}, ends: map[string]*end{"b": {client: &agent.Client{}, hello: hello}}}
		h.unserved("one", client.Addr())
		if err := h.wrong(); (err != nil) != c.wrong {
			t.Errorf("%s, where %s is allowed: %v", c.test, c.allowed, err)
		}
	}
}

func TestStanding(t *testing.T) {
	for want, c := range map[string]clock.Estimate{
		"its clock is 1.234ms behind, known to within 150µs; its drift is -12.4 ± 70.0 ppm, from exchanges over 3.1s": {
			Offset: -1234 * time.Microsecond, Uncertainty: 150 * time.Microsecond, Drift: -12.4e-6, DriftUncertainty: 70e-6, Span: 3100 * time.Millisecond,
		},
		"its clock is 2s ahead, known to within 30ms; 3.1s of exchanges bound its drift no better than the ± 500 ppm that any clock may have": {
			Offset: 2 * time.Second, Uncertainty: 30 * time.Millisecond, DriftUncertainty: clock.MaxDrift, Span: 3100 * time.Millisecond,
		},
	} {
		if got := standing(c); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
