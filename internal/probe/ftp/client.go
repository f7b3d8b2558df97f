package ftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"net/textproto"
	"strconv"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// test is an ftp test at the client.
type test struct {
	req  session.Request
	spec measurement.Spec
	// link is the test's connection to this project's server, control what is
	// said on it; a stock server has none.
	link    *session.Link
	control session.ControlConn
	client  *ftp.Client
	// started is when START was sent, on which the other end's clock counts.
	started time.Time
	report  protocol.Report
	watch   watcher
	content *ftp.Content
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (out measurement.Outcome, err error) {
	t := &test{req: req, spec: req.Spec, content: ftp.NewContent()}
	server := protocol.FTP{User: cmp.Or(req.FTPUser, "anonymous"), Password: cmp.Or(req.FTPPassword, "hopbench@"), Path: req.Spec.FilePath, Port: int(req.Target.Port())}
	if req.Spec.FilePath == "" {
		if server, err = t.open(ctx); err != nil {
			return out, err
		}
		defer func() { _ = t.link.Conn.Abort() }() // whatever it says, the test is over
		defer context.AfterFunc(ctx, t.link.Conn.Interrupt)()
	}
	if server.Port < 1 || server.Port > math.MaxUint16 {
		return out, fmt.Errorf("%w: FTP server on port %d", protocol.ErrMalformed, server.Port)
	}
	options := ftp.ClientOptions{
		Server: netip.AddrPortFrom(req.Target.Addr(), uint16(server.Port)),
		User:   server.User, Password: server.Password, Path: server.Path, Segments: req.Spec.Flows,
		Dial: t.dial,
	}
	if req.Spec.Direction == measurement.Send {
		options.Watch = t.watch.add
	}
	t.client, err = ftp.Open(ctx, options)
	if err != nil {
		return out, t.unopened(err)
	}
	defer t.client.Close()
	if err := t.measureSize(); err != nil {
		return out, err
	}
	return t.run(ctx, progress)
}

// unopened is why the FTP sessions could not be opened. This project's server was reached
// before, at another port.
func (t *test) unopened(err error) error {
	const op = "open the FTP sessions"
	wrapped := wrap(op, err)
	if t.link == nil {
		return wrapped
	}
	if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" && session.ReasonOf(wrapped).OfPath() {
		wrapped = wrap(op, fmt.Errorf("%w: FTP has ports of its own, which hopbench serve --ftp-ports sets", err))
	}
	return session.Further(op, wrapped)
}

// open opens the test at this project's server, which says where its FTP server is.
func (t *test) open(ctx context.Context) (_ protocol.FTP, err error) {
	if t.link, err = session.ConnectSingle(ctx, t.req); err != nil {
		return protocol.FTP{}, err
	}
	t.control = session.ControlConn{Conn: t.link.Conn, Deadline: time.Now().Add(kind.MaxDuration + session.Grace)}
	if t.link.Ready.FTP == nil {
		return protocol.FTP{}, errors.Join(fmt.Errorf("%w: READY without an FTP server", protocol.ErrMalformed), t.link.Conn.Abort())
	}
	return *t.link.Ready.FTP, nil
}

// dial connects to the FTP server with the options of the test.
func (t *test) dial(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	c, err := session.Dial(ctx, t.req, 0, address)
	if err != nil {
		return nil, err // and no typed nil
	}
	conn, err := prepare(c, t.spec, !sends(t.spec))
	if err != nil {
		return nil, &session.Error{Op: "prepare the socket", Reason: session.Unsupported, Err: errors.Join(err, c.Close())}
	}
	return conn, nil
}

// toldWait is how long the reason of a failure is waited for.
const toldWait = time.Second

// measureSize takes the size of a file that the test did not choose, and checks
// that of one that it did.
func (t *test) measureSize() error {
	if t.spec.Direction == measurement.Send {
		return nil
	}
	size, err := t.client.Size()
	if err != nil {
		return wrap("look at the file", err)
	}
	if t.spec.FilePath == "" && size != t.spec.FileBytes {
		return fmt.Errorf("%w: the server's file has %d bytes, asked for were %d", protocol.ErrMalformed, size, t.spec.FileBytes)
	}
	if size < int64(t.spec.Flows) {
		return fmt.Errorf("the file has %d bytes, too few for %d segments", size, t.spec.Flows)
	}
	t.spec.FileBytes = size
	return nil
}

