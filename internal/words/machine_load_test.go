package words

import (
	"strings"
	"testing"
)

func TestLoadedMachine(t *testing.T) {
	for _, c := range []struct {
		runnable, cpus int
		stolen         float64
		says           string
	}{
		{0, 2, 0, ""},
		{1, 8, 0.01, ""},
		{1, 2, 0, "1 task other than hopbench ran or waited on 2 CPUs."},
		{0, 2, 0.2, "a hypervisor takes 20"},
		{9, 4, 0.2, "9 tasks other than hopbench ran or waited on 4 CPUs, and a hypervisor"},
	} {
		if got := LoadedMachine(c.runnable, c.cpus, c.stolen); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
