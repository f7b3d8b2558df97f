package hostinfo

import (
	"context"
	"maps"
	"strings"
)

// Hardware is what this machine is made of, as far as its kernel, firmware and cloud say:
// machine, cloud, and driver, speed, offloads, rings and channels of network interfaces.
func Hardware(ctx context.Context) map[string]string {
	facts := map[string]string{}
	set(facts, "machine", strings.TrimSpace(line("/sys/class/dmi/id/sys_vendor")+" "+line("/sys/class/dmi/id/product_name")))
	set(facts, "cloud", cloudOf(ctx))
	maps.Copy(facts, nics())
	return facts
}
