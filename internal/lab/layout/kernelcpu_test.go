package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every hop that asks for it, and every instance of one, has a sampler on all
// its interfaces; the nodes around them have none.
func TestKernelCPUSamplersOfHops(t *testing.T) {
	e := labtest.RoutingAppliance()
	e.Paths = []experiment.Path{{Name: "p", Hops: []experiment.Hop{
		{Type: experiment.Router, Name: "plain"},
		{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, MeasureKernelCPU: true},
		{Type: experiment.NAT, Name: "n", Translate: experiment.TranslateSource, SilentHops: 3, MeasureKernelCPU: true},
		{Type: experiment.LoadBalancer, Name: "lb", Backends: 2, MeasureKernelCPU: true},
	}}}
	built, _, err := FromExperiment(e)
	testutil.OK(t, err)
	var got []string
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	for _, o := range steps {
		if f, is := o.(plan.AddFunction); is && strings.HasPrefix(f.String(), "time ") {
			got = append(got, o.String())
		}
	}
	want := []string{
		"time p/fw.1:to-source,to-destination if possible",
		"time p/fw.2:to-source,to-destination if possible",
		"time p/n:to-source,to-destination if possible",
		"time p/lb:to-source,to-backend-1,to-backend-2 if possible",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