// run transfers the file.
func (t *test) run(ctx context.Context, progress func(measurement.Progress)) (measurement.Outcome, error) {
	ttl := &datagram.TTLProbe{}
	if t.link != nil {
		ttl = datagram.StartTTLProbe(ctx, t.req, t.link.Ready)
		defer ttl.End()
	}
	t.started = time.Now()
	t.watch.begin(t.started, t.spec.Flows, t.maxRate())
	if t.link != nil {
		if err := protocol.WriteFrame(&t.control, protocol.TypeStart, nil); err != nil {
			return measurement.Outcome{}, session.Wrap("start", err)
		}
	}
	host := host.StartSampler(t.started)
	defer host.End()
	signs := sampling.Start(session.ProgressInterval, session.ThroughputProgress(t.started, t.client.Moved, progress))
	defer signs.End()
	var result ftp.Result
	var err error
	if t.spec.Direction == measurement.Send {
		err = t.client.Upload(ctx, t.content, t.spec.FileBytes)
	} else {
		result, err = t.client.Download(ctx, t.spec.FileBytes)
	}
	signs.End()
	if err != nil {
		return measurement.Outcome{}, wrap("transfer the file", t.told(err))
	}
	local := host.Result()
	took := time.Since(t.client.Started())
	if err := t.finish(); err != nil {
		return measurement.Outcome{}, err
	}
	if t.spec.Direction == measurement.Send {
		result, err = t.stored(took)
	} else {
		err = checkTransfers(t.report, result.Segments, t.spec.FileBytes)
	}
	if err != nil {
		return measurement.Outcome{}, session.Wrap("read the server's report", err)
	}
	if err := t.verify(result); err != nil {
		return measurement.Outcome{}, err
	}
	return t.outcome(result, local, ttl.Result()), nil
}

// told prefers what the server says on the test's own connection, when it closes
// everything, over what that caused.
func (t *test) told(err error) error {
	if t.link == nil {
		return err
	}
	var remote *protocol.RemoteError
	if said := t.expect(toldWait, nil); errors.As(said, &remote) {
		return remote
	}
	return err
}

// finish says that the transfer is over and reads what the server saw of it.
func (t *test) finish() error {
	if t.link == nil {
		return nil
	}
	t.control.Deadline = time.Now().Add(session.Grace)
	if err := protocol.WriteFrame(&t.control, protocol.TypeReceived, nil); err != nil {
		return session.Wrap("end the test", err)
	}
	return session.Wrap("read the server's report", t.expect(session.Grace, &t.report))
}

// expect reads REPORT within a time that no trickle prolongs: the deadline of the
// whole test is a day away, and that of the connection moves no byte faster.
func (t *test) expect(within time.Duration, report any) error {
	t.control.Deadline = time.Now().Add(within)
	end := time.AfterFunc(within, t.link.Conn.Interrupt)
	err := protocol.Expect(&t.control, protocol.TypeReport, protocol.MaxControl, report)
	if !end.Stop() && session.IsLost(err) {
		return session.ErrSilent // which the interruption hides
	}
	return err
}

// stored is what the server received of a file, which came over the wire, by took
// after this end began to send it.
func (t *test) stored(took time.Duration) (ftp.Result, error) {
	if err := checkStored(t.report, took); err != nil {
		return ftp.Result{}, err
	}
	x := t.report.Transfers[0]
	return ftp.Result{
		Started: t.client.Started(), Took: x.Took.Duration(), Bytes: x.Bytes, CRC32: x.CRC32, Bins: *x.Bins,
		Segments: []ftp.Segment{{Bytes: x.Bytes, CRC32: x.CRC32, Local: x.Client, Remote: x.Server}},
	}, nil
}

// verify compares the digests of what arrived with those of what had to.
func (t *test) verify(r ftp.Result) error {
	wrong := func(what string, got, want uint32) error {
		return &session.Error{Op: "check the file", Reason: session.Failed, Err: fmt.Errorf("%w: %s arrived with CRC-32 %08x, not %08x", errDigest, what, got, want)}
	}
	if r.Bytes != t.spec.FileBytes {
		return &session.Error{Op: "check the file", Reason: session.Failed, Err: fmt.Errorf("%w: %d bytes arrived of %d", errDigest, r.Bytes, t.spec.FileBytes)}
	}
	if t.spec.FilePath == "" {
		for i, s := range r.Segments {
			if want := t.content.CRC(s.Offset, s.Bytes); s.CRC32 != want {
				return wrong(fmt.Sprintf("segment %d of %d", i+1, len(r.Segments)), s.CRC32, want)
			}
		}
	}
	want := t.content.CRC(0, t.spec.FileBytes)
	if t.spec.FilePath != "" {
		if t.spec.FileCRC32 == "" {
			return nil
		}
		known, err := strconv.ParseUint(t.spec.FileCRC32, 16, 32)
		if err != nil {
			return err // the spec was checked
		}
		want = uint32(known)
	}
	if r.CRC32 != want {
		return wrong("the file", r.CRC32, want)
	}
	return nil
}

// errDigest says that what arrived is not what was sent.
var errDigest = errors.New("the file was damaged on the way")

