package topology

import (
	"fmt"
	"net/netip"

	"github.com/hopbench/hopbench/internal/experiment"
)

// Tunnel is one end of an encapsulation between two nodes. The other node has
// its mirror image.
type Tunnel struct {
	Type      experiment.TunnelType `json:"type"`
	Interface string                `json:"interface"`
	ID        int                   `json:"id,omitempty"` // VXLAN network identifier, 24 bits
	Port      int                   `json:"port"`         // of UDP, at both ends
	MTU       int                   `json:"mtu"`          // inside, in bytes
	// Local and Remote are the addresses that it runs between.
	Local  netip.Addr `json:"local"`
	Remote netip.Addr `json:"remote"`
	// Address is this end's inside and its subnet, Peer the other's.
	Address netip.Prefix `json:"address"`
	Peer    netip.Addr   `json:"peer"`
}

// String is the tunnel as a plan says it.
func (t Tunnel) String() string {
	id := ""
	if t.Type == experiment.VXLAN {
		id = fmt.Sprintf(" id %d", t.ID)
	}
	return fmt.Sprintf("%s %s%s udp %d mtu %d from %s to %s for %s", t.Interface, t.Type, id, t.Port, t.MTU, t.Local, t.Remote, t.Peer)
}

// tunnels checks the tunnels of all nodes; interfaces and addresses are those of
// the links.
func (f *faults) tunnels(nodes []Node, interfaces map[[2]string]bool, addresses map[netip.Addr]string) {
	for _, n := range nodes {
		sockets := make(map[string]string)
		for _, t := range n.Tunnels {
			where := fmt.Sprintf("node %s: tunnel %s", n.Name, t.Interface)
			if !ValidInterface(t.Interface) || interfaces[[2]string{n.Name, t.Interface}] {
				f.add("%s: the name is not one for an interface, or taken", where)
			}
			interfaces[[2]string{n.Name, t.Interface}] = true
			f.tunnel(t, where)
			// A VXLAN socket takes all networks of its port, told apart by
			// their identifiers; one of WireGuard is a single tunnel's.
			socket := fmt.Sprintf("%s UDP port %d", t.Type, t.Port)
			if t.Type == experiment.VXLAN {
				socket = fmt.Sprintf("%s id %d", socket, t.ID)
			}
			if other, taken := sockets[socket]; taken {
				f.add("%s: %s is already that of %s", where, socket, other)
			}
			sockets[socket] = t.Interface
			if other, taken := addresses[t.Address.Addr()]; taken {
				f.add("%s: address %s is already that of %s", where, t.Address.Addr(), other)
			}
			addresses[t.Address.Addr()] = where
		}
	}
}

// tunnel checks one end by itself.
func (f *faults) tunnel(t Tunnel, where string) {
	switch {
	case t.Type != experiment.VXLAN && t.Type != experiment.WireGuard:
		f.add("%s: there are vxlan and wireguard, not %q", where, t.Type)
	case t.ID < 0 || t.ID >= 1<<24:
		f.add("%s: an id of %d is not one of 24 bits", where, t.ID)
	case t.Port < 1 || t.Port > 65535:
		f.add("%s: %d is not a UDP port", where, t.Port)
	case t.MTU < 68 || t.MTU > 65521:
		f.add("%s: an MTU of %d is not between 68 and 65521", where, t.MTU)
	case !t.Local.Is4() || !t.Remote.Is4() || !t.Peer.Is4() || !t.Address.IsValid() || !t.Address.Addr().Is4():
		f.add("%s: needs IPv4 addresses outside and inside", where)
	case !t.Address.Contains(t.Peer):
		f.add("%s: the peer %s is not in %s", where, t.Peer, t.Address.Masked())
	}
}
