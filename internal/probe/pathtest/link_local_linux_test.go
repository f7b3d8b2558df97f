package pathtest

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Two hosts reach each other at addresses of their link, whose zones are the names of
// other interfaces at each end: nothing is translated there.
func TestLinkLocalAddresses(t *testing.T) {
	c := chaintest.New(t, 0)
	server := serveIn(t, func(f func()) { c.Destination().Do(t, f) }, netip.AddrPortFrom(linkLocal(t, c.Destination(), "left"), 0))
	target := netip.AddrPortFrom(server.Addr().WithZone("right"), server.Port())
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Duration: 0.1, MaxWarmup: 0.1, Flows: 2},
		{Kind: measurement.UDP, Duration: 0.1, MaxWarmup: 0.1, Flows: 2, RateBitsPerSecond: 1e6},
		{Kind: measurement.UDP, Duration: 0.1, MaxWarmup: 0.1, RateBitsPerSecond: 1e6, Direction: measurement.Receive},
		{Kind: measurement.RR, Duration: 0.1, Protocol: measurement.OverUDP},
		{Kind: measurement.CRR, Duration: 0.1},
		{Kind: measurement.FTP, FileBytes: 1e6, Flows: 2},
		{Kind: measurement.FTP, FileBytes: 1e6, Direction: measurement.Send},
	} {
		a := runIn(t, func(f func()) { c.Source().Do(t, f) }, probe.Request{ID: "local", Spec: spec, Target: target})
		if a.Error != "" || strings.Contains(strings.Join(a.Facts, "; "), "translated") {
			t.Errorf("%s %s: %s %q", spec.Kind, spec.Direction, a.Error, a.Facts)
		}
		for _, f := range a.Flows {
			if strings.Contains(f.Source+f.Destination, "%left") {
				t.Errorf("%s %s: from %s to %s", spec.Kind, spec.Direction, f.Source, f.Destination)
			}
		}
	}
}

// linkLocal is the address of a device that the kernel gave it.
func linkLocal(t *testing.T, n *chaintest.Node, device string) (address netip.Addr) {
	t.Helper()
	n.Do(t, func() {
		i, err := net.InterfaceByName(device)
		testutil.OK(t, err)
		all, err := i.Addrs()
		testutil.OK(t, err)
		for _, a := range all {
			if ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); ok && ip.Is6() && ip.IsLinkLocalUnicast() {
				address = ip.WithZone(device)
			}
		}
	})
	testutil.Need(t, address.IsValid(), "a link-local address of IPv6 on a new device")
	return address
}
