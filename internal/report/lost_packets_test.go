package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/reporttest"
)

// What the hosts lost in the same places is said once, with the cells in which they did.
func TestLostPacketsAreSaidOnce(t *testing.T) {
	r := reporttest.Run(t, 2)
	for i := range r.Trials {
		trial := &r.Trials[i]
		trial.Destination.Drops = []measurement.Drop{{Place: "IPv6 receive", Packets: 2}}
		if trial.Path == "direct" && trial.Test == "latency" {
			trial.Source.Drops = []measurement.Drop{{Place: "eth0", Packets: 1}}
		}
	}
	m := report.New(r)
	const lost = ": packets that the hosts themselves lost in "
	const tests = "ping, 1 flow and 10 flows"
	want := []string{
		m.Paths[0].Label + ", latency (TCP)" + lost + "2 trials: destination's IPv6 receive 4, source's eth0 2.",
		fmt.Sprintf("%s, %s; %s, latency (TCP), %s; %s, latency (TCP), %s%s22 trials: destination's IPv6 receive 44.",
			m.Paths[0].Label, tests, m.Paths[1].Label, tests, m.Paths[2].Label, tests, lost),
	}
	said := slices.DeleteFunc(slices.Clone(m.Seen), func(text string) bool { return !strings.Contains(text, lost) })
	if !slices.Equal(said, want) {
		t.Errorf("%q\nwant %q", said, want)
	}
}

// What two ends on one machine both read off one counter is lost once: the report says as many
// packets as the finding of the gate.
func TestLostPacketsOfOneMachineAreCountedOnce(t *testing.T) {
	r := reporttest.Run(t, 2)
	for i := range r.Trials {
		trial := &r.Trials[i]
		trial.Source.HostID, trial.Destination.HostID, trial.Source.NetworkID, trial.Destination.NetworkID = "h", "h", "1", "2"
		trial.Source.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 90, HostWide: true}, {Place: "UDP receive buffer", Packets: 3}}
		trial.Destination.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 100, HostWide: true}, {Place: "UDP receive buffer", Packets: 5}}
	}
	const want = "lost in 24 trials: both ends' softnet backlog 2400, destination's UDP receive buffer 120, source's UDP receive buffer 72."
	if said := report.New(r).Seen; !slices.ContainsFunc(said, func(text string) bool { return strings.HasSuffix(text, want) }) {
		t.Errorf("%q, want %q", said, want)
	}
}
