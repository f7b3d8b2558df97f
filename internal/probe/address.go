package probe

import "net/netip"

// plainAddr is an address without what may differ between two sockets of one host.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
