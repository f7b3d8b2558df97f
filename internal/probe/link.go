package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	dialTimeout = 5 * time.Second
	// handshakeTimeout bounds everything from the first byte to READY.
	handshakeTimeout = 5 * time.Second
)

// link is the client's end of one prepared connection of a test.
type link struct {
	conn  *sockets.Conn
	ready protocol.Ready
	// local is this end's address, as this host sees it; remote the address
	// that was dialled.
	local, remote string
}

// newSession draws the identity of one test.
func newSession() (string, error) {
	var b [protocol.SessionDigits / 2]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("draw a session: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// connect dials, proves the token and opens flow number flow of a test. The
// options of the spec are set before the handshake of TCP, which they shape.
func connect(ctx context.Context, req Request, session string, flow int) (*link, error) {
	op := fmt.Sprintf("connect to %s", req.Target)
	var refused error
	d := dialer(req, flow, &refused)
	c, err := d.DialContext(ctx, "tcp", req.Target.String())
	if refused != nil {
		return nil, &Error{Op: "prepare the socket", Reason: Unsupported, Err: refused}
	}
	if err != nil {
		return nil, failure(op, explainDial(err, req.Spec.SourcePort+flow))
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	l, err := open(c.(*net.TCPConn), req, session, flow)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), l.conn.Abort())
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, failure(op, errors.Join(err, ignoreClosed(c.Close())))
	}
	return l, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func open(c *net.TCPConn, req Request, session string, flow int) (*link, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	id := protocol.Identity{Session: session, Test: req.ID, Flow: flow}
	if err := protocol.ClientHandshake(c, req.Token, id); err != nil {
		return nil, err
	}
	l := &link{local: c.LocalAddr().String(), remote: c.RemoteAddr().String()}
	offer := protocol.Open{Spec: req.Spec, HostSeries: flow == 0}
	if req.placed {
		offer.HostID, offer.CPUs = hostinfo.HostID(), sockets.AllowedCPUs()
	}
	if err := protocol.WriteFrame(c, protocol.TypeOpen, offer); err != nil {
		return nil, err
	}
	if err := protocol.Expect(c, protocol.TypeReady, protocol.MaxControl, &l.ready); err != nil {
		return nil, err
	}
	conn, err := sockets.Attach(c)
	if err == nil && !sharesPoller(req.Spec) {
		err = conn.Detach()
	}
	if o := optionsOf(req.Spec, false); err == nil && (o.SendBuffer > 0 || o.ReceiveBuffer > 0) {
		// Linux has done it before; other systems do it now.
		err = conn.SetOptions(sockets.Options{SendBuffer: o.SendBuffer, ReceiveBuffer: o.ReceiveBuffer})
	}
	l.conn = conn
	return l, err
}
