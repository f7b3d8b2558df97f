package ftp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
)

// testFile is the name of the file of an ftp test at this project's server.
const testFile = "hopbench.bin"

// fileServer is the FTP server of one test.
type fileServer struct {
	server *ftp.Server
	done   sync.WaitGroup
	watch  watcher

	mu        sync.Mutex
	transfers []ftp.Transfer // that ended
	running   int            // transfers
	ended     int            // also those that are not kept
}

// server is a server's end of all ftp tests.
type server struct {
	env session.ServerEnv
	// content is what the files are made of.
	content func() *ftp.Content
}

// Serve is the server's end of an ftp test's own connection. It lasts as long
// as its FTP server, which serves that client alone.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	if open.Test.Spec.FilePath != "" {
		return &protocol.RemoteError{Reason: string(session.Unsupported), Message: "this server has no files but those that it makes"}
	}
	at, err := netip.ParseAddrPort(ready.Server)
	if err != nil {
		return fmt.Errorf("find this end's address: %w", err)
	}
	// What this connection cannot have, no connection of the data could.
	if err := apply(w.Conn, open.Test.Spec, sends(open.Test.Spec)); err != nil {
		return &protocol.RemoteError{Reason: string(session.Unsupported), Message: err.Error()}
	}
	f := &fileServer{}
	credentials := protocol.FTP{User: "test-" + rand.Text(), Password: rand.Text(), Path: "/" + testFile}
	if credentials.Port, err = f.start(s, open.Test.Spec, at.Addr(), open.Test.Client, credentials); err != nil {
		return err
	}
	defer f.end()
	ready.FTP = &credentials
	// On a busy host a transfer begins before this end has read START.
	f.watch.begin(time.Now(), open.Test.Spec.Flows, ready.MaxRateBitsPerSecond)
	defer f.countIn(open.Test, w.Conn, ready.MaxRateBitsPerSecond)()
	start, err := w.AwaitStart(ready, s.env.MaxDuration)
	if err != nil {
		return err
	}
	f.watch.begin(start, open.Test.Spec.Flows, ready.MaxRateBitsPerSecond)
	host := open.SampleHost(start)
	defer host.End()
	defer f.endIdle(w.Guard)()
	if err := protocol.Expect(w, protocol.TypeReceived, protocol.Empty, nil); err != nil {
		return err
	}
	report := protocol.Report{Host: host.Result()}
	f.end()
	report.Transfers = f.report()
	w.Until(time.Now().Add(session.Grace))
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// start begins to serve at a port of its own, which it returns.
func (f *fileServer) start(s *server, spec measurement.Spec, at, client netip.Addr, login protocol.FTP) (int, error) {
	ln, err := ftp.Listen(context.Background(), at, s.env.FTPPorts)
	if err != nil {
		return 0, &protocol.RemoteError{Reason: string(session.Unsupported), Message: fmt.Sprintf("start an FTP server: %v", err)}
	}
	f.server = ftp.NewServer(ln, ftp.ServerOptions{
		User: login.User, Password: login.Password, Client: client,
		File: func(name string) (int64, bool) { return spec.FileBytes, name == testFile }, Store: spec.Direction == measurement.Send,
		Content: s.content(), Ports: s.env.FTPPorts,
		Prepare:     func(c *net.TCPConn) (net.Conn, error) { return prepare(c, spec, sends(spec)) },
		MaxSessions: spec.Flows, MaxDuration: s.env.MaxDuration + session.ConnectTime(spec),
		Watch: f.watch.add, OnTransfer: f.note, Log: s.env.Log,
	})
	f.done.Go(func() {
		if err := f.server.Serve(); err != nil {
			s.env.Log.Warn("FTP server ended", "error", err)
		}
	})
	return int(ln.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Port()), nil
}

// countIn has the meter of a test count what moves, until the returned function is called.
func (f *fileServer) countIn(t *session.Test, control *sockets.Conn, maxRate float64) (remove func()) {
	// Where the system paces this connection, it does those of the data.
	if sends(t.Spec) && maxRate > 0 && control.SetPacing(maxRate) == nil {
		return t.Meter.AddPaced(maxRate, f.server.Moved)
	}
	return t.Meter.Add(sends(t.Spec), f.server.Moved)
}

// sends says that the server's end sends the file.
func sends(spec measurement.Spec) bool { return spec.Direction == measurement.Receive }

// end may be called again.
func (f *fileServer) end() {
	f.server.Close()
	f.done.Wait()
}

// endIdle ends a test in which no file was transferred for StillTime, until the returned function
// is called. Of one that is, the FTP server itself demands that it moves.
func (f *fileServer) endIdle(g *session.Guard) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, over := f.ended, false
	var timer *time.Timer
	timer = time.AfterFunc(session.StillTime, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case over:
			return
		case f.running == 0 && f.ended == before:
			g.Halt(session.Refusal(session.TimedOut, "no file was transferred for %v", session.StillTime))
			return
		}
		before = f.ended
		timer.Reset(session.StillTime)
	})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		over = true
		timer.Stop()
	}
}

// note keeps a transfer that has ended.
func (f *fileServer) note(t ftp.Transfer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !t.Ended {
		f.running++
		return
	}
	f.running--
	f.ended++
	if len(f.transfers) < ftp.MaxSegments {
		f.transfers = append(f.transfers, t)
	}
}

// maxReported bounds the TCP_INFO samples of all transfers of a report, so that
// it fits a frame.
const maxReported = 1200

func (f *fileServer) report() []protocol.Transfer {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]protocol.Transfer, len(f.transfers))
	for i, t := range f.transfers {
		out[i] = protocol.Transfer{Offset: t.Offset, Bytes: t.Bytes, Client: t.Remote, Server: t.Local}
		if t.Store {
			out[i].CRC32, out[i].Bins, out[i].Took = t.CRC32, &t.Bins, measurement.SecondsOf(t.Took)
			continue
		}
		out[i].Final, out[i].Info = f.watch.of(t.Local, t.Remote)
		out[i].Info = tcpinfo.Brief(out[i].Info)
		for len(out[i].Info) > max(maxReported/len(out), 2) {
			out[i].Info = sampling.Thin(out[i].Info)
		}
	}
	return out
}
