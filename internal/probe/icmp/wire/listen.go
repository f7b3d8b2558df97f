package wire

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/icmp"
)

// ListenEcho opens an ICMP echo socket as systems other than Linux and Windows
// offer it: a raw one where that is allowed, otherwise a datagram one, which
// macOS lets every user have. It returns the socket, the address to send to, and
// the kind.
func ListenEcho(source, target netip.Addr) (pc *icmp.PacketConn, to net.Addr, kind string, err error) {
	raw, datagram := "ip4:icmp", "udp4"
	if target.Is6() {
		raw, datagram = "ip6:ipv6-icmp", "udp6"
	}
	local := ""
	if source.IsValid() {
		local = source.String()
	}
	pc, rawErr := icmp.ListenPacket(raw, local)
	if rawErr == nil {
		return pc, &net.IPAddr{IP: target.AsSlice(), Zone: target.Zone()}, RawSocket, nil
	}
	if pc, err = icmp.ListenPacket(datagram, local); err != nil {
		return nil, nil, "", fmt.Errorf("open ICMP socket: raw: %w; datagram: %w; "+
			"run with administrator's rights, or measure round trips with an rr test, which needs none", rawErr, err)
	}
	return pc, &net.UDPAddr{IP: target.AsSlice(), Zone: target.Zone()}, DatagramSocket, nil
}

// HostOf is the address, without zone, that a packet of such a socket came from.
func HostOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
