package probe

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
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
// prepared, for how the payload is sent may depend on its congestion control.
func (b *bulk) newSender(w wire, spec measurement.Spec, flow int) (*sender, error) {
	s := &sender{wire: w, payload: b.payload}
	if !sendsPiped(spec, w.CongestionControl()) {
		return s, nil
	}
	piped, err := b.pipe(w.Conn, spec, flow)
	switch {
	case err == nil:
		s.payload = piped
	case spec.SendMethod == measurement.SendZerocopy:
		return nil, &Error{Op: "prepare to send without a copy", Reason: Unsupported, Err: err}
	case !errors.Is(err, sockets.ErrUnsupported): // a system without it has lost nothing
		s.facts = []string{fmt.Sprintf("the sender copied the payload: %v", err)}
	}
	return s, nil
}

// sendsPiped says whether a flow under a congestion control is to send by reference.
// Where nobody chose, it does so unless the congestion control paces: on loopback
// with 4 flows, bbr carried 62 Gbit/s by send(2) and 30 by reference, cubic 64 to 117
// and 190 to 210. A pacing rate that was asked for is no reason to copy: at 10 Gbit/s
// the sender took half the processor time by reference. MPTCP copies all the same.
func sendsPiped(spec measurement.Spec, congestion string) bool {
	if spec.SendMethod != measurement.SendFast {
		return spec.SendMethod == measurement.SendZerocopy
	}
	return !strings.HasPrefix(congestion, "bbr") && !spec.MPTCP
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
	if sharesPoller(spec) {
		return b.piped, conn.SharePipe(b.piped, flow)
	}
	return b.piped, conn.TakePipe(b.piped, flow, connections(spec))
}

// buffer is what flow number flow receives into. Nobody reads it. Bytes that
// the kernel discards never reach it; those that are copied reach one buffer
// per processor where there are many flows, since only so many system calls
// that write to it can be in progress.
func (b *bulk) buffer(conn *sockets.Conn, spec measurement.Spec, flow int) []byte {
	size := max(copyBytes/connections(spec), leastCopyBytes)
	discards := conn.DiscardsInKernel() && !spec.CopyPayload
	switch {
	case discards:
		size = discardBytes
	case !sharesPoller(spec):
		return make([]byte, size)
	case !conn.DiscardsInKernel():
		// The race detector watches writes through the runtime's poller.
		return make([]byte, fewBytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sinks == nil {
		b.sinks = make([][]byte, runtime.GOMAXPROCS(0))
		for i := range b.sinks {
			b.sinks[i] = make([]byte, discardBytes)
		}
	}
	return b.sinks[flow%len(b.sinks)][:size]
}

// flowInfo is the TCP_INFO series of a sending flow. One of few flows has a
// goroutine that samples it; many are sampled by who sends, when samples are due.
type flowInfo struct {
	*infoSampler
	every, next time.Duration
}

const (
	// fewSamples is how many samples of each of very many flows are kept, and
	// manySamples of all flows of a test.
	fewSamples  = 4
	manySamples = 40_000
)

// watchFlow samples a flow from start on, for rtts too where it is not nil.
func watchFlow(conn *sockets.Conn, start time.Time, spec measurement.Spec, rtts *rttMeter) *flowInfo {
	if !sharesPoller(spec) {
		return &flowInfo{infoSampler: startInfoSampler(conn, start, spec.Flows, rtts)}
	}
	limit := min(max(manySamples/connections(spec), fewSamples), 20)
	every := planned(spec) / time.Duration(limit)
	if rtts != nil {
		every = min(every, rtts.width)
	}
	return &flowInfo{
		infoSampler: &infoSampler{sampler: &sampler{stop: func() {}}, conn: conn, start: start, limit: limit, every: 1, rtts: rtts},
		every:       every,
	}
}

// due takes a sample if one is due and no goroutine does. It may be called on nil.
func (i *flowInfo) due(now time.Time) {
	if i == nil || i.every == 0 {
		return
	}
	if at := now.Sub(i.start); at >= i.next {
		i.next = at + i.every
		i.sample()
	}
}

// end takes a last sample. It may be called again.
func (i *flowInfo) end() {
	i.infoSampler.end()
	if i.every > 0 {
		i.sample()
		i.every = 0
	}
}

// effectOf describes how an end moved the bytes of a flow.
func effectOf(conn *sockets.Conn) map[string]string {
	e := map[string]string{"flow_scheduling": scheduling(!conn.Attached())}
	setBytes(e, "dscp", conn.DSCP())
	return e
}

func receiverEffective(r *receiver, spec measurement.Spec) map[string]string {
	e := effectOf(r.Conn)
	e["receive_method"], e["receive_wait"] = r.method(), measurement.WaitBlocking
	if r.Attached() {
		e["receive_wait"] = measurement.WaitPoller
	}
	setBytes(e, "receive_buffer_bytes", r.ReceiveBuffer())
	if spec.WindowBytes > 0 {
		setBytes(e, "window_clamp_bytes", r.WindowClamp())
	}
	return e
}

// senderFacts are what a reader must know of a sending end.
func senderFacts(s *sender, spec measurement.Spec) []string {
	return append(differences(s.Conn, spec, true), s.facts...)
}

func senderEffective(s *sender, spec measurement.Spec) map[string]string {
	e := effectOf(s.Conn)
	e["send_method"] = measurement.SentCopy
	if s.payload.Spliced() {
		e["send_method"] = measurement.SentSplice
	}
	setBytes(e, "send_page_bytes", s.payload.PageBytes())
	if cc := s.CongestionControl(); cc != "" {
		e["congestion_control"] = cc
	}
	setBytes(e, "send_buffer_bytes", s.SendBuffer())
	setBytes(e, "mss_bytes", s.MSS())
	if spec.MPTCP {
		e["transport"] = "tcp"
		if s.MultipathTCP() {
			e["transport"] = "mptcp"
		}
	}
	return e
}
