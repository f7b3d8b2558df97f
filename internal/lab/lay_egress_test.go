package lab

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
)

// sharing is an experiment whose source has two interfaces with one egress.
func sharing() *experiment.Experiment {
	e := attached()
	e.Endpoints[0] = experiment.Endpoint{Name: "vm1", EgressBitsPerSecond: 50e6, NICs: 2}
	e.Endpoints[1].EgressBitsPerSecond = 400e6
	e.Paths = []experiment.Path{
		{Name: "plain"},
		{Name: "routed", Hops: []experiment.Hop{{Type: experiment.Router, Name: "box", MTU: 1400}}},
		e.Paths[1],
	}
	return e
}

func TestPlanOfSharedEgress(t *testing.T) {
	topology, _, err := FromExperiment(sharing())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, o := range plan {
		if o.Verb != SetSysctl && o.Verb != AddRoute || o.Key == "net.ipv4.conf.all.arp_ignore" {
			text.WriteString(o.String() + "\n")
		}
	}
	golden(t, "egress.plan", text.String())
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
		e := sharing()
		test.change(e)
		topology, _, err := FromExperiment(e)
		if err != nil {
			t.Fatal(err)
		}
		if got := topology.Nodes[0].ShareEgress; got != test.want || topology.Nodes[1].ShareEgress {
			t.Errorf("%s: shared %v, want %v", name, got, test.want)
		}
	}
	topology, _, err := FromExperiment(sharing())
	if err != nil {
		t.Fatal(err)
	}
	topology.Links[0].A.EgressBitsPerSecond = 1
	topology.Links[1].A.Interface = sharedDevice
	if err := topology.Validate(); err == nil || !strings.Contains(err.Error(), "plain has 1 bit/s and egress has 5e+07") || !strings.Contains(err.Error(), "can be called egress") {
		t.Errorf("got %v", err)
	}
}
