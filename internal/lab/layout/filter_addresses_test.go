package layout

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The filters of a path know the addresses that packets have where they are.
func TestPlanOfFilters(t *testing.T) {
	hop := func(kind experiment.HopType, name string, change func(*experiment.Hop)) experiment.Hop {
		h := experiment.Hop{Type: kind, Name: name, Rules: 10, Instances: 1}
		if change != nil {
			change(&h)
		}
		return h
	}
	e := labtest.RoutingAppliance()
	e.Paths = []experiment.Path{{Name: "all", Hops: []experiment.Hop{
		hop(experiment.Firewall, "near", nil),
		hop(experiment.NAT, "home", func(h *experiment.Hop) { h.Translate = experiment.TranslateSource }),
		hop(experiment.Firewall, "middle", func(h *experiment.Hop) { h.Silent = true }),
		hop(experiment.NAT, "public", func(h *experiment.Hop) { h.Translate, h.SilentHops = experiment.TranslateBoth, 3 }),
		hop(experiment.Firewall, "far", func(h *experiment.Hop) { h.OneWay = true }),
		hop(experiment.NAT, "inner", func(h *experiment.Hop) { h.Translate = experiment.TranslateDestination }),
		hop(experiment.VNetGateway, "gateway", func(h *experiment.Hop) { h.Silent, h.FlowLimit = true, 64 }),
		hop(experiment.Router, "plain", nil),
	}}}
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	var filters strings.Builder
	for _, o := range steps {
		if f, is := o.(plan.AddFunction); is && strings.HasPrefix(f.String(), "filter ") {
			filters.WriteString(o.String() + "\n")
		}
	}
	labtest.Golden(t, "filters.plan", filters.String())

	want := "10.0.0.2 10.0.1.2 * * * * 10.0.5.2 10.0.5.2 * 10.0.5.2 10.0.5.2"
	var hops []string
	for _, h := range paths[0].Hops {
		if h.IsValid() {
			hops = append(hops, h.String())
		} else {
			hops = append(hops, "*")
		}
	}
	if got := strings.Join(hops, " "); got != want {
		t.Errorf("hops  %s\nwant %s", got, want)
	}
	if p := paths[0]; p.Destination != netip.MustParseAddr("10.0.5.2") || p.Listen != netip.MustParseAddr("10.0.10.2") {
		t.Errorf("path %+v", p)
	}
}
