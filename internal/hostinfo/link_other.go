//go:build !linux

package hostinfo

import "net/netip"

// LinkSpeed is not known here.
func LinkSpeed(netip.Addr) float64 { return 0 }
