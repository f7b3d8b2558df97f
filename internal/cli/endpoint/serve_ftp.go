package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/admission"
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

// newFTPServer is a server for stock FTP clients at an address, or at all, nil where none was
// asked for. They cannot prove a token, so that others get at it only if serving anyone was
// asked for.
func newFTPServer(ctx context.Context, f serveFlags, at netip.Addr, log *serveLog, logger *slog.Logger, admit func(netip.Addr) (func(), error)) (*ftp.Server, string, error) {
	if f.ftp == 0 {
		return nil, "", nil
	}
	if !f.open && !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if !f.open && !at.IsLoopback() {
		return nil, "", base.Usage(fmt.Errorf("--ftp: others can reach %s, and FTP clients cannot prove a token: add --open to let anyone fetch from it, or leave --bind out to serve this machine alone", at))
	}
	ln, err := ftp.Listen(ctx, at, ftp.Ports{First: int(f.ftp), Last: int(f.ftp)})
	if err != nil {
		return nil, "", fmt.Errorf("--ftp: %w", err)
	}
	server := ftp.NewServer(ln, ftp.ServerOptions{
		File: fileNamed, Content: ftp.NewContent(), Ports: ftp.Ports(f.ftpPorts),
		// One client fetches all segments of a file, and leaves others a session each.
		MaxSessions: ftp.MaxSegments + f.maxClients, MaxSessionsPerClient: ftp.MaxSegments,
		MaxDuration: f.maxDuration, Log: logger,
		Admit: admit, Watch: pacedTo(f.maxRate.Number()),
		OnTransfer: func(t ftp.Transfer) { log.event(ftpEvent(t)) },
	})
	return server, fmt.Sprintf("  ftp:      files such as 1GB%s at %v, for %s\n", fileSuffix, ln.Addr(), ftpClients(f.open)), nil
}

// pacedTo has the data connections of each client together send no faster than a rate in bit/s, if
// there is one: a client fetches the segments of a file on as many as it likes.
func pacedTo(rate float64) func(net.Conn, *sockets.Conn) func() {
	if rate == 0 {
		return nil
	}
	p := &pacer{rate: rate, clients: map[netip.Prefix]map[*sockets.Conn]struct{}{}}
	return p.add
}

// pacer divides a rate among the connections of each client.
type pacer struct {
	rate float64

	mu      sync.Mutex
	clients map[netip.Prefix]map[*sockets.Conn]struct{}
}

// add paces a connection with the others of its client until the returned function is called.
func (p *pacer) add(c net.Conn, conn *sockets.Conn) (remove func()) {
	client := admission.Client(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.clients[client]
	if all == nil {
		all = map[*sockets.Conn]struct{}{}
		p.clients[client] = all
	}
	all[conn] = struct{}{}
	p.share(all)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(all, conn); len(all) == 0 {
			delete(p.clients, client)
		}
		p.share(all)
	}
}

// share has connections send as fast as they may. The caller holds the lock.
func (p *pacer) share(all map[*sockets.Conn]struct{}) {
	for conn := range all {
		_ = conn.SetPacing(p.rate / float64(len(all))) // where the system cannot, its sender is as fast as it is
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
