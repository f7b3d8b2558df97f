package survey

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
)

// path is how a path answers each test of a profile.
type path func(result.TestInfo) Step

// perFlow is a path that carries so much per flow, up to a bottleneck.
func perFlow(each, bottleneck float64) path {
	return func(test result.TestInfo) Step {
		s := Step{Test: test}
		s.Trial.Gate.Passed = true
		s.Trial.Metrics = measurement.Metrics{goodputName: min(each*float64(test.Spec.Flows), bottleneck)}
		return s
	}
}

// but has the named tests fail.
func (p path) but(noServer bool, failing ...string) path {
	return func(test result.TestInfo) Step {
		s := p(test)
		if slices.Contains(failing, test.Name) {
			s.Trial.Gate.Passed = false
			if noServer {
				s.NoServer = probe.Refused
			}
		}
		return s
	}
}

func take(t interface{ Fatalf(string, ...any) }, o Options, p path) []Step {
	var done []Step
	for {
		test, ok := o.Next(done)
		if !ok {
			return done
		}
		if len(done) > 20 {
			t.Fatalf("the profile does not end")
		}
		done = append(done, p(test))
	}
}

func TestSequence(t *testing.T) {
	for _, c := range []struct {
		name   string
		path   path
		want   string
		flows  int
		reason string
	}{
		{"one flow fills it", perFlow(1e9, 1e9),
			"path mtu latency flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: 4 bring 0.0 %"},
		{"four fill it", perFlow(1e9, 3e9),
			"path mtu latency flows-1 flows-4 flows-16 flows-4-receive load udp", 4, "4 flows: 16 bring 0.0 %"},
		{"none of those tried", perFlow(1e9, 1e15),
			"path mtu latency flows-1 flows-4 flows-16 flows-64 flows-64-receive load udp", 64, "64 flows, the most that are tried here; give --flows to try others"},
		{"just below the gain", perFlow(1e9, 1.1e9),
			"path mtu latency flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: 4 bring +10.0 %"},
		{"just above the gain", perFlow(1e9, 1.11e9),
			"path mtu latency flows-1 flows-4 flows-16 flows-4-receive load udp", 4, "4 flows: 16 bring 0.0 %"},
		{"UDP is filtered", perFlow(1, 1).but(false, "latency", "udp", "mtu"),
			"path mtu latency latency-tcp flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: 4 bring 0.0 %"},
		{"neither latency counts", perFlow(1, 1).but(false, "latency", "latency-tcp"),
			"path mtu latency latency-tcp ping flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: 4 bring 0.0 %"},
		{"no TCP test counts", perFlow(1, 1).but(false, "flows-1"),
			"path mtu latency flows-1", 0, ""},
		{"more flows fail", perFlow(1e9, 1e15).but(false, "flows-4"),
			"path mtu latency flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: the test with 4 does not count"},
		{"no server", perFlow(1, 1).but(true, "mtu"), "path mtu ping", 0, ""},
		{"no server, nor ping", perFlow(1, 1).but(true, "mtu", "ping"), "path mtu ping", 0, ""},
		{"the server ends", perFlow(1e9, 1e15).but(true, "flows-4"), "path mtu latency flows-1 flows-4", 1, "1 flow: the test with 4 does not count"},
		{"the trace fails", perFlow(1, 1).but(false, "path"),
			"path mtu latency flows-1 flows-4 flows-1-receive load udp", 1, "1 flow: 4 bring 0.0 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := take(t, Options{}, c.path)
			var names []string
			for _, s := range done {
				names = append(names, s.Test.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("tests\n%s, want\n%s", got, c.want)
			}
			if flows, _, _ := fill(done); flows != c.flows {
				t.Errorf("%d flows, want %d", flows, c.flows)
			}
			if got := FillReason(done); got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
		})
	}
}

func TestLaterTestsUseEarlierOutcomes(t *testing.T) {
	done := take(t, Options{}, perFlow(1e9, 3e9))
	load, _ := find(done, "load")
	udp, _ := find(done, "udp")
	if got := load.Test.Spec; got.Flows != 4 || got.Protocol != measurement.OverUDP {
		t.Errorf("load: %d flows, latency over %s, want 4 over udp", got.Flows, got.Protocol)
	}
	if got := udp.Test.Spec.RateBitsPerSecond; got != 1.5e9 {
		t.Errorf("datagrams at %v, want half of the 3 Gbit/s of TCP", got)
	}
	filtered := take(t, Options{}, perFlow(1e9, 3e9).but(false, "latency"))
	if load, _ := find(filtered, "load"); load.Test.Spec.Protocol != measurement.OverTCP {
		t.Errorf("latency under load over %s where UDP is filtered", load.Test.Spec.Protocol)
	}
}

