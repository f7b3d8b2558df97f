package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Slow clients send a byte now and then, or read nothing, and see how long the
// server bears with them.

const (
	trickleEvery = 50 * time.Millisecond
	// A preface has eight bytes, and is to take longer than the 5 s for it.
	prefaceEvery = time.Second
	manyBytes    = 1 << 20
)

// trickled sends a byte of zeros every so often until the server ends the
// connection, and tells when it never does.
func (c *client) trickled(ctx context.Context, to io.Writer, state string, every time.Duration) {
	c.trickledFrom(ctx, to, state, every, []byte{0})
}

func (c *client) trickledFrom(ctx context.Context, to io.Writer, state string, every time.Duration, text []byte) {
	const name = "trickle"
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	for i := 0; time.Since(began) < patience; i++ {
		if _, err := to.Write(text[i%len(text):][:1]); err != nil {
			c.note(ctx, name, err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.note(ctx, name, nil)
			return
		}
	}
	c.add(name, "still served")
	c.finding("after %v the server still serves a client with a byte every %v %s", patience, every, state)
}

// slowTest is a test that a client starts and goes on with slowly.
type slowTest struct {
	spec  measurement.Spec
	frame protocol.Type // whose payload of 1 MiB trickles in; 0 for bare bytes
}

var slowTests = func() []slowTest {
	rrUDP, udp, crr, ftp := shortRR, shortTCP, shortRR, shortTCP
	rrUDP.Protocol = measurement.OverUDP
	udp.Kind, udp.PacketBytes, udp.RateBitsPerSecond = measurement.UDP, 1000, 1e6
	udpBack, tcpBack, slowRR := udp, shortTCP, shortRR
	udpBack.Direction, tcpBack.Direction, slowRR.RequestBytes = measurement.Receive, measurement.Receive, manyBytes
	crr.Kind, crr.Protocol, crr.InFlight, crr.Flows = measurement.CRR, "", 0, 1
	ftp.Kind, ftp.Duration, ftp.Direction, ftp.FileBytes = measurement.FTP, 0, measurement.Receive, 1e9
	return []slowTest{
		{shortTCP, protocol.TypeData}, {shortTCP, protocol.TypeSent}, {tcpBack, protocol.TypeReceived},
		{slowRR, 0}, {rrUDP, protocol.TypeReceived}, {crr, protocol.TypeReceived},
		{udp, protocol.TypeSent}, {udp, 0}, {udpBack, protocol.TypeStop}, {udpBack, 0},
		{ftp, protocol.TypeReceived}, {shortMTU, protocol.TypeReceived}, {shortMTU, 0},
	}
}()

// slowStart trickles before the test has begun, in every state at a time.
func (c *client) slowStart(ctx context.Context, name string) {
	var all sync.WaitGroup
	defer all.Wait()
	at := func(state string, every time.Duration, open func() (*conn, []byte, error)) {
		all.Go(func() {
			to, first, err := open()
			if err == nil {
				defer to.Close()
				_, err = to.Write(first)
			}
			c.note(ctx, name, err)
			if err == nil {
				c.trickled(ctx, to, state, every)
			}
		})
	}
	// Clients share one source of random numbers, so sessions are drawn here.
	ids := [3]protocol.Identity{{Session: c.session()}, {Session: c.session()}, {Session: c.session()}}
	var preface bytes.Buffer
	_ = protocol.WritePreface(&preface) // memory
	greeted := func(i int, first []byte) func() (*conn, []byte, error) {
		return func() (*conn, []byte, error) {
			to, err := c.greeted(ctx, ids[i], 0)
			return to, first, err
		}
	}
	all.Go(func() {
		to, err := c.dial(ctx, "tcp")
		c.note(ctx, name, err)
		if err == nil {
			defer to.Close()
			c.trickledFrom(ctx, to, "as its preface", prefaceEvery, append(preface.Bytes(), header(protocol.TypeHello, protocol.MaxUnauthenticated)...))
		}
	})
	at("in HELLO", trickleEvery, func() (*conn, []byte, error) {
		to, err := c.dial(ctx, "tcp")
		return to, append(bytes.Clone(preface.Bytes()), header(protocol.TypeHello, protocol.MaxUnauthenticated)...), err
	})
	at("in PROOF", trickleEvery, func() (*conn, []byte, error) {
		to, err := c.dial(ctx, "tcp")
		if err != nil {
			return nil, nil, err
		}
		hello := protocol.Hello{Identity: ids[0], Nonce: make([]byte, protocol.NonceBytes)}
		if err = protocol.WritePreface(to); err == nil {
			err = protocol.WriteFrame(to, protocol.TypeHello, hello)
		}
		if err == nil {
			err = protocol.ReadPreface(to)
		}
		if err == nil {
			err = protocol.Expect(to, protocol.TypeChallenge, protocol.MaxUnauthenticated, nil)
		}
		if err != nil {
			_ = to.Close()
		}
		return to, header(protocol.TypeProof, protocol.MaxUnauthenticated), err
	})
	at("in OPEN", trickleEvery, greeted(1, header(protocol.TypeOpen, manyBytes)))
	for i, first := range [][]byte{header(protocol.TypeStart, manyBytes), header(protocol.TypeStart, 0)[:1]} {
		at(fmt.Sprintf("instead of START (%d)", i), []time.Duration{trickleEvery, 3 * time.Second}[i], func() (*conn, []byte, error) {
			id := ids[2]
			id.Session = id.Session[:31] + fmt.Sprint(i)
			b, err := c.join(ctx, id, protocol.Open{Spec: shortTCP})
			if err != nil {
				return nil, nil, err
			}
			return b.conn, first, nil
		})
	}
}

// slowTests trickles after START, in every kind of test one after the other.
func (c *client) slowTests(ctx context.Context, name string) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, slow := range slowTests {
		b, err := c.start(ctx, slow.spec)
		if !c.note(ctx, name, err) {
			continue
		}
		all.Go(func() {
			defer b.Close()
			if slow.frame != 0 {
				_, _ = b.Write(header(slow.frame, manyBytes)) // else the next write fails, too
			}
			c.trickled(ctx, b, fmt.Sprintf("after START of %s %s %s, frame %#x", slow.spec.Kind, slow.spec.Protocol, slow.spec.Direction, byte(slow.frame)), trickleEvery)
		})
	}
}

