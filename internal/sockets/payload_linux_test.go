package sockets

import (
	"bytes"
	"errors"
	"io"
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
	var got bytes.Buffer
	buf := make([]byte, 1<<20)
	for {
		n, err := far.Read(buf)
		got.Write(buf[:n])
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
	want := bytes.Repeat(noise(payloadFileBytes), 3)[:total]
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("received %d bytes, not the %d of the payload", got.Len(), total)
	}
}
