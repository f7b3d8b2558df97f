// Package host accounts for what a test costs the machine that this process runs on:
// CPU time, context switches, packets that the machine itself lost.
package host

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
)

// Sampler is what a host spends over a test.
type Sampler struct {
	*sampling.Sampler
	start  time.Time
	first  hostinfo.CPUTimes
	series []sample
	every  int // one sample in so many is kept
	seen   int
	err    error

	drops    hostinfo.DropCounts
	dropsErr error
}

type sample struct {
	at  time.Duration
	cpu hostinfo.CPUTimes
}

// interval is finer than needed for seconds and no finer than the
// resolution of the kernel's accounting deserves.
const interval = 50 * time.Millisecond

// StartSampler samples from now on, on a time axis that begins at start.
func StartSampler(start time.Time) *Sampler {
	h := &Sampler{start: start, every: 1}
	h.first, h.err = hostinfo.ReadCPU()
	h.Sampler = sampling.Start(interval, h.sample)
	return h
}

func (h *Sampler) sample() {
	if h.seen == 0 {
		// Here and not at the start, since it takes longer than a round trip.
		h.drops, h.dropsErr = hostinfo.ReadDrops()
	}
	h.seen++
	if h.err != nil || h.seen%h.every != 0 {
		return
	}
	cpu, err := hostinfo.ReadCPU()
	if err == nil && len(cpu.Each) != len(h.first.Each) {
		err = fmt.Errorf("CPUs came or went: %d, then %d", len(h.first.Each), len(cpu.Each))
	}
	if err != nil {
		h.err = err
		return
	}
	h.series = append(h.series, sample{time.Since(h.start), cpu})
	if len(h.series) >= sampling.MaxSamples {
		h.series, h.every = sampling.Thin(h.series), h.every*2
	}
}

// Result ends the sampling and returns the series, which is empty when the
// system cannot say.
func (h *Sampler) Result() *protocol.HostSeries {
	h.End()
	name, _ := os.Hostname() // empty where the system does not say
	out := &protocol.HostSeries{
		Host: name, HostID: hostinfo.HostID(), NetworkID: hostinfo.NetworkID(), CPUs: h.first.CPUs,
		Environment: hostinfo.End(),
	}
	if now, err := hostinfo.ReadDrops(); err == nil && h.dropsErr == nil {
		out.DropsCounted = true
		out.Drops = dropsBetween(h.drops, now)
		out.Squeezes = increase(h.drops.Squeezes, now.Squeezes)
	}
	if h.err != nil {
		return out
	}
	for _, s := range h.series {
		out.At = append(out.At, brief(s.at))
		out.Busy = append(out.Busy, brief(s.cpu.Busy-h.first.Busy))
		out.SoftIRQ = append(out.SoftIRQ, brief(s.cpu.SoftIRQ-h.first.SoftIRQ))
		out.Steal = append(out.Steal, brief(s.cpu.Steal-h.first.Steal))
		out.Total = append(out.Total, brief(s.cpu.Total-h.first.Total))
		if h.first.Switches > 0 {
			out.Switches = append(out.Switches, increase(h.first.Switches, s.cpu.Switches))
		}
	}
	out.Busiest = h.busiest()
	return out
}

// brief is a time in seconds, in as few digits as its source deserves: there are thousands in a
// report, which a slow path has to carry.
func brief(d time.Duration) float64 { return d.Round(100 * time.Microsecond).Seconds() }

// On is Result with the speed of the link of a local address, host:port, that the test's
// flows used.
func (h *Sampler) On(local string) *protocol.HostSeries {
	out := h.Result()
	if at, err := netip.ParseAddrPort(local); err == nil {
		out.Link = hostinfo.LinkSpeed(at.Addr().Unmap())
	}
	return out
}

// maxBusiest is how many single CPUs are reported. The busiest of the
// measured time is sure to be among them on small hosts, and on large ones
// unless the warm-up kept that many others busier.
const maxBusiest = 4

