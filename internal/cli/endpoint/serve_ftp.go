package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/sockets"
)

// portsValue is a range of ports, LOW-HIGH.
type portsValue ftp.Ports

func (v *portsValue) Set(text string) error {
	low, high, found := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if !found || err1 != nil || err2 != nil || first == 0 || last < first {
		return fmt.Errorf("%q is not a range of ports; write LOW-HIGH, such as 50000-50300", text)
	}
	*v = portsValue{First: int(first), Last: int(last)}
	return nil
}

func (v *portsValue) String() string {
	if v.First == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", v.First, v.Last)
}

func (*portsValue) Type() string { return "ports" }

// fileSuffix ends the names of the files that an FTP server here has.
const fileSuffix = ".bin"

// fileNamed is the size of the file of a name, such as 1GB.bin.
func fileNamed(name string) (bytes int64, ok bool) {
	size, found := strings.CutSuffix(name, fileSuffix)
	if !found {
		return 0, false
	}
	bytes, err := quantity.ParseBytes(size)
	return bytes, err == nil && bytes > 0 && bytes <= ftp.MaxFileBytes
}

// newFTPServer is a server for stock FTP clients, nil where none was asked for.
// They cannot prove a token, so that others get at it only if serving anyone was
// asked for.
func newFTPServer(ctx context.Context, f serveFlags, log *serveLog, logger *slog.Logger, admit func(netip.Addr) (func(), error)) (*ftp.Server, string, error) {
	if f.ftp == 0 {
		return nil, "", nil
	}
	var at netip.Addr // all
	if !f.open {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if f.bind != "" {
		var err error
		if at, err = netip.ParseAddr(f.bind); err != nil {
			return nil, "", base.Usage(fmt.Errorf("--bind: %w", err))
		}
		if !f.open && !at.IsLoopback() {
			return nil, "", base.Usage(fmt.Errorf("--ftp: others can reach %s, and FTP clients cannot prove a token: add --open to let anyone fetch from it, or leave --bind out to serve this machine alone", at))
		}
	}
	ln, err := ftp.Listen(ctx, at, ftp.Ports{First: int(f.ftp), Last: int(f.ftp)})
	if err != nil {
		return nil, "", fmt.Errorf("--ftp: %w", err)
	}
	server, err := ftp.NewServer(ln, ftp.ServerOptions{
		File: fileNamed, Content: ftp.NewContent(), Ports: ftp.Ports(f.ftpPorts),
		// One client fetches all segments of a file, and leaves others a session each.
		MaxSessions: ftp.MaxSegments + f.maxClients, MaxSessionsPerClient: ftp.MaxSegments,
		MaxDuration: f.maxDuration, Log: logger,
		Admit: admit, Watch: pacedTo(f.maxRate.Number()),
		OnTransfer: func(t ftp.Transfer) { log.event(ftpEvent(t)) },
	})
	if err != nil {
		return nil, "", errors.Join(err, ln.Close())
	}
	return server, fmt.Sprintf("  ftp:      files such as 1GB%s at %v, for %s\n", fileSuffix, ln.Addr(), ftpClients(f.open)), nil
}

// pacedTo has each data connection send no faster than a rate in bit/s, if there is one.
func pacedTo(rate float64) func(net.Conn) func() {
	if rate == 0 {
		return nil
	}
	return func(c net.Conn) func() {
		if tcp, ok := c.(*net.TCPConn); ok {
			if conn, err := sockets.Attach(tcp); err == nil {
				_ = conn.SetPacing(rate) // where the system cannot, its sender is as fast as it is
			}
		}
		return func() {}
	}
}

func ftpClients(open bool) string {
	if open {
		return "anyone who reaches that port"
	}
	return "clients on this machine; let others in with --open"
}

// ftpEvent is a transfer as a line of the server's log.
func ftpEvent(t ftp.Transfer) probe.TestEvent {
	return probe.TestEvent{
		Client: t.Client, Ended: t.Ended, Elapsed: t.Elapsed, Err: t.Err, Vanished: t.Cut,
		Spec: measurement.Spec{Kind: measurement.FTP, Direction: measurement.Receive, FileBytes: t.Size},
	}
}
