package hostinfo

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/safchain/ethtool"

	"github.com/hopbench/hopbench/internal/testutil"
)

// What an interface offloads is told as it is set, and no more of interfaces than that of
// those which traffic may use.
func TestNICs(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, func(t *testing.T) {
		for _, args := range []string{
			"link add lan1 type veth peer name lan2", "link set lan1 up mtu 1400", "link set lan2 up",
			"address add 10.9.9.1/24 dev lan1", "link set lo up",
		} {
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", args, err, out)
			}
		}
		kernel, err := ethtool.NewEthtool()
		testutil.OK(t, err)
		defer kernel.Close()
		for _, tso := range []bool{true, false} {
			testutil.OK(t, kernel.Change("lan1", map[string]bool{"tx-tcp-segmentation": tso}))
			facts := nics()
			on := strings.Fields(facts["nic_lan1_offloads"])
			has := false
			for _, name := range on {
				has = has || name == "tso"
			}
			if facts["nic_lan1"] != "veth, MTU 1400" || has != tso || len(on) < 3 || facts["nic_lan1_channels"] == "" {
				t.Errorf("with TSO %v: %v", tso, facts)
			}
			if facts["nic_lo"]+facts["nic_lan2"] != "" {
				t.Errorf("it tells of others: %v", facts)
			}
		}
	})
}

func TestOffloadsOf(t *testing.T) {
	for want, on := range map[string]map[string]bool{
		"none":            {"rx-gro": false, "highdma": true},
		"tx-checksum gro": {"rx-gro": true, "tx-checksum-ipv4": true, "tx-checksum-ip-generic": false},
	} {
		if got := offloadsOf(on); got != want {
			t.Errorf("%v is %q, want %q", on, got, want)
		}
	}
}
