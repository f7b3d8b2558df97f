package probe

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// startTimeout is how long a prepared connection waits for START.
const startTimeout = 15 * time.Second

// serveStream is the server's end of one flow of a tcp test.
func (s *Server) serveStream(w wire, open protocol.Open, ready protocol.Ready) error {
	spec := open.Spec
	sends := spec.Direction == measurement.Receive
	facts, err := prepare(w.Conn, spec, sends)
	if err != nil {
		return &protocol.RemoteError{Reason: string(Unsupported), Message: err.Error()}
	}
	ready.MSS = w.MSS()
	start, err := awaitStart(&w, ready)
	if err != nil {
		return err
	}
	w.deadline = start.Add(planned(spec) + grace)
	var host *hostSampler
	hostSeries := func() *protocol.HostSeries { return nil }
	if open.HostSeries {
		host = startHostSampler(start)
		defer host.end()
		hostSeries = host.result
	}
	if sends {
		return sendStream(w, s.payload, spec, start, hostSeries, facts)
	}
	r := newReceiver(w, spec)
	r.start = start
	defer keepClamp(w.Conn, spec)()
	r.finished = func() error {
		return protocol.WriteFrame(&r.wire, protocol.TypeReceived, protocol.Received{
			Bins: r.counted(), Host: hostSeries(), Effective: receiverEffective(r, spec), Facts: facts,
		})
	}
	_, err = r.run()
	return err
}

func sendStream(w wire, payload *sockets.Payload, spec measurement.Spec, start time.Time, host func() *protocol.HostSeries, facts []string) error {
	s := &sender{wire: w, payload: payload, mustFinish: true}
	info := startInfoSampler(w.Conn, start, spec.Flows)
	defer info.end()
	if _, err := s.run(); err != nil {
		return err
	}
	info.end()
	err := protocol.WriteFrame(&s.wire, protocol.TypeSent, protocol.Sent{
		Bytes: s.sent.Load(), Final: info.final, Info: info.series,
		Host: host(), Effective: senderEffective(s), Facts: append(facts, info.facts()...),
	})
	if err != nil {
		return err
	}
	// The client closes when it has everything; closing first could reset the
	// connection under the last bytes.
	if err := s.CloseWrite(); err != nil {
		return err
	}
	var b [1]byte
	_, err = s.wire.Read(b[:])
	return err
}

// prepare applies the socket options that a spec asks of one end, and returns
// what a reader must know.
func prepare(conn *sockets.Conn, spec measurement.Spec, sends bool) ([]string, error) {
	if sends {
		if spec.CongestionControl == "" {
			return nil, nil
		}
		return nil, conn.SetCongestionControl(spec.CongestionControl)
	}
	if spec.WindowBytes > 0 {
		if err := conn.ClampWindow(int(spec.WindowBytes)); err != nil {
			return nil, err
		}
	}
	if !spec.CopyPayload && !conn.DiscardsInKernel() {
		return []string{"the receiver copied the payload: this system cannot discard it in the kernel"}, nil
	}
	return nil, nil
}

// clampInterval is how often the window's clamp is renewed.
const clampInterval = 2 * time.Millisecond

// keepClamp renews the window's clamp, which the kernel moves, until the
// returned function is called.
func keepClamp(conn *sockets.Conn, spec measurement.Spec) func() {
	if spec.WindowBytes <= 0 {
		return func() {}
	}
	return startSampler(clampInterval, func() {
		// It worked once; it fails only when the connection has ended.
		_ = conn.RenewClamp(int(spec.WindowBytes))
	}).end
}

func receiverEffective(r *receiver, spec measurement.Spec) map[string]string {
	e := map[string]string{"receive_method": r.method()}
	setBytes(e, "receive_buffer_bytes", r.ReceiveBuffer())
	if r.highest > 1 {
		setBytes(e, "receive_low_water_bytes", r.highest)
	}
	if spec.WindowBytes > 0 {
		setBytes(e, "window_clamp_bytes", r.WindowClamp())
	}
	return e
}

func senderEffective(s *sender) map[string]string {
	e := map[string]string{"send_method": s.payload.Method()}
	if cc := s.CongestionControl(); cc != "" {
		e["congestion_control"] = cc
	}
	setBytes(e, "send_buffer_bytes", s.SendBuffer())
	setBytes(e, "mss_bytes", s.MSS())
	return e
}

func setBytes(e map[string]string, key string, v int) {
	if v > 0 {
		e[key] = fmt.Sprint(v)
	}
}
