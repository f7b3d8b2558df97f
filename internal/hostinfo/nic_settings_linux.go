package hostinfo

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/safchain/ethtool"
)

// mostNICs bounds how many network interfaces are told of: a host of containers has
// thousands.
const mostNICs = 16

// offloads are those that bear on what an end measures: the name that ethtool(8) has for
// people, and those that the kernel may have for it (net/ethtool/common.c,
// netdev_features_strings).
var offloads = []struct {
	name   string
	kernel []string
}{
	{"rx-checksum", []string{"rx-checksum"}},
	{"tx-checksum", []string{"tx-checksum-ip-generic", "tx-checksum-ipv4"}},
	{"sg", []string{"tx-scatter-gather"}},
	{"tso", []string{"tx-tcp-segmentation"}},
	{"uso", []string{"tx-udp-segmentation"}},
	{"gso", []string{"tx-generic-segmentation"}},
	{"gro", []string{"rx-gro"}},
	{"gro-hw", []string{"rx-gro-hw"}},
	{"gro-udp", []string{"rx-udp-gro-forwarding"}},
	{"lro", []string{"rx-lro"}},
}

// nics are the facts of the network interfaces in the network namespace of the calling
// thread that have a device or an address of more than their link: nic_NAME, and
// nic_NAME_offloads, nic_NAME_rings and nic_NAME_channels where the driver tells.
func nics() map[string]string {
	facts := map[string]string{}
	all, err := net.Interfaces()
	if err != nil {
		return facts
	}
	kernel, err := ethtool.NewEthtool()
	if err != nil {
		return facts
	}
	defer kernel.Close()
	told := 0
	for _, i := range all {
		folder := filepath.Join("/sys/class/net", i.Name)
		_, noDevice := os.Stat(filepath.Join(folder, "device", "driver"))
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || noDevice != nil && !global(i) {
			continue
		}
		if told++; told > mostNICs {
			break
		}
		key := "nic_" + i.Name
		driver, err := kernel.DriverName(i.Name)
		if err != nil {
			driver = "driver unknown"
		}
		says := []string{driver, "MTU " + strconv.Itoa(i.MTU)}
		// -1 where the driver does not know (linux/ethtool.h, SPEED_UNKNOWN).
		if speed := line(filepath.Join(folder, "speed")); noDevice == nil && speed != "" && speed != "-1" {
			says = append(says, speed+" Mbit/s")
		}
		facts[key] = strings.Join(says, ", ")
		if on, err := kernel.Features(i.Name); err == nil {
			facts[key+"_offloads"] = offloadsOf(on)
		}
		if r, err := kernel.GetRing(i.Name); err == nil && r.RxPending+r.TxPending > 0 {
			facts[key+"_rings"] = fmt.Sprintf("%d to receive, %d to send", r.RxPending, r.TxPending)
		}
		if c, err := kernel.GetChannels(i.Name); err == nil {
			set(facts, key+"_channels", channelsOf(c))
		}
	}
	return facts
}

// global says whether an interface has an address that hosts beyond its link may use.
func global(i net.Interface) bool {
	addresses, _ := i.Addrs()
	for _, a := range addresses {
		if p, ok := a.(*net.IPNet); ok && p.IP.IsGlobalUnicast() {
			return true
		}
	}
	return false
}

// offloadsOf names those that are on.
func offloadsOf(on map[string]bool) string {
	var names []string
	for _, o := range offloads {
		if slices.ContainsFunc(o.kernel, func(name string) bool { return on[name] }) {
			names = append(names, o.name)
		}
	}
	return cmp.Or(strings.Join(names, " "), "none")
}

func channelsOf(c ethtool.Channels) string {
	var parts []string
	for _, of := range []struct {
		n    uint32
		what string
	}{{c.CombinedCount, "combined"}, {c.RxCount, "to receive"}, {c.TxCount, "to send"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(parts, ", ")
}
