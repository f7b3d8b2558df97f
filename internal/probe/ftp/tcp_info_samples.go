package ftp

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// watcher takes the TCP_INFO of the data connections of one end.
type watcher struct {
	mu       sync.Mutex
	start    time.Time
	flows    int
	pacing   float64 // of each connection, in bit/s; 0 none
	samplers map[ends]*tcpinfo.Sampler
}

// ends are the addresses of a connection: one client may use a port for several
// connections, if they go to different ports.
type ends struct{ local, remote string }

// begin sets the time from which samples count, also those taken before, and among
// how many flows they are shared, as is the most that a server lets a test move in
// bit/s.
func (w *watcher) begin(start time.Time, flows int, maxRate float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start, w.flows, w.pacing = start, flows, maxRate/float64(max(flows, 1))
}

// add watches a connection until the returned function is called.
func (w *watcher) add(c net.Conn, conn *sockets.Conn) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pacing > 0 {
		// Where the system cannot, the server ends what is too fast.
		_ = conn.SetPacing(w.pacing)
	}
	if len(w.samplers) >= ftp.MaxSegments {
		return func() {} // no test has so many: whoever goes on transferring is not sampled
	}
	s := tcpinfo.Start(conn, w.start, max(w.flows, 1), nil)
	if w.samplers == nil {
		w.samplers = map[ends]*tcpinfo.Sampler{}
	}
	w.samplers[ends{c.LocalAddr().String(), c.RemoteAddr().String()}] = s
	return s.End
}

// of is what was sampled on the connection from one address to another. It must have ended.
func (w *watcher) of(local, remote string) (*measurement.TCPInfo, []measurement.TCPInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.samplers[ends{local, remote}]
	if s == nil {
		return nil, nil
	}
	// Its samples count from when it began, which may have been before START.
	early := measurement.SecondsOf(w.start.Sub(s.Start))
	series := slices.Clone(s.Series)
	for i := range series {
		series[i].At = max(series[i].At-early, 0)
	}
	if s.Final == nil {
		return nil, series
	}
	final := *s.Final
	final.At = max(final.At-early, 0)
	return &final, series
}

// only is what was sampled on the one connection that there was.
func (w *watcher) only() (*measurement.TCPInfo, []measurement.TCPInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.samplers {
		return s.Final, s.Series
	}
	return nil, nil
}
