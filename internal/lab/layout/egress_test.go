package layout

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPlanOfSharedEgress(t *testing.T) {
	built, _, err := FromExperiment(labtest.SharedEgress())
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	var text strings.Builder
	for _, o := range steps {
		if line := o.String(); !strings.HasPrefix(line, "sysctl ") && !strings.HasPrefix(line, "route ") || strings.Contains(line, "all.arp_ignore") {
			text.WriteString(o.String() + "\n")
		}
	}
	labtest.Golden(t, "egress.plan", text.String())
}

// The devices of a shared egress have names of their own, whatever paths are called.
func TestPathsNamedLikeSharedEgress(t *testing.T) {
	e := labtest.SharedEgress()
	e.Paths[0].Name, e.Paths[1].Name = topology.SharedDevice, topology.SharedPort(0)
	built, _, err := FromExperiment(e)
	testutil.OK(t, err)
	if got := built.InterfacesOf(e.Source); got[0] != "path-0" || got[1] != "path-1" {
		t.Errorf("the interfaces of the source are %q", got)
	}
	e.Endpoints[0].NICs = 1
	if built, _, err = FromExperiment(e); err != nil || built.InterfacesOf(e.Source)[0] != topology.SharedDevice {
		t.Errorf("%v: a path has another interface than it could: %q", err, built.InterfacesOf(e.Source))
	}
}

func TestWhoSharesEgress(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*experiment.Experiment)
		want   bool
	}{
		"several interfaces": {func(*experiment.Experiment) {}, true},
		"one interface":      {func(e *experiment.Experiment) { e.Endpoints[0].NICs = 1 }, false},
		"unmetered":          {func(e *experiment.Experiment) { e.Endpoints[0].EgressBitsPerSecond = 0 }, false},
		"one path":           {func(e *experiment.Experiment) { e.Paths = e.Paths[:1] }, false},
	} {
		e := labtest.SharedEgress()
		test.change(e)
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		if got := built.Nodes[0].ShareEgress; got != test.want || built.Nodes[1].ShareEgress {
			t.Errorf("%s: shared %v, want %v", name, got, test.want)
		}
	}
	built, _, err := FromExperiment(labtest.SharedEgress())
	testutil.OK(t, err)
	built.Links[0].A.EgressBitsPerSecond = 1
	built.Links[1].A.Interface = topology.SharedDevice
	if err := built.Validate(); err == nil || !strings.Contains(err.Error(), "plain has 1 bit/s and egress has 5e+07") || !strings.Contains(err.Error(), "can be called egress") {
		t.Errorf("got %v", err)
	}
}
