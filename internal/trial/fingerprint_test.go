package trial

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
)

// traced is a trace that saw these addresses, empty for none.
func traced(seen []string) []measurement.TraceHop {
	hops := make([]measurement.TraceHop, len(seen))
	for i, address := range seen {
		hops[i] = measurement.TraceHop{TTL: i + 1, Address: address}
	}
	return hops
}

// A hop that is silent must be, and no other may be.
func TestFingerprintOfSilentHops(t *testing.T) {
	addr := netip.MustParseAddr
	path := testbed.Expectation{Hops: [][]netip.Addr{{addr("10.0.0.2")}, {}, {addr("10.0.2.2")}}, ReceivedTTL: 62}
	for _, test := range []struct {
		name string
		seen []string
		ok   bool
	}{
		{"as built", []string{"10.0.0.2", "", "10.0.2.2"}, true},
		{"the silent hop answered", []string{"10.0.0.2", "10.0.1.2", "10.0.2.2"}, false},
		{"another hop is silent", []string{"", "", "10.0.2.2"}, false},
		{"the silent hop was passed by", []string{"10.0.0.2", "10.0.2.2"}, false},
		{"nothing answered", []string{"", "", ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			hops := traced(test.seen)
			o := measurement.Outcome{Destination: measurement.End{ReceivedTTL: 62}}
			if f := fingerprint(path, hops, o); f.Matches != test.ok || (f.Why == nil) != test.ok {
				t.Errorf("matches: %v, because %q", f.Matches, words.Fingerprint(&f))
			}
		})
	}
}

// A trace that lacks an answer is worth another; one that shows another path is
// not, nor one that is as it should be.
func TestLacksAnswers(t *testing.T) {
	addr := netip.MustParseAddr
	path := testbed.Expectation{Hops: [][]netip.Addr{{addr("10.0.0.2"), addr("10.0.0.6")}, {}, {addr("10.0.2.2")}}}
	for _, test := range []struct {
		name string
		seen []string
		want bool
	}{
		{"as built", []string{"10.0.0.2", "", "10.0.2.2"}, false},
		{"by another instance", []string{"10.0.0.6", "", "10.0.2.2"}, false},
		{"the first is missing", []string{"", "", "10.0.2.2"}, true},
		{"the last came late", []string{"10.0.0.6", "", "", "", "10.0.2.2"}, true},
		{"nothing answered", nil, true},
		{"the silent hop answered, and the last is missing", []string{"10.0.0.2", "10.0.1.2", ""}, false},
		{"the first says that the last cannot be reached", []string{"10.0.0.2", "", "10.0.0.2"}, true},
		{"the silent hop was passed by", []string{"10.0.0.2", "10.0.2.2"}, false},
		{"another path, and one is missing", []string{"10.9.9.9", "", ""}, false},
	} {
		if got := lacksAnswers(path, traced(test.seen)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// The path and that below a tunnel are traced again while answers are lacking, and answers are
// waited for longer by what the delays of the path take.
func TestTracesWaitForThePath(t *testing.T) {
	usual := testbed.TraceSpec().Timeout.Duration()
	want := testbed.Expectation{Hops: [][]netip.Addr{{netip.MustParseAddr("10.0.0.2")}}}
	for _, test := range []struct {
		roundTrip, timeout time.Duration
	}{{0, usual}, {1400 * time.Millisecond, usual + 1400*time.Millisecond}, {time.Hour, time.Minute}} {
		want.RoundTrip = test.roundTrip
		for name, trace := range map[string]struct {
			pair testbed.Pair
			of   func(*trial, context.Context) [][]measurement.TraceHop
		}{
			"path":         {testbed.Pair{Expect: want}, (*trial).traces},
			"below tunnel": {testbed.Pair{Outer: &testbed.Outer{Expect: want}}, (*trial).traceOuter},
		} {
			source := &tracer{ways: [][]string{{"", ""}, {"10.0.0.2"}}}
			one := &trial{sources: []testbed.Agent{source}, failed: make([]error, 1)}
			one.path.Pairs = []testbed.Pair{trace.pair}
			seen := trace.of(one, t.Context())
			if len(seen[0]) != 1 || source.traced != 2 || source.timeout != test.timeout {
				t.Errorf("%s: %+v of %d traces, each of which waits %v, not %v", name, seen, source.traced, source.timeout, test.timeout)
			}
		}
	}
}

// Where no path is declared, each trial is compared with the first.
func TestLearnedFingerprint(t *testing.T) {
	first := measurement.Fingerprint{ReceivedTTL: 57, PathMTU: 1500}
	for name, c := range map[string]struct {
		first, now measurement.Fingerprint
		why        string
	}{
		"the first":      {measurement.Fingerprint{}, first, ""},
		"the same":       {first, first, ""},
		"unknown":        {first, measurement.Fingerprint{}, ""},
		"another length": {first, measurement.Fingerprint{ReceivedTTL: 56, PathMTU: 1500}, "a TTL of 56, in the first trial 57"},
		"another MTU":    {first, measurement.Fingerprint{ReceivedTTL: 57, PathMTU: 1400}, "a path MTU of 1400, in the first trial 1500"},
	} {
		c.now.Matches = true
		f := learned(testbed.Expectation{}, c.first, c.now)
		if f.Matches != (c.why == "") || !strings.Contains(words.Fingerprint(&f), c.why) || !f.Learned {
			t.Errorf("%s: %+v", name, f)
		}
		if g := gate.Judge(measurement.Spec{Kind: measurement.Trace}, measurement.Outcome{}, f, gate.Limits{}, nil); !g.Passed || (len(g.Findings) > 0) != (c.why != "") {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// The MTU of a path is that of the way there: what the kernel of the destination knows is that
// of the way back, for which the path is no other.
func TestMTUOfTheWayBack(t *testing.T) {
	final := func(mtu int64) *measurement.TCPInfo { return &measurement.TCPInfo{PathMTU: mtu, MSS: 1348} }
	there, back := measurement.Flow{Final: final(1500)}, measurement.Flow{Final: final(1400)}
	reverse := back
	reverse.Reverse = true
	for _, c := range []struct {
		direction measurement.Direction
		flows     []measurement.Flow
		mtu       int64
		matches   bool
	}{
		{measurement.Send, []measurement.Flow{there}, 1500, true},
		{measurement.Send, []measurement.Flow{back}, 1400, false}, // sent by the source, whatever it is called
		{measurement.Receive, []measurement.Flow{back}, 0, true},
		{measurement.Both, []measurement.Flow{reverse, there}, 1500, true},
		{measurement.Both, []measurement.Flow{reverse}, 0, true},
	} {
		one := &trial{failed: make([]error, 1), spec: measurement.Spec{Kind: measurement.TCP, Direction: c.direction}}
		one.path.Pairs = []testbed.Pair{{Expect: testbed.Expectation{PathMTUBytes: 1500, Learned: true}}}
		f := one.fingerprints(make([][]measurement.TraceHop, 1), make([][]measurement.TraceHop, 1), []measurement.Outcome{{Flows: c.flows}})
		if f.PathMTU != c.mtu || f.Matches != c.matches || f.MSS != 1348 {
			t.Errorf("%s: %+v", c.direction, f)
		}
	}
}
