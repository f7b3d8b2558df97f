package session

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Test is what the connections of one test share at the server.
type Test struct {
	ID string
	// Client is where its connections come from.
	Client netip.Addr
	Spec   measurement.Spec
	// Cookie is what its packets and transactions are known by.
	Cookie [protocol.CookieBytes]byte
	// Threaded says that its flows may have a thread each.
	Threaded bool
	// Meter counts the bytes that it moves.
	Meter *Meter
	// State is what its kind of test keeps.
	State any
	// sampled says that one of its connections samples the host.
	sampled atomic.Bool
}

// Flow is one connection of a test at the server.
type Flow struct {
	// HostSeries and SenderPaces are what its OPEN said. All else of that is the test's, which
	// may have thousands of them.
	HostSeries, SenderPaces bool
	// Number is its place among the connections of the test.
	Number int
	Test   *Test
	// CPUs are those that the threads of this end keep to; nil for all.
	CPUs []int
}

// Sends says whether the server's end sends on this connection.
func (f *Flow) Sends() bool { return !ClientSends(f.Test.Spec, f.Number) }

// HostSeries samples the host for the one connection of a test that is asked to.
type HostSeries struct {
	*host.Sampler
	others *others
	leave  func()
}

// SampleHost begins to sample the host if this connection is asked to: one of a test
// does at a time, whatever its client asks.
func (f *Flow) SampleHost(start time.Time) HostSeries {
	if !f.HostSeries || !f.Test.sampled.CompareAndSwap(false, true) {
		return HostSeries{}
	}
	return HostSeries{host.StartSampler(start), f.Test.Meter.watchOthers(), func() { f.Test.sampled.Store(false) }}
}

// End lets another connection of the test sample the host.
func (h HostSeries) End() {
	if h.Sampler != nil {
		h.Sampler.End()
		h.others.end()
		h.leave()
	}
}

// Result is what was sampled, nil if this connection does not.
func (h HostSeries) Result() *protocol.HostSeries { return h.On("") }

// On is Result with the speed of the link of this end's address, of which there is none for "".
func (h HostSeries) On(local string) *protocol.HostSeries {
	if h.Sampler == nil {
		return nil
	}
	series := h.Sampler.On(local)
	series.OtherClients = h.others.told()
	return series
}

// AwaitStart sends READY and waits for START, see readStart.
func (w *ControlConn) AwaitStart(ready *protocol.Ready, longest time.Duration) (time.Time, error) {
	w.Until(time.Now().Add(max(w.UntilStart, StartTimeout)))
	if err := OnFreshStack(func() error { return protocol.WriteFrame(w, protocol.TypeReady, ready) }); err != nil {
		return time.Time{}, err
	}
	return w.ReadStart(longest)
}

// ReadStart waits for START, for as long as the client may need to connect its
// other flows. It returns when the test began, which from then on has until longest.
func (w *ControlConn) ReadStart(longest time.Duration) (time.Time, error) {
	w.Until(time.Now().Add(max(w.UntilStart, StartTimeout)))
	if err := protocol.Expect(w, protocol.TypeStart, protocol.Empty, nil); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	w.Until(start.Add(longest))
	if w.Began != nil {
		return start, w.Began()
	}
	return start, nil
}

// ClientSends says which end sends on a flow: in a test of both directions the
// client on the even ones, the server on the odd ones.
func ClientSends(spec measurement.Spec, flow int) bool {
	if spec.Direction == measurement.Both {
		return flow%2 == 0
	}
	return spec.Direction == measurement.Send
}