func (h *Sampler) busiest() [][]float64 {
	if len(h.series) == 0 {
		return nil
	}
	last := h.series[len(h.series)-1].cpu.Each
	var all [][]float64
	taken := make([]bool, len(last))
	for range min(len(last), maxBusiest) {
		i, most := 0, time.Duration(math.MinInt64)
		for cpu := range last {
			if spent := last[cpu] - h.first.Each[cpu]; !taken[cpu] && spent > most {
				i, most = cpu, spent
			}
		}
		taken[i] = true
		one := make([]float64, len(h.series))
		for at, s := range h.series {
			one[at] = brief(s.cpu.Each[i] - h.first.Each[i])
		}
		all = append(all, one)
	}
	return all
}

// maxDrops bounds how many places a result names.
const maxDrops = 32

// dropsBetween lists the places whose counters rose, the most packets first.
// What appeared in between, such as an interface, counted from 0.
func dropsBetween(first, last hostinfo.DropCounts) []measurement.Drop {
	before := make(map[string]uint64, len(first.Places))
	for _, p := range first.Places {
		before[p.Place] = p.Packets
	}
	var drops []measurement.Drop
	for _, p := range last.Places {
		if n := increase(before[p.Place], p.Packets); n > 0 {
			drops = append(drops, measurement.Drop{Place: p.Place, Packets: n, HostWide: p.HostWide})
		}
	}
	return most(drops)
}

func most(drops []measurement.Drop) []measurement.Drop {
	slices.SortStableFunc(drops, func(a, b measurement.Drop) int { return cmp.Compare(b.Packets, a.Packets) })
	return drops[:min(len(drops), maxDrops)]
}

// increase of a counter; 0 when it fell, because its owner was made anew or
// its 32 bits ran over.
func increase(from, to uint64) float64 {
	if to < from {
		return 0
	}
	return float64(to - from)
}

// maxPlace bounds the name of a place where packets are lost.
const maxPlace = 100

// EndOf is what a host, maybe the other end, spent between two times since
// START.
func EndOf(h *protocol.HostSeries, from, to float64, ttl int) measurement.End {
	end := measurement.End{ReceivedTTL: ttl}
	if h == nil {
		return end
	}
	end.Host, end.HostID, end.NetworkID, end.CPUs = h.Host, h.HostID, h.NetworkID, h.CPUs
	end.Environment, end.LinkBitsPerSecond = h.Environment, h.Link
	end.OtherClients = h.OtherClients
	end.DropsCounted, end.SoftnetSqueezes = h.DropsCounted, sampling.Clamp(h.Squeezes, math.MaxInt64)
	for _, d := range most(slices.Clone(h.Drops)) {
		if d.Packets > 0 && len(d.Place) <= maxPlace {
			end.Drops = append(end.Drops, d)
		}
	}
	n := min(len(h.At), len(h.Busy), len(h.SoftIRQ), len(h.Total))
	if n < 2 {
		return end
	}
	over := func(values []float64) float64 {
		if len(values) < n {
			return 0
		}
		return sampling.Interpolate(h.At[:n], values[:n], to) - sampling.Interpolate(h.At[:n], values[:n], from)
	}
	total := sampling.Clamp(over(h.Total), math.MaxInt64)
	if total == 0 {
		return end
	}
	busy := sampling.Clamp(over(h.Busy), total)
	end.CPUTime, end.CPUBusy = measurement.Seconds(busy), busy/total
	end.SoftIRQ = sampling.ClampFraction(over(h.SoftIRQ) / total)
	end.Steal = sampling.ClampFraction(over(h.Steal) / total)
	end.Standstill = sampling.ClampFraction(standstill(h, n, from, to))
	end.ContextSwitches = sampling.Clamp(over(h.Switches), math.MaxInt64)
	for _, one := range h.Busiest {
		share := over(one) / total * float64(h.CPUs) // Total is of all of them
		end.BusiestCPU = max(end.BusiestCPU, sampling.ClampFraction(share))
	}
	return end
}
