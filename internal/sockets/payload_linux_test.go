package sockets

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// What goes through pipes is the payload, over and over, whichever pipe it is and
// wherever a call ends, and nothing of them is left open.
func TestSendPipedPayload(t *testing.T) {
	for name, take := range map[string]func(c *Conn, p *Payload) error{
		"alone":     func(c *Conn, p *Payload) error { return c.TakePipe(p, 3, 1) },
		"one of 8":  func(c *Conn, p *Payload) error { return c.TakePipe(p, 3, 8) },
		"one of 64": func(c *Conn, p *Payload) error { return c.TakePipe(p, 3, 64) },
		"shared":    func(c *Conn, p *Payload) error { return c.SharePipe(p, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			before := openDescriptors(t)
			p, err := NewPipedPayload()
			testutil.OK(t, err)
			near, far := conns(t, "127.0.0.1:0")
			testutil.OK(t, take(near, p))
			lap := p.pipes.sources[3].bytes
			t.Logf("%d bytes by references to %d", lap, p.PageBytes())
			if p.PageBytes() < os.Getpagesize() || p.PageBytes() > pipePiece || lap > pipeSlots*pipePiece {
				t.Errorf("%d bytes in pages of %d", lap, p.PageBytes())
			}
			total := 10*pipeSlots*pipePiece + 77
			got := sendPayload(t, near, far, p, total)
			if want := bytes.Repeat(noise(pipeSlots * pipePiece)[:lap], total/lap+1)[:total]; !bytes.Equal(got, want) {
				t.Errorf("received %d bytes, not the %d of the payload", len(got), total)
			}
			testutil.OK(t, errors.Join(near.Close(), far.Close(), p.Close()))
			if after := openDescriptors(t); after > before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	testutil.OK(t, err)
	return len(list)
}

// sendPayload sends so many bytes of p from near in pieces, and is what far received.
func sendPayload(t *testing.T, near, far *Conn, p *Payload, total int) []byte {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		for sent := 0; sent < total; {
			n, err := near.SendPayload(p, min(total-sent, 300_001), sent)
			if err != nil && !errors.Is(err, ErrTick) {
				done <- err
				return
			}
			sent += n
		}
		done <- near.CloseWrite()
	}()
	got := make([]byte, 0, total)
	buf := make([]byte, 1<<20)
	for {
		n, err := far.Read(buf)
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, ErrTick) {
			t.Fatal(err)
		}
	}
	testutil.OK(t, <-done)
	return got
}
