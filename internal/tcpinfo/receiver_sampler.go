package tcpinfo

import (
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// threadMeter reads how long a thread wanted a CPU since the first reading.
type threadMeter struct {
	of    atomic.Pointer[thread.Thread] // nil while it is not known
	first time.Duration
}

func (m *threadMeter) wanted() measurement.Seconds {
	now := m.of.Load().Wanted()
	if now == 0 {
		return 0
	}
	if m.first == 0 {
		// A reading of zero is no reading.
		m.first = now - time.Nanosecond
	}
	return measurement.SecondsOf(now - m.first)
}

// ReceiverSampler is the series of one receiving socket and the thread that reads it.
type ReceiverSampler struct {
	*sampling.Sampler
	conn   *sockets.Conn
	start  time.Time
	thread threadMeter
	// Series is complete after End.
	Series []measurement.ReceiverInfo
	limit  int
	every  int
	seen   int
}

// StartReceiver samples one of so many flows, which reader reads, until End. Times
// count from start.
func StartReceiver(conn *sockets.Conn, reader *thread.Thread, start time.Time, flows int) *ReceiverSampler {
	s := &ReceiverSampler{conn: conn, start: start, limit: Kept(flows), every: 1}
	s.thread.of.Store(reader)
	s.Sampler = sampling.Start(interval*time.Duration(1+flows/16), s.sample)
	return s
}

func (s *ReceiverSampler) sample() {
	s.seen++
	if s.seen%s.every != 0 {
		return
	}
	s.Series = append(s.Series, measurement.ReceiverInfo{
		At: measurement.SecondsOf(time.Since(s.start)), Unread: s.conn.Unread(),
		OutOfOrder: s.conn.OutOfOrder(), Thread: s.thread.wanted(),
	})
	if len(s.Series) >= s.limit {
		s.Series, s.every = sampling.Thin(s.Series), s.every*2
	}
}
