package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// bench is a native test's connection that the server has prepared, of a client
// that does what it likes with it.
type bench struct {
	*conn
	spec  measurement.Spec
	ready protocol.Ready
}

// Specs that are a second long, as bad clients ask for them.
var (
	shortTCP = measurement.Spec{Kind: measurement.TCP, Flows: 1, Direction: measurement.Send, Duration: 1}
	shortRR  = measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1, Duration: 1}
	shortMTU = measurement.Spec{Kind: measurement.MTU, Timeout: 0.01}
)

// session draws a test's session.
func (c *client) session() string { return fmt.Sprintf("%016x%016x", c.r.Uint64(), c.r.Uint64()) }

// open takes a connection of a test of its own to READY.
func (c *client) open(ctx context.Context, spec measurement.Spec) (*bench, error) {
	return c.join(ctx, protocol.Identity{Session: c.session()}, protocol.Open{Spec: spec})
}

// join takes a connection of a test to READY.
func (c *client) join(ctx context.Context, id protocol.Identity, open protocol.Open) (*bench, error) {
	to, err := c.greeted(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	b := &bench{conn: to, spec: open.Spec}
	err = protocol.WriteFrame(to, protocol.TypeOpen, open)
	if err == nil {
		err = protocol.Expect(to, protocol.TypeReady, protocol.MaxControl, &b.ready)
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return b, nil
}

// greeted takes a connection with a receive buffer of so many bytes to ACCEPT.
func (c *client) greeted(ctx context.Context, id protocol.Identity, buffer int) (*conn, error) {
	to, err := c.dialPort(ctx, "tcp", c.of(c.from).Port(), buffer)
	if err != nil {
		return nil, err
	}
	if err := protocol.ClientHandshake(to, "", id); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// start opens a test of its own and starts it.
func (c *client) start(ctx context.Context, spec measurement.Spec) (*bench, error) {
	return c.startJoined(ctx, protocol.Identity{Session: c.session()}, protocol.Open{Spec: spec})
}

// startJoined takes a connection of a test beyond START.
func (c *client) startJoined(ctx context.Context, id protocol.Identity, open protocol.Open) (*bench, error) {
	b, err := c.join(ctx, id, open)
	if err != nil {
		return nil, err
	}
	if err := b.start(ctx, c); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// start sends START, after what a kind has before it.
func (b *bench) start(ctx context.Context, c *client) error {
	switch b.spec.Kind {
	case measurement.UDP, measurement.PPS, measurement.MTU:
		if err := b.reach(ctx, c); err != nil {
			return err
		}
	}
	return protocol.WriteFrame(b, protocol.TypeStart, nil)
}

// What a packet over UDP begins with, of docs/protocol.md.
const (
	packetBytes   = 24
	kindByte      = protocol.CookieBytes
	sequenceAt    = kindByte + 4
	kindRequest   = 1
	kindHello     = 2
	helloEvery    = 50 * time.Millisecond
	largestPacket = 65507
)

func packet(cookie []byte, kind byte, number uint32) []byte {
	p := make([]byte, packetBytes)
	copy(p, cookie)
	p[kindByte] = kind
	binary.BigEndian.PutUint32(p[sequenceAt:], number)
	return p
}

// reach sends the flow's first UDP packet until REACHED comes.
func (b *bench) reach(ctx context.Context, c *client) error {
	udp, err := c.dial(ctx, "udp")
	if err != nil {
		return err
	}
	defer udp.Close()
	done := make(chan error, 1)
	go func() { done <- protocol.Expect(b, protocol.TypeReached, protocol.MaxControl, nil) }()
	for {
		_, _ = udp.Write(packet(b.ready.Cookie, kindHello, b.ready.UDPFlow)) // the next one may pass
		select {
		case err := <-done:
			return err
		case <-time.After(helloEvery):
		}
	}
}

// header is that of a frame, for clients that do not send the rest at once.
func header(t protocol.Type, length int) []byte {
	b := make([]byte, protocol.HeaderBytes)
	protocol.PutHeader(b, t, length)
	return b
}

// crowd opens connections with open, up to n one after the other, and returns
// those that the server took. It counts each under name, and gives up when many
// in a row are refused.
func crowd[T net.Conn](ctx context.Context, c *client, name string, n int, open func(i int) (T, error)) (held []T) {
	const inVain = 20
	for i, failed := 0, 0; i < n && failed < inVain && ctx.Err() == nil; i++ {
		one, err := open(i)
		if !c.note(ctx, name, err) {
			failed++
			continue
		}
		held, failed = append(held, one), 0
	}
	return held
}

// hold holds a crowd for a while.
func hold[T net.Conn](ctx context.Context, c *client, name string, n int, open func(i int) (T, error)) {
	held := crowd(ctx, c, name, n, open)
	c.stay(ctx)
	closeAll(held)
}

func closeAll[T net.Conn](held []T) {
	for _, one := range held {
		_ = one.Close() // the server may have
	}
}
