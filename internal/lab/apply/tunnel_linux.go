package apply

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// What a kernel answers with EOPNOTSUPP, in words.
var (
	errNoVXLAN     = errors.New("this kernel has no VXLAN (CONFIG_VXLAN; where it is a module: sudo modprobe vxlan)")
	errNoWireGuard = errors.New("this kernel has no WireGuard (CONFIG_WIREGUARD; where it is a module: sudo modprobe wireguard); a tunnel of type vxlan does without it")
)

// addTunnel makes one end. It stays down until it has its address.
func (b *Builder) addTunnel(o plan.AddTunnel) error {
	n, t := b.nodes[o.Node], o.Tunnel
	if t.Type == experiment.VXLAN {
		return n.addVXLAN(t)
	}
	keys, err := b.keysOf(t)
	if err != nil {
		return err
	}
	return n.addWireGuard(t, keys)
}

// keysOf are those of both ends of a tunnel, made for the first that asks.
func (b *Builder) keysOf(t topology.Tunnel) (tunnelKeys, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	inside := t.Address.Masked()
	keys, known := b.secret[inside]
	if !known {
		var err error
		if keys, err = newTunnelKeys(t.Address.Addr()); err != nil {
			return keys, err
		}
		b.secret[inside] = keys
	}
	return keys, nil
}

// addVXLAN makes an end of a point-to-point VXLAN (RFC 7348): the only entry of
// its forwarding table is that everything goes to the remote address, and
// nothing is learnt. The outer time to live starts as that of any packet. Its
// UDP source port is the kernel's hash of the inner flow (udp_flow_src_port in
// include/net/udp.h), so that what balances by 5-tuple spreads inner flows.
func (n *Node) addVXLAN(t topology.Tunnel) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = t.Interface, t.MTU
	err := n.handle.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attributes, VxlanId: t.ID, Port: t.Port,
		SrcAddr: t.Local.AsSlice(), Group: t.Remote.AsSlice(), TTL: topology.InitialTTL,
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errNoVXLAN
	}
	return err
}

// tunnelKeys are those of the two ends of a WireGuard tunnel. They are made anew
// for each lab and never leave the supervisor.
type tunnelKeys struct {
	first  netip.Addr // inside address of the end that has the first key
	secret [2]wgtypes.Key
}

func newTunnelKeys(first netip.Addr) (tunnelKeys, error) {
	keys := tunnelKeys{first: first}
	for i := range keys.secret {
		var err error
		if keys.secret[i], err = wgtypes.GeneratePrivateKey(); err != nil {
			return keys, fmt.Errorf("make a WireGuard key: %w", err)
		}
	}
	return keys, nil
}

// of returns an end's own private key and the other's public one.
func (k tunnelKeys) of(inside netip.Addr) (own, peer wgtypes.Key) {
	if inside == k.first {
		return k.secret[0], k.secret[1].PublicKey()
	}
	return k.secret[1], k.secret[0].PublicKey()
}

// addWireGuard makes an end of a tunnel of the kernel's WireGuard with a single
// peer. All inner flows share one pair of outer ports.
func (n *Node) addWireGuard(t topology.Tunnel, keys tunnelKeys) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = t.Interface, t.MTU
	if err := n.handle.LinkAdd(&netlink.Wireguard{LinkAttrs: attributes}); errors.Is(err, unix.EOPNOTSUPP) {
		return errNoWireGuard
	} else if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	own, peer := keys.of(t.Address.Addr())
	config := wgtypes.Config{
		PrivateKey: &own, ListenPort: &t.Port, ReplacePeers: true,
		Peers: []wgtypes.PeerConfig{{
			PublicKey:  peer,
			Endpoint:   net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.Remote, uint16(t.Port))),
			AllowedIPs: []net.IPNet{*ipNet(t.Peer, t.Peer.BitLen())},
		}},
	}
	return n.Within(func() error { return configureWireGuard(t.Interface, config) })
}

// configureWireGuard acts on the network namespace of the calling thread.
func configureWireGuard(name string, config wgtypes.Config) error {
	client, err := wgctrl.New()
	if err != nil {
		return fmt.Errorf("reach WireGuard's netlink family: %w", err)
	}
	if err := client.ConfigureDevice(name, config); err != nil {
		return errors.Join(fmt.Errorf("configure it: %w", err), client.Close())
	}
	return client.Close()
}
