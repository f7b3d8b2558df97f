package probe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// maxSamples bounds a series; a fuller one is thinned to half.
const maxSamples = 200

// sampler calls sample at a steady interval on its own goroutine until it is
// ended, and once more then.
type sampler struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

func startSampler(every time.Duration, sample func()) *sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &sampler{stop: stop}
	s.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			sample()
			select {
			case <-ticker.C:
			case <-ctx.Done():
				sample()
				return
			}
		}
	})
	return s
}

// end takes a last sample and waits for the goroutine. It may be called again.
func (s *sampler) end() {
	s.stop()
	s.done.Wait()
}

// thin keeps every second element, the last one always.
func thin[T any](series []T) []T {
	kept := series[:0]
	for i := range series {
		if (len(series)-1-i)%2 == 0 {
			kept = append(kept, series[i])
		}
	}
	return kept
}

// hostSampler is what a host spends over a test.
type hostSampler struct {
	*sampler
	start  time.Time
	first  hostinfo.CPUTimes
	series []hostSample
	every  int // one sample in so many is kept
	seen   int
	err    error

	drops    hostinfo.DropCounts
	dropsErr error
}

type hostSample struct {
	at  time.Duration
	cpu hostinfo.CPUTimes
}

// hostInterval is finer than needed for seconds and no finer than the
// resolution of the kernel's accounting deserves.
const hostInterval = 50 * time.Millisecond

func startHostSampler(start time.Time) *hostSampler {
	h := &hostSampler{start: start, every: 1}
	h.first, h.err = hostinfo.ReadCPU()
	h.sampler = startSampler(hostInterval, h.sample)
	return h
}

func (h *hostSampler) sample() {
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
		err = fmt.Errorf("processors came or went: %d, then %d", len(h.first.Each), len(cpu.Each))
	}
	if err != nil {
		h.err = err
		return
	}
	h.series = append(h.series, hostSample{time.Since(h.start), cpu})
	if len(h.series) >= maxSamples {
		h.series, h.every = thin(h.series), h.every*2
	}
}

// result ends the sampling and returns the series, which is empty when the
// system cannot say.
func (h *hostSampler) result() *protocol.HostSeries {
	h.end()
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	out := &protocol.HostSeries{
		Host: name, HostID: hostinfo.HostID(), NetworkID: hostinfo.NetworkID(), CPUs: h.first.CPUs,
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
		out.At = append(out.At, s.at.Seconds())
		out.Busy = append(out.Busy, (s.cpu.Busy - h.first.Busy).Seconds())
		out.SoftIRQ = append(out.SoftIRQ, (s.cpu.SoftIRQ - h.first.SoftIRQ).Seconds())
		out.Total = append(out.Total, (s.cpu.Total - h.first.Total).Seconds())
		if h.first.Switches > 0 {
			out.Switches = append(out.Switches, increase(h.first.Switches, s.cpu.Switches))
		}
	}
	out.Busiest = h.busiest()
	return out
}

// maxBusiest is how many single processors are reported. The busiest of the
// measured time is sure to be among them on small hosts, and on large ones
// unless the warm-up kept that many others busier.
const maxBusiest = 4

func (h *hostSampler) busiest() [][]float64 {
	if len(h.series) == 0 {
		return nil
	}
	last := h.series[len(h.series)-1].cpu.Each
	order := make([]int, len(last))
	for i := range order {
		order[i] = i
	}
	spent := func(i int) time.Duration { return last[i] - h.first.Each[i] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spent(b), spent(a)) })
	var all [][]float64
	for _, i := range order[:min(len(order), maxBusiest)] {
		one := make([]float64, len(h.series))
		for at, s := range h.series {
			one[at] = (s.cpu.Each[i] - h.first.Each[i]).Seconds()
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

// endOf is what a host, maybe the other end, spent between two times since
// START.
func endOf(h *protocol.HostSeries, from, to float64, ttl int) measurement.End {
	end := measurement.End{ReceivedTTL: ttl}
	if h == nil {
		return end
	}
	end.Host, end.HostID, end.NetworkID, end.CPUs = h.Host, h.HostID, h.NetworkID, h.CPUs
	end.DropsCounted, end.SoftnetSqueezes = h.DropsCounted, clamp(h.Squeezes, math.MaxInt64)
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
		return interpolate(h.At[:n], values[:n], to) - interpolate(h.At[:n], values[:n], from)
	}
	total := clamp(over(h.Total), math.MaxInt64)
	if total == 0 {
		return end
	}
	busy := clamp(over(h.Busy), total)
	end.CPUTime, end.CPUBusy = measurement.Seconds(busy), busy/total
	end.SoftIRQ = clampFraction(over(h.SoftIRQ) / total)
	end.ContextSwitches = clamp(over(h.Switches), math.MaxInt64)
	for _, one := range h.Busiest {
		share := over(one) / total * float64(h.CPUs) // Total is of all of them
		end.BusiestCPU = max(end.BusiestCPU, clampFraction(share))
	}
	return end
}

// clamp bounds a number from the other end, or one that rounding took out of
// its bounds, to 0 at least and limit at most.
func clamp(v, limit float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), limit)
}

func clampFraction(f float64) float64 { return clamp(f, 1) }

// interpolate is the value at x of the line through the points (xs, ys), xs
// rising, held constant beyond its ends.
func interpolate(xs, ys []float64, x float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	for i, at := range xs {
		if at < x {
			continue
		}
		if i == 0 || at == xs[i-1] {
			return ys[i]
		}
		return ys[i-1] + (ys[i]-ys[i-1])*(x-xs[i-1])/(at-xs[i-1])
	}
	return ys[len(ys)-1]
}

// infoSampler is the TCP_INFO series of one sending socket.
type infoSampler struct {
	*sampler
	conn   *sockets.Conn
	start  time.Time
	series []measurement.TCPInfo
	final  *measurement.TCPInfo
	err    error // of the first sample that failed
	limit  int
	every  int
	seen   int
	rtts   *rttMeter // may be nil
}

const infoInterval = 20 * time.Millisecond

func startInfoSampler(conn *sockets.Conn, start time.Time, flows int, rtts *rttMeter) *infoSampler {
	// Many flows share a bound, since every sample is stored and reported:
	// the kernel's times are totals, so that thinning loses nothing of them.
	limit := min(max(2*maxSamples/max(flows, 1), 20), maxSamples)
	s := &infoSampler{conn: conn, start: start, limit: limit, every: 1, rtts: rtts}
	s.sampler = startSampler(infoInterval*time.Duration(1+flows/16), s.sample)
	return s
}

func (s *infoSampler) sample() {
	info, err := s.conn.TCPInfo(time.Since(s.start))
	if err != nil {
		// The system lacks it, or the connection has ended.
		if s.err == nil {
			s.err = err
		}
		return
	}
	if info.MSS == 0 {
		return // the socket is closed
	}
	s.final = &info
	s.rtts.add(info)
	s.seen++
	if s.seen%s.every != 0 {
		return
	}
	s.series = append(s.series, info)
	if len(s.series) >= s.limit {
		s.series, s.every = thin(s.series), s.every*2
	}
}

// facts are what a reader must know of an ended sampling.
func (s *infoSampler) facts() []string {
	if s.final != nil || s.err == nil {
		return nil
	}
	return []string{fmt.Sprintf("the sender's system does not tell retransmits, windows and round-trip times: %v", s.err)}
}
