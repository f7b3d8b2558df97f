package tcp

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// bulk is what the flows of tcp tests at one end share: the payload they send
// and, where they are many, the buffers they receive into.
type bulk struct {
	payload *sockets.Payload // that is copied

	mu    sync.Mutex
	piped *sockets.Payload // that is not, made when first sent
	sinks [][]byte         // likewise
}

func newBulk() *bulk { return &bulk{payload: sockets.NewPayload()} }

// close gives back what bulk holds of the system; no flow may be left.
func (b *bulk) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.piped == nil {
		return nil
	}
	return b.piped.Close()
}

// newSender makes the sending side of flow number flow on a socket that is
// prepared: how much waits unsent depends on its congestion control.
func (b *bulk) newSender(w session.ControlConn, spec measurement.Spec, flow int) (*sender, error) {
	s := &sender{
		ControlConn: w, payload: b.payload, pacing: spec.PacingBitsPerSecond,
		slow: slowness{spec.SenderPause.Duration(), spec.SenderBurn.Duration()},
	}
	if sockets.Paces(w.CongestionControl()) && spec.SendBufferBytes == 0 {
		// What is copied long before it may leave is no longer in a cache when it does. One flow
		// that is not copied carried 1.2 times as much as well.
		if err := w.SetOptions(sockets.Options{Backlog: session.BacklogBytes}); err != nil {
			return nil, &session.Error{Op: "prepare to send", Reason: session.Unsupported, Err: err}
		}
	}
	if !sendsPiped(spec) {
		return s, nil
	}
	piped, err := b.pipe(w.Conn, spec, flow)
	switch {
	case err == nil:
		s.payload = piped
	case spec.SendMethod == measurement.SendZerocopy:
		return nil, &session.Error{Op: "prepare to send without a copy", Reason: session.Unsupported, Err: err}
	case !errors.Is(err, sockets.ErrUnsupported): // a system without it has lost nothing
		s.facts = []string{fmt.Sprintf("the sender copied the payload: %v", err)}
	}
	return s, nil
}

// sendsPiped says whether a flow is to send zero-copy. Where nobody chose, it does so:
// across one hop on 2 CPUs, bbr then carried 1.3 to 1.6 times as much as by send(2), and
// cubic 1.5 to 2 times. MPTCP copies all the same.
func sendsPiped(spec measurement.Spec) bool {
	if spec.SendMethod != measurement.SendFast {
		return spec.SendMethod == measurement.SendZerocopy
	}
	return !spec.MPTCP
}

// pipe has the connection of flow number flow send from a pipe, and is the payload
// that comes from there.
func (b *bulk) pipe(conn *sockets.Conn, spec measurement.Spec, flow int) (*sockets.Payload, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.piped == nil {
		made, err := sockets.NewPipedPayload()
		if err != nil {
			return nil, err
		}
		b.piped = made
	}
	if session.SharesPoller(spec) {
		return b.piped, conn.SharePipe(b.piped, flow)
	}
	return b.piped, conn.TakePipe(b.piped, flow, kind.Connections(spec))
}

// buffer is what flow number flow receives into. Nobody reads it. Bytes that
// the kernel discards never reach it; those that are copied reach one buffer
// per CPU where there are many flows, since only so many system calls
// that write to it can be in progress.
func (b *bulk) buffer(conn *sockets.Conn, spec measurement.Spec, flow int) []byte {
	size := copyBytes
	discards := conn.DiscardsInKernel() && !spec.CopyPayload
	switch {
	case discards:
		size = discardBytes
	case !session.SharesPoller(spec):
		return make([]byte, size)
	case !conn.DiscardsInKernel():
		// The race detector watches writes through the runtime's poller.
		return make([]byte, fewBytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sinks == nil {
		b.sinks = make([][]byte, min(runtime.GOMAXPROCS(0), runtime.NumCPU())) // the former may be raised now
		for i := range b.sinks {
			b.sinks[i] = make([]byte, discardBytes)
		}
	}
	return b.sinks[flow%len(b.sinks)][:size]
}

const (
	// fewSamples is how many samples of each of very many flows are kept, and
	// manySamples of all flows of a test.
	fewSamples  = 4
	manySamples = 40_000
)

// watchFlow samples a flow from start on, for rtts too where it is not nil. One of few
// flows has a goroutine that does; many are sampled by who sends.
func watchFlow(conn *sockets.Conn, start time.Time, spec measurement.Spec, rtts *tcpinfo.RTTMeter) *tcpinfo.Sampler {
	if !session.SharesPoller(spec) {
		return tcpinfo.Start(conn, start, spec.Flows, rtts)
	}
	limit := min(max(manySamples/kind.Connections(spec), fewSamples), 20)
	return tcpinfo.New(conn, start, limit, session.Planned(spec)/time.Duration(limit), rtts)
}

// effectOf describes how an end moved the bytes of a flow, and with which options.
func effectOf(conn *sockets.Conn, sends bool) map[string]string {
	e := conn.InForce().Effective(sends)
	e["flow_scheduling"] = session.Scheduling(!conn.Attached())
	return e
}

func receiverEffective(r *receiver, spec measurement.Spec) map[string]string {
	e := effectOf(r.Conn, false)
	e["receive_method"], e["receive_wait"] = r.method(), measurement.WaitBlocking
	if r.Attached() {
		e["receive_wait"] = measurement.WaitPoller
	}
	session.SetBytes(e, "receive_low_water_bytes", r.lowWater)
	if spec.WindowBytes > 0 {
		session.SetBytes(e, "window_clamp_bytes", r.WindowClamp())
	}
	return e
}

// senderFacts are what a reader must know of a sending end.
func senderFacts(s *sender, spec measurement.Spec) []string {
	return append(differences(s.Conn, spec, true), s.facts...)
}

func senderEffective(s *sender, spec measurement.Spec) map[string]string {
	e := effectOf(s.Conn, true)
	e["send_method"] = measurement.SentCopy
	if s.payload.Spliced() {
		e["send_method"] = measurement.SentSplice
	}
	session.SetBytes(e, "send_page_bytes", s.payload.PageBytes())
	if spec.MPTCP {
		e["transport"] = "tcp"
		if s.MultipathTCP() {
			e["transport"] = "mptcp"
		}
	}
	return e
}
