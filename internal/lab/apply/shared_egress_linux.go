package apply

import (
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A node with a shared egress. Each path keeps an interface of its own, with its
// name and address, but that is a macvlan on a bridge whose ports are the
// devices of the links; and on the bridge is the token bucket:
//
//	plain ── macvlan ──┐                  ┌── port0 ── link 0
//	                   ├── bridge "egress" ┤
//	direct ─ macvlan ──┘   (token bucket)  └── port1 ── link 1
//
// No device in between takes a packet away from its socket, so TCP sees how much
// of its data waits in the bucket (TCP small queues) as with a bucket on the
// interface itself. Redirecting to an IFB device would be less to build, but
// act_mirred passes on a clone, which no socket owns (tcf_mirred_to_dev in
// net/sched/act_mirred.c): TCP would fill the bucket's queue and lose packets in
// its own host.
//
// The bridge learns nothing: which port leads to a neighbour is entered, and so
// are the neighbours themselves, or a broadcast would teach both ends of two
// paths the way of the other.

// shareEgress makes the bridge with its bucket. Where the kernel does not have
// what it takes, the interfaces are metered one by one, which is said.
func (b *Builder) shareEgress(o plan.ShareEgress) error {
	n := b.nodes[o.Node]
	err := n.shareEgress(o)
	if errors.Is(err, unix.EOPNOTSUPP) {
		b.AddFact("each interface of %s is metered by itself, not all of them together: this kernel lacks bridges or macvlan devices (CONFIG_BRIDGE, CONFIG_MACVLAN)", o.Node)
		return nil
	}
	n.sharing = err == nil
	return explainKernel(err)
}

func (n *Node) shareEgress(o plan.ShareEgress) error {
	if err := n.leaveBridgeHooks(); err != nil {
		return err
	}
	bridge, err := n.addBridge(topology.SharedDevice)
	if err != nil {
		return err
	}
	// One that is not used shows whether the kernel has them, before links
	// have the names of ports.
	trial := n.macvlan("trial", bridge, topology.DefaultMTU)
	if err := n.handle.LinkAdd(trial); err != nil {
		return errors.Join(fmt.Errorf("make a macvlan: %w", err), n.handle.LinkDel(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: bridge}}))
	}
	if err := n.handle.LinkDel(trial); err != nil {
		return fmt.Errorf("remove a macvlan: %w", err)
	}
	if err := n.handle.QdiscReplace(tbf(bridge, o.Bucket)); err != nil {
		return err
	}
	return n.handle.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: bridge, Name: topology.SharedDevice}})
}

// macvlan is an interface of a path: private, since one path's frames are not
// for another's.
func (n *Node) macvlan(name string, bridge, mtu int) *netlink.Macvlan {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.ParentIndex, attributes.MTU = name, bridge, mtu
	return &netlink.Macvlan{LinkAttrs: attributes, Mode: netlink.MACVLAN_MODE_PRIVATE}
}

// linkDevice is the name of a link's device at an end.
func (b *Builder) linkDevice(e topology.End, link int) string {
	if b.nodes[e.Node].sharing {
		return topology.SharedPort(link)
	}
	return e.Interface
}

// joinEgress puts the device of a link into the bridge and makes the interface
// of its path. Where there is no bridge it meters the interface.
func (n *Node) joinEgress(o plan.JoinEgress, indexes map[string]int) error {
	if !n.sharing {
		link, err := n.handle.LinkByName(o.Interface)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", o.Interface, err)
		}
		return n.handle.QdiscReplace(tbf(link.Attrs().Index, o.Bucket))
	}
	bridge, err := n.handle.LinkByName(topology.SharedDevice)
	if err != nil {
		return fmt.Errorf("find %s: %w", topology.SharedDevice, err)
	}
	name := topology.SharedPort(o.Link)
	port, err := n.handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find port %s: %w", name, err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"put it into the bridge", func() error { return n.handle.LinkSetMaster(port, bridge) }},
		{"isolate it", func() error { return n.handle.LinkSetIsolated(port, true) }},
		{"stop learning", func() error { return n.handle.LinkSetLearning(port, false) }},
		{"stop flooding", func() error { return n.handle.LinkSetFlood(port, false) }},
		{"bring it up", func() error { return n.handle.LinkSetUp(port) }},
		// A bridge takes the smallest MTU of its ports until it is told one.
		{"set the bridge's MTU", func() error { return n.handle.LinkSetMTU(bridge, max(bridge.Attrs().MTU, o.MTU)) }},
		{"make the interface", func() error { return n.handle.LinkAdd(n.macvlan(o.Interface, bridge.Attrs().Index, o.MTU)) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("port %s: %s: %w", name, step.what, err)
		}
	}
	indexes[name], indexes[topology.SharedDevice] = port.Attrs().Index, bridge.Attrs().Index
	return nil
}

// enterNeighbours tells the bridges which port leads to each neighbour, and their
// nodes the neighbours' addresses. Every interface is there by now.
func (b *Builder) enterNeighbours() error {
	for node, ends := range topology.SharedEgress(b.topology) {
		n := b.nodes[node]
		if !n.sharing {
			continue
		}
		for _, e := range ends {
			if err := n.enterNeighbour(b.nodes[e.Peer.Node], e); err != nil {
				return fmt.Errorf("node %s: enter the neighbour of %s: %w", node, e.Interface, err)
			}
		}
	}
	return nil
}

func (n *Node) enterNeighbour(peer *Node, e topology.SharedEnd) error {
	far, err := peer.handle.LinkByName(e.Peer.Interface)
	if err != nil {
		return fmt.Errorf("find %s:%s: %w", e.Peer.Node, e.Peer.Interface, err)
	}
	near, err := n.handle.LinkByName(e.Interface)
	if err != nil {
		return err
	}
	port, err := n.handle.LinkByName(topology.SharedPort(e.Link))
	if err != nil {
		return err
	}
	address := far.Attrs().HardwareAddr
	if err := n.handle.NeighSet(&netlink.Neigh{
		LinkIndex: near.Attrs().Index, IP: e.Peer.Address.Addr().AsSlice(), HardwareAddr: address, State: netlink.NUD_PERMANENT,
	}); err != nil {
		return fmt.Errorf("set %s: %w", e.Peer.Address.Addr(), err)
	}
	// What iproute2 calls static: it does not age, and it is not this host's own.
	if err := n.handle.NeighSet(&netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, HardwareAddr: address, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
	}); err != nil {
		return fmt.Errorf("set the port of %s: %w", address, err)
	}
	return nil
}
