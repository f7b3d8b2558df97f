package probe

import (
	"runtime"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// bulk is what the flows of tcp tests at one end share: the payload they send
// and, where they are many, the buffers they receive into.
type bulk struct {
	payload *sockets.Payload

	mu    sync.Mutex
	file  *sockets.Payload // made when it is first sent
	sinks [][]byte         // likewise
}

func newBulk() *bulk { return &bulk{payload: sockets.NewPayload()} }

// close gives back what bulk holds of the system; no flow may be left.
func (b *bulk) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	return err
}

// payloadOf is what a flow sends. Unless sendfile is asked for it is copied:
// with a congestion control that paces (bbr) sendfile may halve the rate, for a
// page is a fragment of 4 KB and the kernel's own copy lies in fragments of 32
// KB. Where nothing paces, sendfile is the faster; docs/benchmarks.md has both.
func (b *bulk) payloadOf(spec measurement.Spec) (*sockets.Payload, error) {
	if spec.SendMethod != measurement.SendFile {
		return b.payload, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		file, err := sockets.NewPayloadFile()
		if err != nil {
			return nil, &Error{Op: "prepare sendfile", Reason: Unsupported, Err: err}
		}
		b.file = file
	}
	return b.file, nil
}

// buffer is what flow number flow receives into. Nobody reads it. Bytes that
// the kernel discards never reach it; those that are copied reach one buffer
// per processor where there are many flows, since only so many system calls
// that write to it can be in progress.
func (b *bulk) buffer(conn *sockets.Conn, spec measurement.Spec, flow int) []byte {
	size := copyBytes
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
	e := map[string]string{"flow_scheduling": "a thread per flow"}
	if conn.Attached() {
		e["flow_scheduling"] = "the runtime's poller, shared by all flows"
	}
	setBytes(e, "dscp", conn.DSCP())
	return e
}

func receiverEffective(r *receiver, spec measurement.Spec) map[string]string {
	e := effectOf(r.Conn)
	e["receive_method"] = r.method()
	setBytes(e, "receive_buffer_bytes", r.ReceiveBuffer())
	if r.highest > 1 {
		setBytes(e, "receive_low_water_bytes", r.highest)
	}
	if spec.WindowBytes > 0 {
		setBytes(e, "window_clamp_bytes", r.WindowClamp())
	}
	return e
}

func senderEffective(s *sender, spec measurement.Spec) map[string]string {
	e := effectOf(s.Conn)
	e["send_method"] = s.payload.Method()
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
