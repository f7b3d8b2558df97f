package hostinfo

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// LinkSpeed is the speed, in bit/s, of the network interface that has a local address,
// as its driver says; 0 where none does, and for interfaces without a device of their own,
// whose speed means nothing (veth says 10 Gbit/s), and for virtio, whose host decides.
func LinkSpeed(local netip.Addr) float64 {
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == local.WithZone("") {
				return linkSpeed("/sys/class/net", i)
			}
		}
	}
	return 0
}

// linkSpeed reads /sys/class/net/NAME (sysfs-class-net in the kernel's Documentation/ABI),
// which may be that of another network namespace: the index and the hardware address have
// to be those of the interface.
func linkSpeed(folder string, i net.Interface) float64 {
	at := filepath.Join(folder, i.Name)
	read := func(name string) string { return line(filepath.Join(at, name)) }
	if read("ifindex") != strconv.Itoa(i.Index) || read("address") != i.HardwareAddr.String() {
		return 0
	}
	if _, err := os.Stat(filepath.Join(at, "device")); err != nil {
		return 0
	}
	// virtio_net says what its host was told to say, or nothing.
	driver, err := os.Readlink(filepath.Join(at, "device", "driver"))
	if err != nil || filepath.Base(driver) == "virtio_net" {
		return 0
	}
	megabits, err := strconv.ParseUint(read("speed"), 10, 31)
	if err != nil || megabits > maxLinkMegabits {
		return 0 // -1, or no carrier
	}
	return float64(megabits) * 1e6
}

// maxLinkMegabits is beyond any link; SPEED_UNKNOWN is 2³²−1 on some drivers.
const maxLinkMegabits = 10_000_000
