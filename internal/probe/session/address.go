package session

import "net/netip"

// PlainAddr is an address without what may differ between two sockets of one host.
func PlainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
