package host

import (
	"slices"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
)

// What of a gap between two samples tells of an end that stood still.
const (
	// shortestStandstill is how late a sample is at least: at full speed, samples that
	// are due every 50 ms are then 100 ms apart.
	shortestStandstill = interval
	// noRoom is the share of the CPUs' time above which a sampler that came late may
	// have waited for one of them: with others on the machine a thread waits for its CPU
	// also while another one is free now and then.
	noRoom = 0.75
	// takenAway is the share of the CPUs' time above which a hypervisor kept the whole
	// machine from running.
	takenAway = 0.5
)

// standstill is the share of the time between two moments in which an end did not run
// although its CPUs had room, as far as the distances of its first n samples tell: its
// process was stopped, or its machine.
func standstill(h *protocol.HostSeries, n int, from, to float64) float64 {
	if to <= from {
		return 0
	}
	gaps := make([]float64, n-1)
	for i := range gaps {
		gaps[i] = h.At[i+1] - h.At[i]
	}
	slices.Sort(gaps)
	usual := interval.Seconds()
	if n >= sampling.MaxSamples/2 {
		// Of a long test, samples were left out; few of the others come late.
		usual = max(usual, gaps[len(gaps)/4])
	}
	stood := 0.0
	for i := range n - 1 {
		begin, end := h.At[i]+usual, h.At[i+1]
		if end-begin < shortestStandstill.Seconds() {
			continue
		}
		total, stolen := h.Total[i+1]-h.Total[i], 0.0
		if len(h.Steal) >= n {
			stolen = h.Steal[i+1] - h.Steal[i]
		}
		if h.Busy[i+1]-h.Busy[i] > noRoom*total && stolen < takenAway*total {
			continue
		}
		stood += max(0, min(end, to)-max(begin, from))
	}
	return stood / (to - from)
}
