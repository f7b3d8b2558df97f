package ftp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is not the file that was asked for fails the test, however it differs.
func TestFTPChecksTheFile(t *testing.T) {
	content := ftp.NewContent()
	const size = 1000
	good := func() ftp.Result {
		return ftp.Result{Bytes: size, CRC32: content.CRC(0, size), Segments: []ftp.Segment{
			{Offset: 0, Bytes: 400, CRC32: content.CRC(0, 400)}, {Offset: 400, Bytes: 600, CRC32: content.CRC(400, 600)},
		}}
	}
	for name, c := range map[string]struct {
		spec   measurement.Spec
		change func(*ftp.Result)
		want   string
	}{
		"good":          {measurement.Spec{Kind: measurement.FTP, Flows: 2, FileBytes: size}.Defaults(), func(*ftp.Result) {}, ""},
		"segment":       {measurement.Spec{Kind: measurement.FTP, Flows: 2, FileBytes: size}.Defaults(), func(r *ftp.Result) { r.Segments[1].CRC32++ }, "segment 2 of 2"},
		"whole":         {measurement.Spec{Kind: measurement.FTP, Flows: 2, FileBytes: size}.Defaults(), func(r *ftp.Result) { r.CRC32++ }, "the file arrived"},
		"short":         {measurement.Spec{Kind: measurement.FTP, Flows: 2, FileBytes: size}.Defaults(), func(r *ftp.Result) { r.Bytes-- }, "999 bytes arrived of 1000"},
		"stock, known":  {measurement.Spec{FilePath: "/x", FileBytes: size, FileCRC32: "00000001"}, func(*ftp.Result) {}, "not 00000001"},
		"stock, proven": {measurement.Spec{FilePath: "/x", FileBytes: size, FileCRC32: "0000002a"}, func(r *ftp.Result) { r.CRC32 = 42 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			c.change(&r)
			err := (&test{spec: c.spec, content: content}).verify(r)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !errors.Is(err, errDigest) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A server's report of a stored file is checked before it is believed.
func TestFTPReportsAreChecked(t *testing.T) {
	bins := &measurement.Bins{Width: 0.01, Bytes: []float64{5}}
	for name, c := range map[string]struct {
		transfers []protocol.Transfer
		ok        bool
	}{
		"good":       {[]protocol.Transfer{{Bytes: 5, Bins: bins, Took: 1}}, true},
		"none":       {nil, false},
		"two":        {[]protocol.Transfer{{Bytes: 5, Bins: bins, Took: 1}, {Bytes: 5, Bins: bins, Took: 1}}, false},
		"no bins":    {[]protocol.Transfer{{Bytes: 5, Took: 1}}, false},
		"no time":    {[]protocol.Transfer{{Bytes: 5, Bins: bins}}, false},
		"from where": {[]protocol.Transfer{{Offset: 1, Bytes: 5, Bins: bins, Took: 1}}, false},
		"bad bins":   {[]protocol.Transfer{{Bytes: 5, Bins: &measurement.Bins{Width: 0.01, Bytes: []float64{4}}, Took: 1}}, false},
		"no width":   {[]protocol.Transfer{{Bytes: 5, Bins: &measurement.Bins{Bytes: []float64{5}}, Took: 1}}, false},
		"too slow":   {[]protocol.Transfer{{Bytes: 5, Bins: bins, Took: 3}}, false},
	} {
		test := &test{client: &ftp.Client{}, report: protocol.Report{Transfers: c.transfers}}
		if _, err := test.stored(2 * time.Second); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// attach is the socket of a connection, as who watches it is given it.
func attach(t *testing.T, c net.Conn) *sockets.Conn {
	t.Helper()
	conn, err := sockets.Attach(c.(*net.TCPConn))
	testutil.OK(t, err)
	return conn
}

// Samples of a connection that began before START was read count from START all the
// same.
func TestSamplesBeforeStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	defer c.Close()
	var w watcher
	ready := time.Now().Add(-time.Hour)
	w.begin(ready, 1, 0)
	end := w.add(c, attach(t, c))
	w.begin(ready.Add(time.Hour), 1, 0)
	end()
	final, series := w.of(c.LocalAddr().String(), c.RemoteAddr().String())
	if runtime.GOOS == "linux" && (final == nil || len(series) == 0) {
		t.Fatal("nothing was sampled")
	}
	for _, i := range series {
		if i.At < 0 || i.At > 60 {
			t.Errorf("a sample at %v s after START", i.At)
		}
	}
	if final != nil && (final.At < 0 || final.At > 60) {
		t.Errorf("the last sample at %v s after START", final.At)
	}
}

// A session that a firewall keeps from its port is not one that lacks a server.
func TestSessionsThatCannotBeOpened(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for link, want := range map[*session.Link]bool{nil: false, {}: true} {
		failed, ok := errors.AsType[*session.Error]((&test{link: link}).unopened(dial))
		if !ok || failed.Further != want || failed.Reason != session.TimedOut || strings.Contains(failed.Error(), "--ftp-ports") != want {
			t.Errorf("with a connection to the server %v: %v", want, failed)
		}
	}
}

// All samples of a transfer count from its first command, the last one of a socket, too.
func TestSamplesCountFromTheFirstCommand(t *testing.T) {
	sample := func(at measurement.Seconds) measurement.TCPInfo { return measurement.TCPInfo{At: at} }
	final := sample(3)
	x := &test{spec: measurement.Spec{Direction: measurement.Receive}, report: protocol.Report{
		Transfers: []protocol.Transfer{{Offset: 7, Final: &final, Info: []measurement.TCPInfo{sample(1), sample(2.5)}}},
	}}
	f := x.flow(ftp.Segment{Offset: 7}, 0.5)
	if len(f.Info) != 2 || f.Info[0].At != 0.5 || f.Info[1].At != 2 || f.Final.At != 2.5 {
		t.Errorf("%+v, the last %+v", f.Info, f.Final)
	}
}

// A path that breaks a data connection is why a transfer failed, also where the server could
// still say that it did.
func TestRepliesToBrokenTransfers(t *testing.T) {
	reply := &textproto.Error{Code: 550, Msg: "error transferring data"}
	for err, want := range map[error]session.Reason{
		os.ErrDeadlineExceeded: session.TimedOut,
		syscall.ECONNRESET:     session.Vanished,
		io.ErrUnexpectedEOF:    session.Vanished,
		ftp.ErrMalformed:       session.Protocol,
		errDigest:              session.Failed,
	} {
		if got := session.ReasonOf(wrap("transfer the file", fmt.Errorf("%w; the server says: %w", err, reply))); got != want {
			t.Errorf("%v with a reply is %s, must be %s", err, got, want)
		}
	}
}

// Of a server that says nothing more this is said, and not how this end stops waiting.
func TestSilentServerReportsNothing(t *testing.T) {
	near, _ := probetest.Conns(t)
	x := &test{link: &session.Link{Conn: near.Conn}, control: near}
	if err := x.expect(time.Millisecond, nil); err == nil || err.Error() != session.ErrSilent.Error() {
		t.Errorf("got %v", err)
	}
}
