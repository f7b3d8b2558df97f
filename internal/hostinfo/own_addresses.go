package hostinfo

import (
	"fmt"
	"net"
	"net/netip"
)

// LostAddress is an address that this host had, and that nothing can reach any more.
type LostAddress struct {
	Address netip.Addr `json:"address"`
	// Down is the interface that has it and is set down; empty where none has it.
	Down string `json:"down,omitempty"`
}

// Says is that of a host by its name.
func (l LostAddress) Says(host string) string {
	if l.Down != "" {
		return fmt.Sprintf("%s has its interface %s with the address %v down", host, l.Down, l.Address)
	}
	return fmt.Sprintf("%s has lost its address %v", host, l.Address)
}

// Addresses are those of all interfaces of this host, up or down.
func Addresses() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // what cannot be read is absent
	}
	return addressesOf(all)
}

// Lost says whether no interface that is up has an address, which this host had before. It says
// false where the system does not tell.
func Lost(address netip.Addr) (LostAddress, bool) {
	lost := LostAddress{Address: plain(address)}
	all, err := net.Interfaces()
	if err != nil {
		return lost, false
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			return lost, false // it may have gone just now, or not
		}
		for _, a := range addressesOf(addresses) {
			switch {
			case a != lost.Address:
			case i.Flags&net.FlagUp != 0:
				return lost, false
			default:
				lost.Down = i.Name
			}
		}
	}
	return lost, true
}

func addressesOf(all []net.Addr) (found []netip.Addr) {
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, plain(p.Addr()))
		}
	}
	return found
}

// plain is an address as interfaces have it.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
