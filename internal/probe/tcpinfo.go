package probe

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

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

	// interval and next are for one without a goroutine, see due.
	interval, next time.Duration
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

// newInfoSampler keeps up to limit samples of a socket, one in every interval, which
// due takes.
func newInfoSampler(conn *sockets.Conn, start time.Time, limit int, interval time.Duration, rtts *rttMeter) *infoSampler {
	if rtts != nil {
		interval = min(interval, rtts.width)
	}
	return &infoSampler{conn: conn, start: start, limit: limit, every: 1, rtts: rtts, interval: interval}
}

// due takes a sample if one is due and no goroutine does. It may be called on nil.
func (s *infoSampler) due(now time.Time) {
	if s == nil || s.interval == 0 {
		return
	}
	if at := now.Sub(s.start); at >= s.next {
		s.next = at + s.interval
		s.sample()
	}
}

// end takes a last sample. It may be called again.
func (s *infoSampler) end() {
	switch {
	case s.sampler != nil:
		s.sampler.end()
	case s.interval > 0:
		s.sample()
		s.interval = 0
	}
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
