package probe

import (
	"context"
	"math"
	"os"
	"sync"
	"time"

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

// hostSampler is a host's processor time over a test.
type hostSampler struct {
	*sampler
	start  time.Time
	first  sockets.CPUTimes
	series []hostSample
	every  int // one sample in so many is kept
	seen   int
	err    error
}

type hostSample struct {
	at  time.Duration
	cpu sockets.CPUTimes
}

// hostInterval is finer than needed for seconds and no finer than the ticks
// of the kernel's accounting deserve.
const hostInterval = 50 * time.Millisecond

func startHostSampler(start time.Time) *hostSampler {
	h := &hostSampler{start: start, every: 1}
	h.first, h.err = sockets.ReadCPU()
	h.sampler = startSampler(hostInterval, h.sample)
	return h
}

func (h *hostSampler) sample() {
	h.seen++
	if h.err != nil || h.seen%h.every != 0 {
		return
	}
	cpu, err := sockets.ReadCPU()
	if err != nil {
		h.err = err
		return
	}
	h.series = append(h.series, hostSample{time.Since(h.start), cpu})
	if len(h.series) >= maxSamples {
		h.series, h.every = thin(h.series), h.every*2
	}
}

// result ends the sampling and returns the series; nil when the system cannot say.
func (h *hostSampler) result() *protocol.HostSeries {
	h.end()
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	out := &protocol.HostSeries{Host: name, CPUs: h.first.CPUs}
	if h.err != nil {
		return out
	}
	for _, s := range h.series {
		out.At = append(out.At, s.at.Seconds())
		out.Busy = append(out.Busy, (s.cpu.Busy - h.first.Busy).Seconds())
		out.SoftIRQ = append(out.SoftIRQ, (s.cpu.SoftIRQ - h.first.SoftIRQ).Seconds())
		out.Total = append(out.Total, (s.cpu.Total - h.first.Total).Seconds())
	}
	return out
}

// endOf is what a host spent between two times since START.
func endOf(h *protocol.HostSeries, from, to float64, ttl int) measurement.End {
	end := measurement.End{ReceivedTTL: ttl}
	if h == nil {
		return end
	}
	end.Host, end.CPUs = h.Host, h.CPUs
	n := min(len(h.At), len(h.Busy), len(h.SoftIRQ), len(h.Total))
	over := func(values []float64) float64 {
		return interpolate(h.At[:n], values[:n], to) - interpolate(h.At[:n], values[:n], from)
	}
	if n < 2 {
		return end
	}
	if total := over(h.Total); total > 0 {
		end.CPUBusy = clampFraction(over(h.Busy) / total)
		end.SoftIRQ = clampFraction(over(h.SoftIRQ) / total)
	}
	return end
}

func clampFraction(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, 0), 1)
}

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
	limit  int
	every  int
	seen   int
}

const infoInterval = 20 * time.Millisecond

func startInfoSampler(conn *sockets.Conn, start time.Time, flows int) *infoSampler {
	// Many flows share a bound, since every sample is stored and reported:
	// the kernel's times are totals, so that thinning loses nothing of them.
	limit := min(max(2*maxSamples/max(flows, 1), 20), maxSamples)
	s := &infoSampler{conn: conn, start: start, limit: limit, every: 1}
	s.sampler = startSampler(infoInterval*time.Duration(1+flows/16), s.sample)
	return s
}

func (s *infoSampler) sample() {
	info, err := s.conn.TCPInfo(time.Since(s.start))
	if err != nil || info.MSS == 0 {
		return // the system lacks it, or the socket is closed
	}
	s.final = &info
	s.seen++
	if s.seen%s.every != 0 {
		return
	}
	s.series = append(s.series, info)
	if len(s.series) >= s.limit {
		s.series, s.every = thin(s.series), s.every*2
	}
}
