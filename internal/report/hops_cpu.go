package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/words"
)

// spent is the CPU time per byte of payload that the receivers confirmed
// in the measured window of one trial.
type spent struct {
	machine, softirq, hops float64
}

// spentIn reads it off the series of a trial; ok is false when they do not cover
// half of the measured window, or nothing arrived.
func spentIn(t *measurement.Trial) (s spent, ok bool) {
	samples := t.LabCPU
	if len(samples) < 2 || !slices.IsSortedFunc(samples, func(a, b measurement.CPUSample) int { return cmp.Compare(a.At, b.At) }) {
		return s, false
	}
	opens, ends := float64(t.Warmup), float64(t.Throughput.Width)*float64(len(t.Throughput.Bytes))
	inside := slices.DeleteFunc(slices.Clone(samples), func(s measurement.CPUSample) bool {
		return float64(s.At) < opens || float64(s.At) > ends
	})
	if len(inside) < 2 {
		return s, false
	}
	first, last := inside[0], inside[len(inside)-1]
	from, to := float64(first.At), float64(last.At)
	bytes := Confirmed(t.Throughput, from, to)
	if to-from < (ends-opens)/2 || bytes <= 0 {
		return s, false
	}
	s.machine = float64(last.Busy-first.Busy) / bytes
	s.softirq = float64(last.SoftIRQ-first.SoftIRQ) / bytes
	for _, w := range WatchedHops(t) {
		a, b := w.at(from), w.at(to)
		s.hops += float64(b.CPU-a.CPU+b.KernelCPU-a.KernelCPU) / bytes
	}
	return s, true
}

// processorSentence says what the CPUs of the lab's machine spent on a
// path, and how much more that is than on the baseline: what its hops cost more,
// those included whose work in the kernel is not timed. It is
// empty when nothing is known.
func (m *Model) processorSentence(p Path, t Test, trials []*measurement.Trial) string {
	var machine, softirq, hops []float64
	for _, trial := range trials {
		if s, ok := spentIn(trial); ok {
			machine, softirq, hops = append(machine, s.machine), append(softirq, s.softirq), append(hops, s.hops)
		}
	}
	if len(machine) == 0 {
		return ""
	}
	write := func(v []float64) string { return words.Value(statistics.Median(v), measurement.SecondsPerByte) }
	said := fmt.Sprintf("The lab's CPUs spent %s", write(machine))
	separator := ": "
	if statistics.Median(hops) > 0 {
		said += separator + write(hops) + " in these hops as far as that is known"
		separator = ", "
	}
	said += separator + write(softirq) + " in soft interrupts, where the kernel forwards for hops and receives for the ends."
	c := m.Cost(Key{p.Name, t.Name, "cpu_seconds_per_byte"})
	if p.Baseline || c == nil || c.Counted() == 0 || c.EstimateUnbounded { // its number would be 0, which nobody measured
		return said
	}
	more, between := words.Estimate(c.Difference, c.DifferenceLow, c.DifferenceHigh, measurement.SecondsPerByte, true)
	return said + fmt.Sprintf(" Compared with %s that is %s, block by block: what the hops of this path cost more, the kernel's share of them included.", m.PathLabel(c.Baseline), strings.TrimSpace(more+" "+between))
}
