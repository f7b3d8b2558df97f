package hostinfo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// Hardware is what this machine is made of, as far as its kernel, firmware and cloud say:
// machine, cloud, and nic_NAME of each network interface that has a device.
func Hardware(ctx context.Context) map[string]string {
	facts := map[string]string{}
	set(facts, "machine", strings.TrimSpace(line("/sys/class/dmi/id/sys_vendor")+" "+line("/sys/class/dmi/id/product_name")))
	set(facts, "cloud", cloudOf(ctx))
	drivers, _ := filepath.Glob("/sys/class/net/*/device/driver") // the pattern is good
	for _, d := range drivers {
		driver, err := os.Readlink(d)
		if err != nil {
			continue
		}
		device := filepath.Dir(filepath.Dir(d))
		says := []string{filepath.Base(driver), "MTU " + line(filepath.Join(device, "mtu"))}
		// -1 where the driver does not know (linux/ethtool.h, SPEED_UNKNOWN).
		if speed := line(filepath.Join(device, "speed")); speed != "" && speed != "-1" {
			says = append(says, speed+" Mbit/s")
		}
		set(facts, "nic_"+filepath.Base(device), strings.Join(says, ", "))
	}
	return facts
}
