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
	var dialer net.Dialer
	if local.IsValid() {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(local)
	} else if local.Port() != 0 {
		dialer.LocalAddr = &net.UDPAddr{Port: int(local.Port())}
	}
	if device != "" {
		dialer.Control = bindToDevice(device)
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
