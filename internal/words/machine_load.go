package words

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
)

// LoadedMachine warns of a machine on which so many tasks run besides hopbench, and of
// whose CPU time a hypervisor takes a share; empty where both are little.
func LoadedMachine(runnable, cpus int, stolen float64) string {
	others := OthersLoad(runnable, cpus, stolen)
	if others == "" {
		return ""
	}
	return "This machine was busy when the run began: " + others + ". This takes CPU time from the measurement and adds noise; stop other programs on this machine."
}

// OthersLoad is who else uses so many CPUs, of which a hypervisor took a part; empty where that
// is too little to matter.
func OthersLoad(runnable, cpus int, stolen float64) string {
	const much, muchStolen = 0.25, 0.05 // of the CPUs
	var why []string
	if float64(runnable) > much*float64(cpus) {
		why = append(why, fmt.Sprintf("%s other than hopbench ran or waited on %s", quantity.Count(runnable, "task"), quantity.Count(cpus, "CPU")))
	}
	if stolen > muchStolen {
		why = append(why, fmt.Sprintf("a hypervisor takes %s of its CPU time", Percent(stolen)))
	}
	return strings.Join(why, ", and ")
}
