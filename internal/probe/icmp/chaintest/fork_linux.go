package chaintest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Fork is a path that splits in two branches of two routers each, between
// which its first router balances by addresses, protocol and ports:
//
//	               ┌── a1 ── a2 ──┐
//	source ── fork ┤              ├ destination
//	               └── b1 ── b2 ──┘
type Fork struct {
	Source *Node
	Target netip.Addr
	// Branches are the hops of each direction, from fork to destination.
	Branches [2][]netip.Addr
}

// NewFork builds a Fork (IPv4) and takes it down with the test.
func NewFork(t testing.TB) *Fork {
	t.Helper()
	testutil.Need(t, testutil.Entered(), "user and network namespaces")
	node := map[string]*Node{}
	for _, name := range []string{"source", "fork", "a1", "a2", "b1", "b2", "destination"} {
		node[name] = newNode(t, name)
	}
	prefix := netip.MustParsePrefix
	join := func(near, device, nearAddress, far, farDevice, farAddress string) {
		connect(t, end{node[near], device, []netip.Prefix{prefix(nearAddress)}}, end{node[far], farDevice, []netip.Prefix{prefix(farAddress)}})
	}
	join("source", "right", "10.78.0.1/24", "fork", "left", "10.78.0.2/24")
	f := &Fork{Source: node["source"], Target: netip.MustParseAddr("10.79.0.1")}
	everything, target := prefix("0.0.0.0/0"), netip.PrefixFrom(f.Target, 32)
	gateway := netip.MustParseAddr
	for i, branch := range []string{"a", "b"} {
		subnet := "10.78.1"
		if branch == "b" {
			subnet = "10.78.2"
		}
		one, two := branch+"1", branch+"2"
		join("fork", branch, subnet+".1/30", one, "left", subnet+".2/30")
		join(one, "right", subnet+".5/30", two, "left", subnet+".6/30")
		join(two, "right", subnet+".9/30", "destination", branch, subnet+".10/30")
		node[one].AddRoute(t, target, gateway(subnet+".6"), 0)
		node[one].AddRoute(t, everything, gateway(subnet+".1"), 0)
		node[two].AddRoute(t, target, gateway(subnet+".10"), 0)
		node[two].AddRoute(t, everything, gateway(subnet+".5"), 0)
		f.Branches[i] = []netip.Addr{gateway("10.78.0.2"), gateway(subnet + ".2"), gateway(subnet + ".6"), f.Target}
	}
	node["destination"].addAddress(t, "lo", target)
	node["destination"].AddRoute(t, everything, gateway("10.78.1.9"), 0)
	node["source"].AddRoute(t, everything, gateway("10.78.0.2"), 0)
	node["fork"].Sysctl(t, "net.ipv4.fib_multipath_hash_policy", "1")
	err := node["fork"].handle.RouteAdd(&netlink.Route{
		Dst: &net.IPNet{IP: f.Target.AsSlice(), Mask: net.CIDRMask(32, 32)},
		MultiPath: []*netlink.NexthopInfo{
			{Gw: net.ParseIP("10.78.1.2").To4()}, {Gw: net.ParseIP("10.78.2.2").To4()},
		},
	})
	if err != nil {
		t.Fatalf("fork: multipath route: %v", err)
	}
	node["source"].waitFor(t, f.Target)
	return f
}
