package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// processorTrial is a second of 100 MB/s in which the lab's CPUs spend 20
// ns for each byte, 5 of them in soft interrupts, and a hop 8, 2 of them the kernel.
func processorTrial() *measurement.Trial {
	bins := &measurement.Bins{Width: 0.01, Bytes: slices.Repeat([]float64{1e6}, 100)}
	hop := reporttest.Counting("fw", 0, bins, 1)
	for i := range hop.Samples {
		at := float64(hop.Samples[i].At)
		hop.Samples[i].CPU, hop.Samples[i].KernelCPU = measurement.Seconds(at*1e8*6e-9), measurement.Seconds(at*1e8*2e-9)
	}
	t := &measurement.Trial{Outcome: measurement.Outcome{Throughput: bins, Warmup: 0.1, HopSeries: []measurement.HopSeries{hop}}}
	for i := range 11 {
		at := float64(i)*0.1 - 0.01 // not when the hop's counters were read
		t.LabCPU = append(t.LabCPU, measurement.CPUSample{
			At: measurement.Seconds(at), Busy: measurement.Seconds(at * 1e8 * 20e-9), SoftIRQ: measurement.Seconds(at * 1e8 * 5e-9),
		})
	}
	return t
}

func TestProcessorSentence(t *testing.T) {
	low, high := 3e-9, 7e-9
	m := &Model{
		Run:   &result.Result{Costs: []result.Effect{{Path: "fw", Baseline: "direct", Test: "flows-1", Metric: "cpu_seconds_per_byte", N: 8, Difference: 5e-9, DifferenceLow: &low, DifferenceHigh: &high}}},
		Paths: []Path{{Name: "direct", Label: "no firewall", Baseline: true}, {Name: "fw", Label: "firewall"}},
	}
	spent := "The lab's CPUs spent 20.0 ns/B: 8.00 ns/B in these hops as far as that is known, 5.00 ns/B in soft interrupts, where the kernel forwards for hops and receives for the ends."
	more := " Compared with no firewall that is +5.0 ns/B [+3.0, +7.0], block by block: what the hops of this path cost more, the kernel's share of them included."
	flows := Test{Name: "flows-1"}
	plain := func(s string) string { return strings.ReplaceAll(s, words.NBSP, " ") }
	for _, c := range []struct {
		name   string
		path   Path
		test   Test
		change func(*measurement.Trial)
		want   string
	}{
		{"a path with a cost", m.Paths[1], flows, nil, spent + more},
		{"the baseline", m.Paths[0], flows, nil, spent},
		{"another test", m.Paths[1], Test{Name: "flows-64"}, nil, spent},
		{"hops without a time of their own", m.Paths[0], flows, func(t *measurement.Trial) {
			for i := range t.HopSeries[0].Samples {
				t.HopSeries[0].Samples[i].CPU, t.HopSeries[0].Samples[i].KernelCPU = 0, 0
			}
		}, strings.Replace(spent, " 8.00 ns/B in these hops as far as that is known,", "", 1)},
		{"no readings", m.Paths[1], flows, func(t *measurement.Trial) { t.LabCPU = nil }, ""},
		{"readings of less than half of the time", m.Paths[1], flows, func(t *measurement.Trial) { t.LabCPU = t.LabCPU[:5] }, ""},
		{"readings without order", m.Paths[1], flows, func(t *measurement.Trial) { slices.Reverse(t.LabCPU) }, ""},
		{"nothing received", m.Paths[1], flows, func(t *measurement.Trial) { clear(t.Throughput.Bytes) }, ""},
	} {
		trial := processorTrial()
		if c.change != nil {
			c.change(trial)
		}
		if got := m.processorSentence(c.path, c.test, []*measurement.Trial{trial}); plain(got) != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, plain(got), c.want)
		}
	}
}

// Where a path broke most of its trials, how much more it costs is not known: that is not 0.
func TestProcessorSentenceOfBrokenTrials(t *testing.T) {
	r := reporttest.Run(t, 16)
	for i := range r.Trials {
		trial := &r.Trials[i]
		if trial.Test != "flows-1" {
			continue
		}
		trial.Metrics["cpu_seconds_per_byte"] = 20e-9 * (1 + 0.01*float64(trial.Block%5))
		if trial.Path == "one-appliance" && trial.Block <= 12 {
			trial.Outcome = measurement.Outcome{}
			trial.Gate = measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "connection reset", Fatal: true, PathFailure: true}}}
		}
	}
	reporttest.Analyse(r)
	m := New(r)
	if c := m.Cost(Key{"one-appliance", "flows-1", "cpu_seconds_per_byte"}); c == nil || !c.EstimateUnbounded {
		t.Fatalf("%+v", c)
	}
	if got := m.processorSentence(m.Paths[1], m.Tests[2], []*measurement.Trial{processorTrial()}); !strings.Contains(got, "spent") || strings.Contains(got, "Compared with") {
		t.Error(got)
	}
}
