package probe

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/protocol"
)

// session is what the connections of one test share at the server.
type session struct {
	ID     string
	Client netip.Addr
	Spec   measurement.Spec
	// Cookie is what its packets and transactions are known by.
	Cookie [protocol.CookieBytes]byte
	// Threaded says that its flows may have a thread each.
	Threaded bool
	Meter    *meter
	// State is what its kind of test keeps.
	State any
	// sampled says that one of its connections samples the host.
	sampled atomic.Bool
}

// opened is one connection of a test at the server.
type opened struct {
	protocol.Open
	Flow int
	Test *session
}

// sends says whether the server's end sends on this connection.
func (o *opened) sends() bool { return !clientSends(o.Spec, o.Flow) }

// hostSeries samples the host for the one connection of a test that is asked to.
type hostSeries struct {
	*host.Sampler
	leave func()
}

// sampleHost begins to sample the host if this connection is asked to: one of a test
// does at a time, whatever its client asks.
func (o *opened) sampleHost(start time.Time) hostSeries {
	if !o.HostSeries || !o.Test.sampled.CompareAndSwap(false, true) {
		return hostSeries{}
	}
	return hostSeries{host.StartSampler(start), func() { o.Test.sampled.Store(false) }}
}

func (h hostSeries) end() {
	if h.Sampler != nil {
		h.Sampler.End()
		h.leave()
	}
}

func (h hostSeries) result() *protocol.HostSeries {
	if h.Sampler == nil {
		return nil
	}
	return h.Sampler.Result()
}

// startTimeout is how long a prepared connection waits for START, and
// startTimePerFlow how much longer for each connection of the test: the client
// opens them all before it starts any.
const (
	startTimeout     = 15 * time.Second
	startTimePerFlow = 5 * time.Millisecond
)

// ready sends READY and waits for START, see readStart.
func (w *wire) ready(ready *protocol.Ready, longest time.Duration) (time.Time, error) {
	w.until(time.Now().Add(max(w.untilStart, startTimeout)))
	if err := aside(func() error { return protocol.WriteFrame(w, protocol.TypeReady, ready) }); err != nil {
		return time.Time{}, err
	}
	return w.readStart(longest)
}

// readStart waits for START, for as long as the client may need to connect its
// other flows. It returns when the test began, which from then on has until longest.
func (w *wire) readStart(longest time.Duration) (time.Time, error) {
	w.until(time.Now().Add(max(w.untilStart, startTimeout)))
	if err := protocol.Expect(w, protocol.TypeStart, protocol.Empty, nil); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	w.until(start.Add(longest))
	if w.began != nil {
		return start, w.began()
	}
	return start, nil
}

// takeThread gives the calling goroutine a thread of its own until the returned
// function is called, if its test got them.
func takeThread(w *wire, o *opened) (release func(), err error) {
	if !o.Test.Threaded {
		return func() {}, nil
	}
	unlock := w.lock()
	return unlock, w.Detach()
}
