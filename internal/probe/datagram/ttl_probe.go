package datagram

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets/ttl"
)

// TTLProbe learns the time to live that packets from the server arrive with,
// by an echo over UDP during the test. Where UDP does not get through, the
// time to live stays unknown.
type TTLProbe struct {
	stop context.CancelFunc
	done sync.WaitGroup
	ttl  int
}

const (
	ttlTries = 3
	ttlWait  = 100 * time.Millisecond
)

// StartTTLProbe asks in the background, until ctx ends.
func StartTTLProbe(ctx context.Context, req session.Request, ready protocol.Ready) *TTLProbe {
	ctx, stop := context.WithCancel(ctx)
	p := &TTLProbe{stop: stop}
	p.done.Go(func() { p.ttl = probeTTL(ctx, req, ready) })
	return p
}

// End gives up and waits for what was begun.
func (p *TTLProbe) End() {
	p.stop()
	p.done.Wait()
}

// Result waits for the answer, which takes searchTime + ttlTries × ttlWait at most.
func (p *TTLProbe) Result() int {
	p.done.Wait()
	return p.ttl
}

func probeTTL(ctx context.Context, req session.Request, ready protocol.Ready) int {
	c, err := dialPolled(ctx, req, ready)
	if err != nil {
		return 0
	}
	// Whatever goes wrong below leaves the time to live unknown, which is an
	// answer; none of it concerns the test itself.
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if ttl.Enable(c) != nil {
		return 0
	}
	packet, in := make([]byte, HeaderBytes), make([]byte, HeaderBytes+1)
	PutHeader(packet, ready.Cookie, Echo)
	for try := range ttlTries {
		binary.BigEndian.PutUint32(packet[SequenceOffset:], uint32(try))
		if _, err := c.Write(packet); err != nil {
			return 0
		}
		if c.SetReadDeadline(time.Now().Add(ttlWait)) != nil {
			return 0
		}
		if n, received, err := ttl.Read(c, in); err == nil && n == HeaderBytes {
			return received
		}
	}
	return 0
}
