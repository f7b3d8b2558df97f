package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// Link is the client's end of one prepared connection of a test.
type Link struct {
	Conn  *sockets.Conn
	Ready protocol.Ready
	// Local is this end's address, as this host sees it; remote the address
	// that was dialled.
	Local, Remote string
}

// TranslatedSource is the fact that the other end sees another address of this one, if it does.
func (l *Link) TranslatedSource() []string {
	if l.Ready.Client == "" || l.Ready.Client == l.Local {
		return nil
	}
	return []string{"the source address is translated on the way: the destination saw " + hostOf(l.Ready.Client) + " where the source has " + hostOf(l.Local)}
}

// NewID draws the identity of one test.
func NewID() (string, error) {
	var b [protocol.SessionDigits / 2]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw a session: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// ownRun tells the tests of this process from those of others.
var ownRun = sync.OnceValue(func() string {
	id, err := NewID()
	if err != nil {
		return "" // a server then goes by the address
	}
	return id
})

// Connect dials, proves the token and opens flow number flow of a test. The
// options of the spec are set before the handshake of TCP, which they shape.
func Connect(ctx context.Context, req Request, testID string, flow int) (*Link, error) {
	op := fmt.Sprintf("connect to %s", req.Target)
	c, err := Dial(ctx, req, flow, req.Target)
	if err != nil {
		return nil, Wrap(op, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	l, err := open(c, req, testID, flow)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), l.Conn.Abort())
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, Wrap(op, errors.Join(err, IgnoreClosed(c.Close())))
	}
	return l, nil
}

// ConnectSingle is [Connect] for the one connection of a new test.
func ConnectSingle(ctx context.Context, req Request) (*Link, error) {
	testID, err := NewID()
	if err != nil {
		return nil, err
	}
	return Connect(ctx, req, testID, 0)
}

// OpenFlows opens the n flows of a test by one, of which so many are called at a time, before
// any flow may send.
func OpenFlows(ctx context.Context, n, atOnce int, one func(ctx context.Context, testID string, flow int) error) error {
	testID, err := NewID()
	if err != nil {
		return err
	}
	// The first goes alone: what it is refused, all would be.
	if err := one(ctx, testID, 0); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for flow := 1; flow < n; flow++ {
		group.Go(func() error { return OfFlow(flow, n, one(ctx, testID, flow)) })
	}
	return group.Wait()
}

// InOwnZone is the address and port of an end as the other end tells them, with the zone
// that the same end has here in place of the other's: an IPv6 zone is the name of an
// interface of the host that says it (RFC 4007, section 6).
func InOwnZone(told, here string) string {
	a, err := netip.ParseAddrPort(told)
	if err != nil || a.Addr().Zone() == "" {
		return told
	}
	own, _ := netip.ParseAddrPort(here) // without a zone if it is none
	return netip.AddrPortFrom(a.Addr().WithZone(own.Addr().Zone()), a.Port()).String()
}

// IgnoreClosed is err unless that says that something was closed already.
func IgnoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func open(c *net.TCPConn, req Request, testID string, flow int) (*Link, error) {
	if err := c.SetDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
		return nil, err
	}
	id := protocol.Identity{Session: testID, Test: req.ID, Flow: flow}
	if err := protocol.ClientHandshake(c, req.Token, id); err != nil {
		return nil, err
	}
	l := &Link{Local: c.LocalAddr().String(), Remote: c.RemoteAddr().String()}
	offer := protocol.Open{Spec: req.Spec, HostSeries: flow == 0, MaxRateBitsPerSecond: req.MaxRateBitsPerSecond, Deflate: true, Run: ownRun()}
	if req.Spec.Kind == measurement.TCP && ClientSends(req.Spec, flow) {
		offer.SenderPaces = sockets.Paces(cmp.Or(req.Spec.CongestionControl, sockets.CongestionControlOf(c)))
	}
	if req.Placed {
		offer.HostID, offer.CPUs = hostinfo.HostID(), thread.AllowedCPUs()
	}
	if err := protocol.WriteFrame(c, protocol.TypeOpen, offer); err != nil {
		return nil, err
	}
	if err := protocol.Expect(c, protocol.TypeReady, protocol.MaxControl, &l.Ready); err != nil {
		return nil, err
	}
	l.Ready.Client, l.Ready.Server = InOwnZone(l.Ready.Client, l.Local), InOwnZone(l.Ready.Server, l.Remote)
	l.Ready.MaxRateBitsPerSecond = LeastRate(l.Ready.MaxRateBitsPerSecond, req.MaxRateBitsPerSecond)
	conn, err := sockets.Attach(c)
	if err == nil && !SharesPoller(req.Spec) {
		err = conn.Detach()
	}
	if o := FlowOptions(req.Spec, false); err == nil && (o.SendBuffer > 0 || o.ReceiveBuffer > 0) {
		// Linux has done it before; other systems do it now.
		err = conn.SetOptions(sockets.Options{SendBuffer: o.SendBuffer, ReceiveBuffer: o.ReceiveBuffer})
	}
	l.Conn = conn
	return l, err
}
