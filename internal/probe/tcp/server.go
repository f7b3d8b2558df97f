package tcp

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
	"github.com/hopbench/hopbench/internal/thread"
)

// server is a server's end of all tcp tests.
type server struct {
	bulk *bulk
}

// Close gives back the payload.
func (s *server) Close() error { return s.bulk.close() }

// Begin makes what says whether the flows of a test keep their processors.
func (s *server) Begin(t *session.Test) (end func() error) {
	if t.Threaded {
		t.State = sockets.NewKeeper(kind.Connections(t.Spec))
	}
	return func() error { return nil }
}

// keepProcessor gives a flow that is better off with one a processor of the Go runtime,
// until remove is called.
func keepProcessor(w *session.ControlConn, t *session.Test, senderPaces bool) (remove func()) {
	keeper, threaded := t.State.(*sockets.Keeper)
	if !threaded || !keepsProcessor(t.Spec, senderPaces) {
		return func() {}
	}
	remove, ok := thread.AddProcessors(1)
	if ok {
		w.KeepProcessor(keeper)
	}
	return remove
}

// Serve is the server's end of one flow of a tcp test.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	var send *sender
	var longest time.Duration
	err := w.OnFreshStack(func() (err error) {
		spec, sends := paced(open.Test.Spec, ready.MaxRateBitsPerSecond), open.Sends()
		longest = session.Planned(spec) + grace(spec)
		if err := prepare(w.Conn, spec, sends); err != nil {
			return &protocol.RemoteError{Reason: string(session.Unsupported), Message: err.Error()}
		}
		if sends {
			send, err = s.bulk.newSender(*w, spec, open.Number)
		}
		return err
	})
	if err != nil {
		return err
	}
	ready.EndsEarly, ready.SenderPaces = true, send != nil && sockets.Paces(w.CongestionControl())
	defer keepProcessor(w, open.Test, ready.SenderPaces || open.SenderPaces)()
	start, err := w.AwaitStart(ready, longest)
	if err != nil {
		return err
	}
	host := open.SampleHost(start)
	defer host.End()
	series := func() *protocol.HostSeries { return host.On(ready.Server) }
	if send != nil {
		send.Deadline = w.Deadline
		return sendStream(send, open, start, series)
	}
	return s.receiveStream(w, open, start, series)
}

func (s *server) receiveStream(w *session.ControlConn, open *session.Flow, start time.Time, host func() *protocol.HostSeries) error {
	var r *receiver
	unclamp, counted := func() {}, func() {}
	err := w.OnFreshStack(func() error {
		spec := open.Test.Spec
		r = newReceiver(*w, spec, s.bulk.buffer(w.Conn, spec, open.Number), open.SenderPaces)
		r.start = start
		unclamp = keepClamp(w.Conn, &spec)
		counted = open.Test.Meter.Add(false, r.count.Load)
		r.finished = func() error {
			return protocol.WriteFrame(&r.ControlConn, protocol.TypeReceived, protocol.Received{
				Bins: r.counted(), Info: r.info, Host: host(), Effective: receiverEffective(r, spec), Facts: receiverFacts(r, spec),
			})
		}
		return nil
	})
	if err == nil {
		_, err = r.run()
	}
	unclamp()
	counted()
	return err
}

func sendStream(send *sender, open *session.Flow, start time.Time, host func() *protocol.HostSeries) error {
	err := send.OnFreshStack(func() error {
		send.mustFinish = true
		send.info = watchFlow(send.Conn, start, open.Test.Spec, nil)
		send.counted = open.Test.Meter.AddPaced(send.pacing, send.sent.Load)
		return nil
	})
	if err != nil {
		return err
	}
	defer send.leave()
	if err := send.run(nil); err != nil {
		return err
	}
	send.info.End()
	err = send.OnFreshStack(func() error {
		return protocol.WriteFrame(&send.ControlConn, protocol.TypeSent, protocol.Sent{
			Bytes: send.sent.Load(), Final: send.info.Final, Info: tcpinfo.Brief(send.info.Series),
			Host: host(), Effective: senderEffective(send, open.Test.Spec), Facts: append(senderFacts(send, open.Test.Spec), send.info.Facts()...),
		})
	})
	if err != nil {
		return err
	}
	// The client closes when it has everything; closing first could reset the
	// connection under the last bytes.
	if err := send.CloseWrite(); err != nil {
		return err
	}
	var b [1]byte
	if _, err = send.ControlConn.Read(b[:]); session.IsLost(err) {
		return nil // it has asked for the end before, so it is not what ended the test
	}
	return err
}

// clampInterval is how often the window's clamp is renewed.
const clampInterval = 2 * time.Millisecond

// keepClamp renews the window's clamp, which the kernel moves, until the
// returned function is called. Many flows renew their own.
func keepClamp(conn *sockets.Conn, spec *measurement.Spec) func() {
	if spec.WindowBytes <= 0 || session.SharesPoller(*spec) {
		return func() {}
	}
	return sampling.Start(clampInterval, func() {
		// It worked once; it fails only when the connection has ended.
		_ = conn.RenewClamp(int(spec.WindowBytes))
	}).End
}

// receiverFacts are what a reader must know of a receiving end.
func receiverFacts(r *receiver, spec measurement.Spec) []string {
	facts := differences(r.Conn, spec, false)
	if !spec.CopyPayload && r.copied {
		facts = append(facts, "the receiver copied the payload: this system cannot discard it in the kernel")
	}
	return facts
}
