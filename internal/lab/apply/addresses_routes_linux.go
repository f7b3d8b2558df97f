package apply

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// standbyMetric is that of a second route to a destination that is switched;
// the first has 0, which the kernel prefers.
const standbyMetric = 1 << 16

// ReplaceRoute adds a route in the place of the one to the same destination,
// and before that, one just like it with a larger metric. A packet whose lookup
// has found a route that is replaced before it is read (fib_dead in
// fib_table_lookup of net/ipv4/fib_trie.c) is passed on to the next in the
// list, and would be answered "unreachable" if there were none.
func (n *Node) ReplaceRoute(r topology.Route) error {
	link, err := n.handle.LinkByName(r.Interface)
	if err != nil {
		return fmt.Errorf("find the interface: %w", err)
	}
	for _, metric := range []int{standbyMetric, 0} {
		route := kernelRoute(r, n.spec.CongestionControl, link.Attrs().Index)
		route.Priority = metric
		if err := n.handle.RouteReplace(&route); err != nil {
			return err
		}
	}
	return nil
}

// ForgetPathMTUs has the node forget what routers told it of MTUs (net/ipv4/route.c), which it
// would believe for ten minutes.
func (n *Node) ForgetPathMTUs() error {
	return n.Within(func() error { return writeSysctl("net.ipv4.route.flush", "1") })
}

func (n *Node) setAddress(o plan.SetAddress, index int) error {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index, Name: o.Interface}}
	addr := &netlink.Addr{IPNet: ipNet(o.Address.Addr(), o.Address.Bits())}
	if o.NoPrefixRoute {
		addr.Flags = unix.IFA_F_NOPREFIXROUTE
	}
	if err := n.handle.AddrAdd(device, addr); err != nil {
		return err
	}
	if err := n.handle.LinkSetUp(device); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	return nil
}

// kernelRoute is r as the kernel takes it, over the interface of that index.
func kernelRoute(r topology.Route, congestion string, index int) netlink.Route {
	route := netlink.Route{
		LinkIndex: index,
		Dst:       ipNet(r.Destination.Addr(), r.Destination.Bits()),
		Congctl:   congestion,
	}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	return route
}

func (n *Node) addRoute(o plan.AddRoute, index int) error {
	route := kernelRoute(o.Route, o.CongestionControl, index)
	err := n.handle.RouteAdd(&route)
	if errors.Is(err, unix.EINVAL) && o.CongestionControl != "" {
		// What the kernel says of an algorithm that it does not have.
		route.Congctl = ""
		if n.handle.RouteAdd(&route) == nil {
			return fmt.Errorf("this kernel has no congestion control %q (see net.ipv4.tcp_available_congestion_control): %w", o.CongestionControl, err)
		}
	}
	return err
}

func ipNet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}
