package trial

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
	"github.com/hopbench/hopbench/internal/words/wordstest"
)

// misled is a testbed whose only path is not what it should be.
type misled struct {
	slow
	pair            testbed.Pair
	brings          measurement.Outcome
	switched, trace error
	left            error // the path
}

func (m *misled) Agent(string) (testbed.Agent, error) { return m, nil }
func (m *misled) Paths() []testbed.Path {
	return []testbed.Path{{Name: "p", Pairs: []testbed.Pair{m.pair}}}
}

func (m *misled) Switch(context.Context, string) (testbed.Switched, error) {
	return testbed.Switched{}, m.switched
}

func (m *misled) Confirm(context.Context, string) error { return m.left }

func (m *misled) Run(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error) {
	return m.brings, m.trace
}

// Every finding on a path has a sentence, made of what the trial gives.
func TestFindingsOnPaths(t *testing.T) {
	outcome := measurement.Outcome{
		Hops: traced([]string{"10.0.0.2"}), Metrics: measurement.Metrics{"hops_count": 1}, Flows: []measurement.Flow{{Final: &measurement.TCPInfo{PathMTU: 1400}}},
		Source: measurement.End{ReceivedTTL: 61}, Destination: measurement.End{ReceivedTTL: 62},
	}
	pair := func(e testbed.Expectation) testbed.Pair {
		return testbed.Pair{Source: "a", Destination: "b", Expect: e}
	}
	back := func(e testbed.Expectation) testbed.Pair {
		p := pair(e)
		p.Back = &probe.Request{}
		return p
	}
	hops := func(addresses ...netip.Addr) [][]netip.Addr { return [][]netip.Addr{addresses} }
	right, wrong := hops(netip.MustParseAddr("10.0.0.2")), hops(netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("10.9.0.6"))
	tunnel := pair(testbed.Expectation{Hops: right})
	tunnel.Outer = &testbed.Outer{MTU: 1450}
	below := pair(testbed.Expectation{Hops: right})
	below.Outer = &testbed.Outer{Expect: testbed.Expectation{Hops: wrong}}
	refused := errors.New("refused")
	traces := testbed.Expectation{Learned: true, Traced: true}
	counted := testbed.Expectation{HopCount: 2, Traced: true}
	outcome.Hops[0].Reached = true
	const failed, unproved, changed = "the trial did not take its path: ", "nothing proves that the trial took its path: ", "the path differs from that of earlier trials: "
	var found []measurement.Finding
	for _, c := range []struct {
		name  string
		bed   misled
		path  string
		says  string
		first measurement.Fingerprint
	}{
		{"as it should be", misled{pair: pair(testbed.Expectation{Hops: right, ReceivedTTL: 62, ReturnedTTL: 61})}, "p", "", measurement.Fingerprint{}},
		{"no such path", misled{}, "q", failed + `the testbed has no path "q"`, measurement.Fingerprint{}},
		{"not switched", misled{switched: refused}, "p", failed + "the testbed did not switch to it", measurement.Fingerprint{}},
		{"left meanwhile", misled{pair: pair(testbed.Expectation{}), left: errors.New("switch idps was at off")}, "p", failed + "switch idps was at off", measurement.Fingerprint{}},
		{"not traced", misled{pair: pair(testbed.Expectation{Hops: right}), trace: refused}, "p", failed + "the trace failed: refused", measurement.Fingerprint{}},
		{"not traced below the tunnel", misled{pair: tunnel, trace: refused}, "p", failed + "the trace below the tunnel failed: trace the path below the tunnel of a to b: refused", measurement.Fingerprint{}},
		{"another hop", misled{pair: pair(testbed.Expectation{Hops: wrong})}, "p", failed + "the trace saw [10.0.0.2], but the path is [10.9.0.2|10.9.0.6]", measurement.Fingerprint{}},
		{"another hop below the tunnel", misled{pair: below}, "p", failed + "below the tunnel the trace saw [10.0.0.2], but the path is [10.9.0.2|10.9.0.6]", measurement.Fingerprint{}},
		{"nothing answers", misled{pair: pair(testbed.Expectation{Hops: append(right, right[0])})}, "p", unproved + "hops did not answer: the trace saw [10.0.0.2] of the path [10.0.0.2 10.0.0.2]", measurement.Fingerprint{}},
		{"a hop is silent", misled{pair: pair(testbed.Expectation{Hops: append(right, right[0]), ReceivedTTL: 62})}, "p", "hops did not answer: the trace saw [10.0.0.2] of the path [10.0.0.2 10.0.0.2]; packets arrived with the right TTL, 62, which proves their number", measurement.Fingerprint{}},
		{"one more hop", misled{pair: pair(testbed.Expectation{Hops: right, ReceivedTTL: 63})}, "p", failed + "packets arrived with a TTL of 62, but the path leaves 63", measurement.Fingerprint{}},
		{"one more hop back", misled{pair: pair(testbed.Expectation{Hops: right, ReturnedTTL: 63})}, "p", failed + "packets came back with a TTL of 61, but the path leaves 63", measurement.Fingerprint{}},
		{"not the tunnel's MTU", misled{pair: tunnel}, "p", failed + "TCP found a path MTU of 1400, but the tunnel has 1450", measurement.Fingerprint{}},
		{"more hops", misled{pair: pair(counted)}, "p", failed + "the trace saw 1 hops [10.0.0.2], but the path has 2", measurement.Fingerprint{}},
		{"another MTU", misled{pair: pair(testbed.Expectation{PathMTUBytes: 1500})}, "p", failed + "TCP found a path MTU of 1400, but the path has 1500", measurement.Fingerprint{}},
		{"another hop than at first", misled{pair: pair(traces)}, "p", failed + "the trace saw [10.0.0.2], but the path is [10.9.0.2]", measurement.Fingerprint{Hops: traced([]string{"10.9.0.2"})}},
		{"another hop back than at first", misled{pair: back(testbed.Expectation{Learned: true})}, "p", failed + "the trace back to the source saw [10.0.0.2], but the path is [10.9.0.2]", measurement.Fingerprint{Hops: traced([]string{"10.9.0.2"})}},
		{"another TTL than at first by the same way back", misled{pair: back(testbed.Expectation{Learned: true})}, "p", failed + "packets arrived with a TTL of 62, but the path leaves 57", measurement.Fingerprint{ReceivedTTL: 57}},
		{"more hops back", misled{pair: back(testbed.Expectation{HopCount: 2})}, "p", failed + "the trace back to the source saw 1 hops [10.0.0.2], but the path has 2", measurement.Fingerprint{}},
		{"not traced back", misled{pair: back(testbed.Expectation{}), trace: refused}, "p", failed + "the trace failed: b traces back to a: refused", measurement.Fingerprint{}},
		{"another TTL than at first, and nobody can trace", misled{pair: pair(testbed.Expectation{Learned: true})}, "p", failed + "packets arrived with a TTL of 62, but the path leaves 57", measurement.Fingerprint{ReceivedTTL: 57}},
		{"another TTL than at first by the same hops", misled{pair: pair(traces)}, "p", changed + "packets arrived with a TTL of 62, in the first trial 57", measurement.Fingerprint{ReceivedTTL: 57}},
		{"another TTL than at first", misled{pair: pair(testbed.Expectation{})}, "p", changed + "packets arrived with a TTL of 62, in the first trial 57", measurement.Fingerprint{ReceivedTTL: 57}},
		{"another MTU than at first", misled{pair: pair(testbed.Expectation{})}, "p", changed + "TCP found a path MTU of 1400, in the first trial 1500", measurement.Fingerprint{PathMTU: 1500}},
	} {
		w := Wanted{ID: "t", Path: c.path, Spec: measurement.Spec{Kind: measurement.Trace}, First: c.first}
		c.bed.brings = outcome
		d, err := Do(t.Context(), &c.bed, w, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Fingerprint.Learned && c.bed.left != nil {
			t.Errorf("%s: what it shows is learned", c.name)
		}
		says := ""
		for _, f := range d.Gate.Findings {
			if f.Name == "fingerprint" {
				found, says = append(found, f), says+words.Finding(f)
			}
		}
		if says != c.says || d.Gate.Passed == (strings.HasPrefix(says, failed) || strings.HasPrefix(says, unproved)) {
			t.Errorf("%s: passed %v, %q, want %q", c.name, d.Gate.Passed, says, c.says)
		}
	}
	wordstest.Given(t, measurement.PathCodes(), found)
}
