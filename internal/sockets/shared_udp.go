package sockets

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// ListenUDP opens a UDP socket whose port sockets made by ConnectUDP of the
// same process may share.
func ListenUDP(ctx context.Context, address netip.AddrPort) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: sharePort}
	c, err := config.ListenPacket(ctx, "udp", address.String())
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
