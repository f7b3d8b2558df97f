package apply

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// errNoBridge is what a kernel answers with EOPNOTSUPP, in words.
var errNoBridge = errors.New("this kernel has no bridges, of which an endpoint with vswitch: true needs one for each path (CONFIG_BRIDGE; where it is a module: sudo modprobe bridge)")

// behindSwitches tells where the devices of a link are: at its ends, or at the
// switches before them, to which it makes the pairs.
func (b *Builder) behindSwitches(o plan.AddLink) ([2]topology.End, error) {
	link, l := o.Index, o.Link
	ends := [2]topology.End{l.A, l.B}
	for i, e := range ends {
		if e.Switch == "" {
			ends[i].Interface = b.linkDevice(e, link)
			continue
		}
		at := b.nodes[e.Switch]
		if err := addVeth(b.nodes[e.Node], b.linkDevice(e, link), int(at.ns.Fd()), topology.SwitchNodePort(link), l.EffectiveMTU()); err != nil {
			return ends, fmt.Errorf("join %s:%s to the switch %s: %w", e.Node, e.Interface, e.Switch, err)
		}
		ends[i].Node, ends[i].Interface = e.Switch, topology.SwitchLinkPort(link)
	}
	return ends, nil
}

// bridgeHooks pass bridged packets to the firewall of the node where the kernel
// has br_netfilter, built in or loaded; a bridge of a lab shall cost the same
// everywhere.
var bridgeHooks = [...]string{
	"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-arptables",
}

// joinSwitch makes the bridge of one link and puts both ports into it. Without
// spanning tree a port forwards as soon as it is up.
func (n *Node) joinSwitch(o plan.JoinSwitch, indexes map[string]int) error {
	if err := n.leaveBridgeHooks(); err != nil {
		return err
	}
	bridgeName := topology.SwitchBridge(o.Link)
	bridge, err := n.addBridge(bridgeName)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errNoBridge
	} else if err != nil {
		return err
	}
	for _, name := range []string{topology.SwitchNodePort(o.Link), topology.SwitchLinkPort(o.Link)} {
		port, err := n.handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find port %s: %w", name, err)
		}
		if err := n.handle.LinkSetMasterByIndex(port, bridge); err != nil {
			return fmt.Errorf("put port %s into it: %w", name, err)
		}
		if err := n.handle.LinkSetUp(port); err != nil {
			return fmt.Errorf("bring port %s up: %w", name, err)
		}
		indexes[name] = port.Attrs().Index
	}
	if err := n.handle.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: bridge, Name: bridgeName}}); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	indexes[bridgeName] = bridge
	return nil
}

// leaveBridgeHooks keeps what the node bridges from its firewall.
func (n *Node) leaveBridgeHooks() error {
	return n.Within(func() error {
		for _, key := range bridgeHooks {
			if err := writeSysctl(key, "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				n.refused = append(n.refused, fmt.Sprintf("node %s: %s=0 was refused, so what it bridges also passes the hooks of the firewall: %v", n.spec.Name, key, err))
			}
		}
		return nil
	})
}

// addBridge makes a bridge and returns its index. It is down.
func (n *Node) addBridge(name string) (int, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	snooping := false // there are no multicast groups to learn of
	if err := n.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: &snooping}); err != nil {
		return 0, fmt.Errorf("make bridge: %w", err)
	}
	bridge, err := n.handle.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("find bridge: %w", err)
	}
	return bridge.Attrs().Index, nil
}
