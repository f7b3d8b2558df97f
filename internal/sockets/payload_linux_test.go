package sockets

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// What sendfile sends is the payload, over and over, whichever pages hold it
// and wherever a call ends.
func TestSendPayloadFile(t *testing.T) {
	p, err := NewPayloadFile()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	t.Logf("in pages of %d bytes", p.PageBytes())
	near, far := conns(t, "127.0.0.1:0")
	const total = payloadFileBytes*5/2 + 77
	got := sendPayload(t, near, far, p, total)
	want := bytes.Repeat(noise(payloadFileBytes), 3)[:total]
	if !bytes.Equal(got, want) {
		t.Errorf("received %d bytes, not the %d of the payload", len(got), total)
	}
}

// What goes through a pipe is the beginning of the payload, over and over, wherever
// a call ends, and nothing of it is left open.
func TestSendPipedPayload(t *testing.T) {
	before := openDescriptors(t)
	p, err := NewPayloadFile()
	if err != nil {
		t.Fatal(err)
	}
	near, far := conns(t, "127.0.0.1:0")
	if err := near.PipePayload(p); err != nil {
		t.Fatal(err)
	}
	if piped := near.pipe != nil; piped != (p.PageBytes() == hugePage) {
		t.Fatalf("piped: %v, with pages of %d bytes", piped, p.PageBytes())
	}
	const total = pipedBytes*5/2 + 77
	got := sendPayload(t, near, far, p, total)
	lap := pipedBytes
	if near.pipe == nil {
		lap = payloadFileBytes
	}
	if want := bytes.Repeat(noise(payloadFileBytes)[:lap], 3)[:total]; !bytes.Equal(got, want) {
		t.Errorf("received %d bytes, not the %d of the payload", len(got), total)
	}
	if err := errors.Join(p.Close(), near.Close(), far.Close()); err != nil {
		t.Fatal(err)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// sendPayload sends so many bytes of p from near in pieces, and is what far received.
func sendPayload(t *testing.T, near, far *Conn, p *Payload, total int) []byte {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		for sent := 0; sent < total; {
			n, err := near.SendPayload(p, min(total-sent, 300_001))
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
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return got
}
