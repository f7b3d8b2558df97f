package hostinfo

import (
	"bytes"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestIdentities(t *testing.T) {
	if a, b := HostID(), HostID(); a == "" || a != b || len(a) != 16 {
		t.Errorf("host identities %q and %q", a, b)
	}
	if a, b := NetworkID(), NetworkID(); a == "" || a != b || a == HostID() {
		t.Errorf("network identities %q and %q", a, b)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	testutil.OK(t, err)
	if id := []byte(HostID()); bytes.Contains(boot, id) {
		t.Errorf("%s gives the machine's own identity away", id)
	}
}
