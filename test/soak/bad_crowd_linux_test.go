package soak

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Crowds ask for more than their share of what a server has.

const tenMinutes = 600

// silent connects and says nothing, and comes back when the server hangs up.
func (c *client) silent(ctx context.Context, name string) {
	hold(ctx, c, name, 400, func(int) (*conn, error) { return c.dial(ctx, "tcp") })
}

// threads are connections with a thread of the server's each: of one rr test that
// claims to have many flows, of many rr tests, or of one udp test.
func (c *client) threads(ctx context.Context, name string) {
	claiming, udp := shortRR, shortTCP
	claiming.Flows = 10_000
	udp.Kind, udp.Flows, udp.PacketBytes = measurement.UDP, 400, 1000
	spec := pick(c, claiming, shortRR, udp)
	spec.Duration = tenMinutes
	session := c.session()
	hold(ctx, c, name, 400, func(i int) (*bench, error) {
		id := protocol.Identity{Session: session, Flow: i}
		if spec.Flows == 0 {
			id = protocol.Identity{Session: c.session()}
		}
		return c.startJoined(ctx, id, protocol.Open{Spec: spec})
	})
}

// samplers are rr tests that ask to sample the server's host, and are idle.
func (c *client) samplers(ctx context.Context, name string) {
	spec := shortRR
	spec.Duration = tenMinutes
	hold(ctx, c, name, 300, func(int) (*bench, error) {
		return c.startJoined(ctx, protocol.Identity{Session: c.session()}, protocol.Open{Spec: spec, HostSeries: true})
	})
}

// spin has the server poll for requests that do not come.
func (c *client) spin(ctx context.Context, name string) {
	spec := shortRR
	spec.Duration, spec.Spin = tenMinutes, true
	hold(ctx, c, name, 4, func(int) (*bench, error) { return c.start(ctx, spec) })
}

// mixed is one session with an FTP server in every connection, all the same flow.
func (c *client) mixed(ctx context.Context, name string) {
	spec := measurement.Spec{Kind: measurement.FTP, Flows: 1, Direction: measurement.Receive, FileBytes: 1 << 30}
	session := c.session()
	held := crowd(ctx, c, name, 200, func(int) (*bench, error) {
		return c.join(ctx, protocol.Identity{Session: session}, protocol.Open{Spec: spec})
	})
	if len(held) > 1 {
		c.finding("a session has the same flow more than once")
	}
	c.stay(ctx)
	closeAll(held)
}

// otherAddress joins the session of another address. It must not learn the
// cookie with which that is answered over UDP.
func (c *client) otherAddress(ctx context.Context, name string) {
	spec := shortRR
	spec.Protocol, spec.ResponseBytes, spec.Duration = measurement.OverUDP, largestPacket, tenMinutes
	id := protocol.Identity{Session: c.session()}
	first, err := c.join(ctx, id, protocol.Open{Spec: spec})
	if !c.note(ctx, name, err) {
		return
	}
	defer first.Close()
	other := *c
	for other.from == c.from {
		other.from = badAddress(c.r.IntN(badAddresses), c.from.Is6())
	}
	second, err := other.join(ctx, id, protocol.Open{Spec: spec})
	if !c.note(ctx, name+", second", err) {
		return
	}
	defer second.Close()
	if bytes.Equal(first.ready.Cookie, second.ready.Cookie) {
		c.finding("who joins a session from another address gets its cookie")
	}
	// A packet from an address that has a connection, with the cookie of another's.
	udp, err := c.dial(ctx, "udp")
	if err != nil {
		return
	}
	defer udp.Close()
	if udp.within(ctx, time.Second) != nil {
		return
	}
	_, _ = udp.Write(packet(second.ready.Cookie, kindRequest, 1)) // no answer is what is expected
	if n, err := udp.Read(make([]byte, largestPacket)); err == nil {
		c.finding("a packet of %d bytes with another address's cookie is answered with %d", packetBytes, n)
	}
}

// transactions are those of one crr test, each of which asks for 1 MiB and
// reads nothing.
func (c *client) transactions(ctx context.Context, name string) {
	spec := measurement.Spec{Kind: measurement.CRR, Flows: 1, RequestBytes: 1, ResponseBytes: manyBytes, Duration: tenMinutes}
	b, err := c.start(ctx, spec)
	if !c.note(ctx, name, err) {
		return
	}
	defer b.Close()
	head := make([]byte, protocol.TransactionBytes, protocol.TransactionBytes+1)
	protocol.PutTransaction(head, b.ready.Cookie)
	hold(ctx, c, name+", each", 1000, func(int) (*conn, error) {
		to, err := c.dialPort(ctx, "tcp", c.of(c.from).Port(), 2048)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(append(head, 'x')); err != nil {
			return nil, errors.Join(err, to.Close())
		}
		return to, nil
	})
}
