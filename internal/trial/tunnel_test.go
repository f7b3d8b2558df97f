package trial

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
)

// The inside of a tunnel proves that it was taken, the outside where it leads.
func TestFingerprintOfTunnels(t *testing.T) {
	addr := netip.MustParseAddr
	inside := testbed.Expectation{Hops: [][]netip.Addr{{addr("10.255.1.2")}}, ReceivedTTL: 64}
	outer := testbed.Outer{MTU: 1450, Expect: testbed.Expectation{Hops: [][]netip.Addr{{addr("10.1.0.2"), addr("10.1.0.6")}, {addr("10.1.1.2")}}}}
	hops := func(addresses ...string) (hops []measurement.TraceHop) {
		for i, a := range addresses {
			hops = append(hops, measurement.TraceHop{TTL: i + 1, Address: a})
		}
		return hops
	}
	for name, test := range map[string]struct {
		inside, outside []measurement.TraceHop
		mtu             int64
		why             string
	}{
		"as built":            {hops("10.255.1.2"), hops("10.1.0.2", "10.1.1.2"), 1450, ""},
		"another instance":    {hops("10.255.1.2"), hops("10.1.0.6", "10.1.1.2"), 1450, ""},
		"an unknown MTU":      {hops("10.255.1.2"), hops("10.1.0.2", "10.1.1.2"), 0, ""},
		"another way below":   {hops("10.255.1.2"), hops("10.1.1.2"), 1450, "below the tunnel the trace saw [10.1.1.2]"},
		"nothing seen below":  {hops("10.255.1.2"), nil, 1450, "below the tunnel hops did not answer: the trace saw []"},
		"beside the tunnel":   {hops("10.1.0.2", "10.1.1.2"), hops("10.1.0.2", "10.1.1.2"), 1450, "the trace saw [10.1.0.2 10.1.1.2]"},
		"the MTU of the path": {hops("10.255.1.2"), hops("10.1.0.2", "10.1.1.2"), 1500, "a path MTU of 1500, but the tunnel has 1450"},
	} {
		t.Run(name, func(t *testing.T) {
			o := measurement.Outcome{Destination: measurement.End{ReceivedTTL: 64}}
			if test.mtu != 0 {
				o.Flows = []measurement.Flow{{Final: &measurement.TCPInfo{PathMTU: test.mtu}}}
			}
			f := withTunnel(outer, test.outside, fingerprint(inside, test.inside, o))
			if f.Matches != (test.why == "") || !strings.Contains(words.Fingerprint(&f), test.why) || len(f.OuterHops) != len(test.outside) {
				t.Errorf("matches: %v, because %q; outside %v", f.Matches, words.Fingerprint(&f), f.OuterHops)
			}
		})
	}
}
