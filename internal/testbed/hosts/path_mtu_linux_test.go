package hosts_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/hosts"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What the proof of the token and a trace do not show is found before a run: that large
// packets vanish, or all of UDP.
func TestSizes(t *testing.T) {
	n := newNetwork(t)
	needy := *n.e
	needy.Tests = append([]experiment.Test{{Name: "packets", Spec: measurement.Spec{Kind: measurement.UDP, Duration: 0.1}}}, n.e.Tests...)
	for _, c := range []struct {
		name, drop string
		e          *experiment.Experiment
		severity   testbed.Severity
		says       string
	}{
		{"all pass", "", n.e, testbed.Note, "path routed: carries packets of 1500 B"},
		{"large ones vanish", "udp length > 1200 drop;", n.e, testbed.Warning, "path routed: packets of more than 1220 B vanish on the way, and no ICMP message says so; have what drops them"},
		{"none of UDP, which a test needs", "meta l4proto udp drop;", &needy, testbed.Warning, "open port 5201 of UDP towards b on the way, or leave out what needs it: packets"},
		{"none of UDP, which nothing needs", "meta l4proto udp drop;", n.e, testbed.Note, "no test of the experiment needs them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.filter(t, 1, "flush ruleset; table ip firewall { chain input { type filter hook input priority 0; "+c.drop+" }; }")
			findings, err := hosts.Check(t.Context(), &n.inventory, c.e, hosts.Options{Dial: n.dial})
			testutil.OK(t, err)
			for _, f := range findings {
				if strings.Contains(f.String(), "path routed: ") && strings.Contains(f.String(), c.says) && f.Severity == c.severity {
					return
				}
			}
			t.Errorf("found %v", findings)
		})
	}
}