func TestOptionsReachTheTestsThatTakeThem(t *testing.T) {
	o := Options{Base: measurement.Spec{DSCP: 46, Device: "eth0"}, Duration: 7}
	for _, s := range take(t, o, perFlow(1e9, 3e9)) {
		spec := s.Test.Spec
		marked := spec.DSCP == 46 && spec.Device == "eth0"
		if want := spec.Kind != measurement.Trace; marked != want {
			t.Errorf("%s: DSCP %d, device %q", s.Test.Name, spec.DSCP, spec.Device)
		}
		searching := s.Test.Name == "flows-4" || s.Test.Name == "flows-16"
		switch spec.Kind {
		case measurement.TCP, measurement.Load, measurement.UDP:
			if (spec.Duration == 7) == searching {
				t.Errorf("%s takes %v s", s.Test.Name, spec.Duration)
			}
		}
	}
}

func seconds(tests []result.TestInfo) (total measurement.Seconds) {
	for _, test := range tests {
		total += test.Spec.ExpectedDuration()
	}
	return total
}

// Whatever fails, a profile ends, does no test twice, and never has more time
// left than it had before: what Left says is a bound from the start.
func TestProfileEndsWithinWhatIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Duration: measurement.Seconds(rapid.Float64Range(0, 60).Draw(t, "duration"))}
		var done []Step
		left := seconds(o.Left(nil))
		if o.Duration == 0 && left > 22 {
			t.Fatalf("the profile takes up to %v s", left)
		}
		for {
			test, ok := o.Next(done)
			if !ok {
				break
			}
			if _, again := find(done, test.Name); again {
				t.Fatalf("%s comes twice", test.Name)
			}
			if test.Spec != test.Spec.Defaults() {
				t.Fatalf("%s lacks defaults", test.Name)
			}
			s := Step{Test: test}
			s.Trial.Gate.Passed = rapid.Bool().Draw(t, "passes")
			if !s.Trial.Gate.Passed && rapid.Bool().Draw(t, "no server") {
				s.NoServer = probe.Refused
			}
			s.Trial.Metrics = measurement.Metrics{goodputName: rapid.Float64Range(0, 1e12).Draw(t, "goodput")}
			done = append(done, s)
			next := seconds(o.Left(done))
			// A latency test that fails brings in its substitute.
			substitute := measurement.Seconds(0)
			if test.Spec.Kind == measurement.RR && !s.Trial.Gate.Passed {
				substitute = 1.2
			}
			if next > left+substitute+1e-6 || next < 0 {
				t.Fatalf("after %s, %v s are left, and %v s were before", test.Name, next, left)
			}
			left = next
		}
		if left != 0 {
			t.Fatalf("%v s are left at the end", left)
		}
	})
}

// On a long path the test of the round trip takes long enough for ten answers, and waits for them.
func TestLatencyOfLongPaths(t *testing.T) {
	for rtt, want := range map[measurement.Seconds][2]measurement.Seconds{0: {1, 0}, 0.05: {1, 0}, 0.15: {2, 0}, 0.25: {4, 0}, 0.6: {8, 2}, 0.62: {8, 2}, 0.99: {16, 2}} {
		far := func(test result.TestInfo) Step {
			s := perFlow(1e9, 1e9).but(false, "latency")(test)
			if test.Name == "path" && rtt > 0 {
				s.Trial.Hops = []measurement.TraceHop{{TTL: 1, RTT: 0.001}, {TTL: 2, RTT: rtt, Reached: true}}
			}
			return s
		}
		done := take(t, Options{}, far)
		udp, _ := find(done, "latency")
		tcp, _ := find(done, "latency-tcp")
		if got := [2]measurement.Seconds{udp.Test.Spec.Duration, udp.Test.Spec.Timeout}; got != want || tcp.Test.Spec.Duration != want[0] || tcp.Test.Spec.Timeout != 0 {
			t.Errorf("%v s: UDP %v, want %v; TCP %v, %v", rtt, got, want, tcp.Test.Spec.Duration, tcp.Test.Spec.Timeout)
		}
		for _, s := range done {
			if err := kind.Check(s.Test.Spec).Err(); err != nil {
				t.Errorf("%v s: %s: %v", rtt, s.Test.Name, err)
			}
		}
	}
}
