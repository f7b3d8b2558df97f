package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// DialUDP opens a UDP socket to remote; local is where it sends from, whose
// invalid address or zero port the system chooses. With a device, it sends and
// receives through that network interface alone.
func DialUDP(ctx context.Context, local, remote netip.AddrPort, device string) (*Conn, error) {
	dialer := net.Dialer{Control: Options{Device: device}.Control}
	if local.IsValid() {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(local)
	} else if local.Port() != 0 {
		dialer.LocalAddr = &net.UDPAddr{Port: int(local.Port())}
	}
	c, err := dialer.DialContext(ctx, "udp", remote.String())
	if err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	conn, err := DetachUDP(c.(*net.UDPConn))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return conn, nil
}

// DetachUDP is [Detach] for a connected socket of UDP.
func DetachUDP(c *net.UDPConn) (*Conn, error) { return detach(c) }

// Most is how many packets one Send takes.
func (s *PacketSender) Most() int { return s.most }

// Packet is the i-th packet, for the caller to write to.
func (s *PacketSender) Packet(i int) []byte { return s.buf[i*s.size : (i+1)*s.size : (i+1)*s.size] }

// InterfaceMTU is the MTU of the network interface that has the address
// local, and its name; 0 if none has.
func InterfaceMTU(local netip.Addr) (int, string) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0, ""
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if prefix, ok := a.(*net.IPNet); ok && prefix.IP.Equal(local.AsSlice()) {
				return i.MTU, i.Name
			}
		}
	}
	return 0, ""
}

// ListenUDP opens a UDP socket whose port sockets made by ConnectUDP of the
// same process may share.
func ListenUDP(ctx context.Context, address netip.AddrPort) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: sharePort}
	network := "udp"
	if address.Addr().Is4() { // 0.0.0.0, too, which to package net is every address of either family
		network = "udp4"
	}
	c, err := config.ListenPacket(ctx, network, address.String())
	if err != nil {
		return nil, fmt.Errorf("listen on UDP port: %w", err)
	}
	return c.(*net.UDPConn), nil
}

// ConnectUDP opens a UDP socket at local, the address and port of one made by
// ListenUDP, for packets from and to remote alone: the kernel hands those to
// it, all others to the listening one. Between its being bound and connected, a
// few others may land in it; its reader has to check.
func ConnectUDP(ctx context.Context, local, remote netip.AddrPort) (*net.UDPConn, error) {
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(local), Control: sharePort}
	c, err := dialer.DialContext(ctx, "udp", remote.String())
	if err != nil {
		return nil, fmt.Errorf("connect UDP socket: %w", err)
	}
	return c.(*net.UDPConn), nil
}

// MaxSegments is how many packets one large buffer holds at most when the
// kernel cuts it (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const MaxSegments = 64

// maxUDPPayload is the largest UDP payload over IPv4.
const maxUDPPayload = 65507

// ErrNoBuffers says that a packet was not sent because a queue of this host
// was full (ENOBUFS).
var ErrNoBuffers = errors.New("a queue of this host is full")

// ErrTooBig says that a packet does not fit the MTU as this host knows it.
var ErrTooBig = errors.New("the packet is larger than the MTU")

// ErrPeerGone says that a host answered an earlier packet with "port
// unreachable"; the socket is as good as before.
var ErrPeerGone = errors.New("nobody listens at the other end")

// Rejected says that an error is what a host or a router answered to an earlier packet of a
// UDP socket (ICMP: a port or an address is unreachable, or a firewall forbids it), which is
// as good as before. This host itself, if it has no route, gives the same at each call.
func Rejected(err error) bool {
	return err != nil && (errors.Is(err, ErrPeerGone) || rejected(err))
}

// Message is one packet, or several of one size joined by the kernel, as
// PacketReceiver.Receive found it.
type Message struct {
	// Data is what was kept of it, Length how long it was.
	Data   []byte
	Length int
	// Segment is the size of each packet in it (the last may be smaller).
	Segment int
	// At is when the kernel received it, in nanoseconds of the host's clock;
	// 0 if it does not say.
	At int64
}

// ReceiveOptions of a PacketReceiver.
type ReceiveOptions struct {
	// Keep is how many bytes of each packet matter; the kernel may drop the
	// rest without copying it. 0 keeps everything.
	Keep int
	// Join has the kernel join packets (UDP_GRO); then all bytes are kept.
	Join bool
	// Stamps asks for the kernel's time of each packet.
	Stamps bool
}

// FragmentMode says what a socket does with packets larger than an MTU.
type FragmentMode int

// The modes (IP_MTU_DISCOVER, ip(7)).
const (
	Fragment     FragmentMode = iota // cut them in fragments
	DontFragment                     // refuse them, as far as the path's MTU is known
	ProbeMTU                         // set DF, and let the interface alone refuse them
)

// PathError is what a router, or this host, said of a packet that was too big for it.
type PathError struct {
	// Type and Code are those of the ICMP message, of ICMPv6 with V6.
	V6         bool
	Type, Code uint8

	From string // address of the router
	MTU  int    // bytes that it can forward
	// Own says that it was this host: that is the MTU of the interface that the packet was to
	// leave by.
	Own bool
	// tooBig says that it is about the size of a packet.
	tooBig bool
}