// outcome turns what was counted into metrics, all from the first command of a
// transfer to the last byte.
func (t *test) outcome(r ftp.Result, local *protocol.HostSeries, localTTL int) measurement.Outcome {
	took := max(r.Took.Seconds(), 1e-6)
	out := measurement.Outcome{
		Metrics: measurement.Metrics{
			"goodput_bits_per_second": float64(r.Bytes) * 8 / took,
			"transfer_seconds":        took, "file_bytes": float64(r.Bytes),
		},
		Started: r.Started, Throughput: &r.Bins,
		Effective: map[string]string{"ftp_server": t.client.Greeting(), "file_crc32": fmt.Sprintf("%08x", r.CRC32)},
		Facts:     t.facts(),
	}
	if asked := t.spec.CongestionControl; asked != "" {
		out.Effective["congestion_control"] = asked
	}
	session.SetBytes(out.Effective, "window_clamp_bytes", int(t.spec.WindowBytes))
	began := r.Started.Sub(t.started).Seconds()
	var info tcpinfo.Sums
	for _, s := range r.Segments {
		f := t.flow(s, began)
		info.Add(f, 0, took)
		out.Flows = append(out.Flows, f)
	}
	info.Fill(out.Metrics)
	out.Source = host.EndOf(local, began, began+took, localTTL)
	if t.link != nil {
		out.Destination = host.EndOf(t.report.Host, began, began+took, t.link.Ready.ReceivedTTL)
		host.AddCost(&out, took, float64(r.Bytes), 0)
	}
	return out
}

// flow is one segment with what its sender's socket saw, on the time axis that
// begins with the transfer, began seconds after START.
func (t *test) flow(s ftp.Segment, began float64) measurement.Flow {
	f := measurement.Flow{Source: s.Local, Destination: s.Remote, ReceivedBytes: s.Bytes, SentBytes: s.Bytes}
	if t.spec.Direction == measurement.Send { // whose addresses the server told
		f.Source, f.Destination = session.InOwnZone(s.Local, t.link.Local), session.InOwnZone(s.Remote, t.link.Remote)
		f.Final, f.Info = t.watch.only()
	} else {
		for _, x := range t.report.Transfers {
			if x.Offset == s.Offset {
				f.SentBytes, f.Final, f.Info, f.Destination = x.Bytes, x.Final, x.Info, cmp.Or(session.InOwnZone(x.Server, s.Remote), f.Destination)
			}
		}
	}
	for i := range f.Info {
		f.Info[i].At -= measurement.Seconds(began)
	}
	if f.Final != nil {
		final := *f.Final
		final.At -= measurement.Seconds(began)
		f.Final = &final
	}
	return f
}

func (t *test) facts() []string {
	var facts []string
	if t.spec.FilePath != "" {
		facts = append(facts, "what the FTP server's host spent on the transfer, and its TCP retransmitted, is not known")
		if t.spec.FileCRC32 == "" {
			facts = append(facts, "the CRC-32 of the file was not given, so that nothing proves that it arrived as it is there")
		}
	}
	if most := t.maxRate(); most > 0 {
		facts = append(facts, session.PacedBy(most))
	}
	var sent int64
	for _, x := range t.report.Transfers {
		sent += x.Bytes
	}
	if extra := sent - t.spec.FileBytes; t.spec.Direction == measurement.Receive && extra > 0 {
		facts = append(facts, fmt.Sprintf("the server had sent or queued %s more than the segments when their ends were reached: FTP has no command for the end of a range", quantity.Format(float64(extra), measurement.Bytes)))
	}
	if t.link != nil {
		facts = append(facts, t.link.TranslatedSource()...)
	}
	return facts
}

// wrap gives an error of an FTP session its reason.
func wrap(op string, err error) error {
	var reply *textproto.Error
	const notLoggedIn = 530 // RFC 959, section 4.2.1
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &reply) && session.ReasonOf(err).OfPath():
		return session.Wrap(op, err) // whatever the server said to it
	case errors.Is(err, ftp.ErrMalformed):
		return &session.Error{Op: op, Reason: session.Protocol, Err: err}
	case errors.As(err, &reply) && reply.Code == notLoggedIn:
		return &session.Error{Op: op, Reason: session.Unauthorized, Err: err}
	case errors.As(err, &reply):
		return &session.Error{Op: op, Reason: session.Failed, Err: err}
	case sockets.OutOfDescriptors(err):
		return &session.Error{Op: op, Reason: session.Unsupported, Err: err}
	}
	return session.Wrap(op, err)
}

// maxRate is what the server lets the test move, in bit/s; 0 is any.
func (t *test) maxRate() float64 {
	if t.link == nil {
		return 0
	}
	return t.link.Ready.MaxRateBitsPerSecond
}
