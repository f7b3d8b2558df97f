// Package tcpinfo keeps what the kernel tells of a sending TCP socket (TCP_INFO) over
// a test, and makes metrics of it.
package tcpinfo

import (
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// Sampler is the TCP_INFO series of one sending socket.
type Sampler struct {
	*sampling.Sampler
	conn *sockets.Conn
	// Start is the time from which samples count.
	Start time.Time
	// Series is complete after End, Final the last sample, nil if there was none.
	Series []measurement.TCPInfo
	Final  *measurement.TCPInfo
	err    error // of the first sample that failed
	limit  int
	every  int
	seen   int
	rtts   *RTTMeter // may be nil
	thread threadMeter

	// interval and next are for one without a goroutine, see Due.
	interval, next time.Duration
}

const interval = 20 * time.Millisecond

// Kept is how many samples are kept of each of so many flows. Many flows share a bound,
// since every sample is stored and reported: the kernel's times are totals, so that
// thinning loses nothing of them.
func Kept(flows int) int {
	return min(max(2*sampling.MaxSamples/max(flows, 1), 20), sampling.MaxSamples)
}

// Start samples one of so many flows on a goroutine of its own until End, for rtts too
// where that is not nil.
func Start(conn *sockets.Conn, start time.Time, flows int, rtts *RTTMeter) *Sampler {
	s := &Sampler{conn: conn, Start: start, limit: Kept(flows), every: 1, rtts: rtts}
	s.Sampler = sampling.Start(interval*time.Duration(1+flows/16), s.sample)
	return s
}

// New keeps up to limit samples of a socket, one in every interval, which
// [Sampler.Due] takes.
func New(conn *sockets.Conn, start time.Time, limit int, interval time.Duration, rtts *RTTMeter) *Sampler {
	if rtts != nil {
		interval = min(interval, rtts.width)
	}
	return &Sampler{conn: conn, Start: start, limit: limit, every: 1, rtts: rtts, interval: interval}
}

// WrittenBy tells which thread writes to the socket. It may be called on nil.
func (s *Sampler) WrittenBy(t *thread.Thread) {
	if s != nil {
		s.thread.of.Store(t)
	}
}

// Due takes a sample if one is due and no goroutine does. It may be called on nil.
func (s *Sampler) Due(now time.Time) {
	if s == nil || s.interval == 0 {
		return
	}
	if at := now.Sub(s.Start); at >= s.next {
		s.next = at + s.interval
		s.sample()
	}
}

// End takes a last sample. It may be called again.
func (s *Sampler) End() {
	switch {
	case s.Sampler != nil:
		s.Sampler.End()
	case s.interval > 0:
		s.sample()
		s.interval = 0
	}
}

func (s *Sampler) sample() {
	info, err := s.conn.TCPInfo(time.Since(s.Start))
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
	info.Thread = s.thread.wanted()
	s.Final = info
	s.rtts.add(info)
	s.seen++
	if s.seen%s.every != 0 {
		return
	}
	s.Series = append(s.Series, *info)
	if len(s.Series) >= s.limit {
		s.Series, s.every = sampling.Thin(s.Series), s.every*2
	}
}

// Brief is a series of which no more is kept than the connection that it is of brings to the
// other end in about a second, where it has to go: at 64 kbit/s 200 samples take 12 s.
func Brief(series []measurement.TCPInfo) []measurement.TCPInfo {
	if len(series) == 0 {
		return series
	}
	const sampleBytes, least = 480, 8
	last := series[len(series)-1]
	perSecond := float64(last.SentBytes-last.RetransmittedBytes-last.InFlight) / max(float64(last.At), 1)
	for keep := max(perSecond/sampleBytes, least); float64(len(series)) > keep; {
		series = sampling.Thin(slices.Clone(series))
	}
	return series
}

// Facts are what a reader must know of an ended sampling.
func (s *Sampler) Facts() []string {
	if s.Final != nil || s.err == nil {
		return nil
	}
	return []string{fmt.Sprintf("the sender's system does not tell retransmits, windows and round-trip times: %v", s.err)}
}