// slowRequest is a request of 1 MiB, of which every read brings a byte.
func (c *client) slowRequest(ctx context.Context, name string) {
	spec := shortRR
	spec.RequestBytes = manyBytes
	b, err := c.start(ctx, spec)
	if !c.note(ctx, name, err) {
		return
	}
	defer b.Close()
	c.trickled(ctx, b, "of a request", 2*time.Millisecond)
}

// wedge ends tests of a fifth of a second, and then does not end.
func (c *client) wedge(ctx context.Context, name string) {
	const tests = 64
	var all sync.WaitGroup
	defer all.Wait()
	held := crowd(ctx, c, name, tests, func(int) (*bench, error) {
		b, err := c.start(ctx, shortMTU)
		if err != nil {
			return nil, err
		}
		err = protocol.WriteFrame(b, protocol.TypeReceived, nil)
		if err == nil {
			err = protocol.Expect(b, protocol.TypeReport, protocol.MaxControl, nil)
		}
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return b, nil
	})
	for _, b := range held {
		all.Go(func() {
			defer b.Close()
			c.trickled(ctx, b, "after REPORT", trickleEvery)
		})
	}
}

// deaf asks for all that a server sends and reads nothing of it.
func (c *client) deaf(ctx context.Context, name string) {
	const buffer = 2048
	back, large := shortTCP, shortRR
	back.Direction, large.ResponseBytes, large.InFlight = measurement.Receive, manyBytes, 8
	var held []*bench
	for _, spec := range slices.Repeat([]measurement.Spec{back, large, back, shortRR}, 4) {
		to, err := c.greeted(ctx, protocol.Identity{Session: c.session()}, buffer)
		b := &bench{conn: to, spec: spec}
		if err == nil {
			held = append(held, b)
			err = protocol.WriteFrame(b, protocol.TypeOpen, protocol.Open{Spec: spec, HostSeries: true})
		}
		if err == nil {
			err = protocol.Expect(b, protocol.TypeReady, protocol.MaxControl, &b.ready)
		}
		if err == nil {
			err = protocol.WriteFrame(b, protocol.TypeStart, nil)
		}
		if err == nil && spec.Kind == measurement.RR {
			// The first byte of the last request is 1.
			_, err = b.Write([]byte{0, 0, 0, 0, 0, 0, 0, 1})
		}
		c.note(ctx, name, err)
	}
	c.stay(ctx)
	closeAll(held)
}
