package apply

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// Feature is something that a lab needs or can use, which a node tries by really
// using it.
type Feature struct {
	Name, Serves string
	Remedy       string // how to get it
	Required     bool   // no lab works without
	try          func(*Node) error
}

// Features are all of them. veth comes first: some others are tried on it.
func Features() []Feature {
	module := func(config, name string) string {
		return fmt.Sprintf("a kernel with %s; where it is a module: sudo modprobe %s", config, name)
	}
	link := func(make func(netlink.LinkAttrs) netlink.Link) func(*Node) error {
		return func(n *Node) error {
			attributes := netlink.NewLinkAttrs()
			l := make(attributes)
			l.Attrs().Name = "probe-" + l.Type()
			return n.handle.LinkAdd(l)
		}
	}
	features := []Feature{
		{"veth", "links between nodes", module("CONFIG_VETH", "veth"), true, (*Node).probeVeth},
		{"tbf", "egress metering", module("CONFIG_NET_SCH_TBF", "sch_tbf"), true, onVeth(func(n *Node, index int) error {
			return n.handle.QdiscReplace(tbf(index, plan.EgressBucket(1e9, topology.DefaultMTU)))
		})},
		{"forwarding", "routers, and every other hop that is not a link",
			"run it on the host, or in a container with --privileged or --security-opt systempaths=unconfined", true,
			func(*Node) error { return writeSysctl("net.ipv4.ip_forward", "1") }},
		{"TAP devices", "fast link emulators",
			module("CONFIG_TUN", "tun") + "; /dev/net/tun must be open to this user (in a container: --device /dev/net/tun). Without it link emulators use packet sockets, which are slower", false,
			func(*Node) error { return closed(linkem.OpenTAP("probe-tap", linkem.Config{})) }},
		{"packet sockets", "link emulators without TAP devices", module("CONFIG_PACKET", "af_packet"), false, onVeth(func(*Node, int) error {
			return closed(linkem.OpenPacket("probe-a"))
		})},
		{"congestion control", topology.DefaultCongestionControl + " is there", module("CONFIG_TCP_CONG_CUBIC", "tcp_cubic"), true, probeCongestion},
		{"ping in the lab", "ICMP echo without privileges", "nothing: nodes then use raw sockets, which they may", false, func(*Node) error { return probePing() }},
		{"netem", "the kernel's own impairments", "nothing: link emulators replace it", false, onVeth(func(n *Node, index int) error {
			// Another handle than tbf's: a qdisc is not replaced by one of another kind.
			root := netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(2, 0)}
			return n.handle.QdiscReplace(&netlink.Netem{QdiscAttrs: root, Latency: 1000, Limit: 1000})
		})},
		{"vxlan", "tunnels between nodes", module("CONFIG_VXLAN", "vxlan"), false, link(func(a netlink.LinkAttrs) netlink.Link {
			return &netlink.Vxlan{LinkAttrs: a, VxlanId: 1, Port: 4789}
		})},
	}
	for _, f := range filter.Features() {
		features = append(features, Feature{f.Name, f.Serves, module(f.Config, f.Module), false, func(n *Node) error { return f.Try(int(n.ns.Fd())) }})
	}
	return append(features,
		Feature{"wireguard", "tunnels of type wireguard", module("CONFIG_WIREGUARD", "wireguard") + "; tunnels of type vxlan do without it", false,
			link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Wireguard{LinkAttrs: a} })},
		Feature{"bridge", "software switches of endpoints with vswitch: true", module("CONFIG_BRIDGE", "bridge"), false,
			link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Bridge{LinkAttrs: a} })},
	)
}

// Probe tries every feature in the node and says by name why one does not work,
// empty where it does. It leaves devices behind, which go with the lab.
func (n *Node) Probe() (map[string]string, error) {
	found := make(map[string]string)
	err := n.Within(func() error {
		for _, f := range Features() {
			switch err := f.try(n); {
			case err == nil:
				found[f.Name] = ""
			case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
				found[f.Name] = fmt.Sprintf("this kernel lacks it (%v)", err)
			default:
				found[f.Name] = err.Error()
			}
		}
		return nil
	})
	return found, err
}

// onVeth tries something on the device that probeVeth has made.
func onVeth(try func(n *Node, index int) error) func(*Node) error {
	return func(n *Node) error {
		link, err := n.handle.LinkByName("probe-a")
		if err != nil {
			return errors.New("not tried, because veth does not work")
		}
		return try(n, link.Attrs().Index)
	}
}

// closed closes what could be opened.
func closed(p *linkem.Port, err error) error {
	if err != nil {
		return err
	}
	return p.Close()
}

func (n *Node) probeVeth() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "probe-a"
	pair := netlink.NewVeth(attributes)
	pair.PeerName = "probe-b"
	if err := n.handle.LinkAdd(pair); err != nil {
		return err
	}
	return n.handle.LinkSetUp(pair)
}

func probeCongestion(*Node) error {
	available, err := filter.ReadSysctl("net.ipv4.tcp_available_congestion_control")
	if err == nil && !strings.Contains(" "+available+" ", " "+topology.DefaultCongestionControl+" ") {
		err = fmt.Errorf("the kernel offers %s", available)
	}
	return err
}

// probePing opens the kind of socket that needs no privilege to send echo requests.
func probePing() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// HostPing says whether this process may ping on the host: with a raw socket, which needs
// CAP_NET_RAW, or without privileges.
func HostPing() error {
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err == nil {
		return unix.Close(fd)
	}
	err := probePing()
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("net.ipv4.ping_group_range is %q", strings.Join(strings.Fields(HostSetting("net.ipv4.ping_group_range")), " "))
	}
	return err
}
