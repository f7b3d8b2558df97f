package runner

import (
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// A hop that is silent must be, and no other may be.
func TestFingerprintOfSilentHops(t *testing.T) {
	addr := netip.MustParseAddr
	path := lab.Path{Hops: []netip.Addr{addr("10.0.0.2"), {}, addr("10.0.2.2")}, ReceivedTTL: 62}
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
			var hops []measurement.TraceHop
			for i, address := range test.seen {
				hops = append(hops, measurement.TraceHop{TTL: i + 1, Address: address})
			}
			o := measurement.Outcome{Destination: measurement.End{ReceivedTTL: 62}}
			if f := fingerprint(path, hops, o); f.Matches != test.ok || (f.Why == "") != test.ok {
				t.Errorf("matches: %v, because %q", f.Matches, f.Why)
			}
		})
	}
}
