package sendqueue

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A write does not wait for an end that reads nothing, and what waits is bounded.
func TestQueue(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	q := New(near)
	q.linger = 0
	piece := make([]byte, 1<<20)
	var written int
	for {
		n, err := q.Write(piece)
		written += n
		if err != nil {
			break
		}
	}
	if written < maxQueued-len(piece) || written > maxQueued+len(piece) {
		t.Errorf("%d bytes were taken, and %d may wait", written, maxQueued)
	}
	if _, err := q.Write(nil); err == nil {
		t.Error("a failed connection takes more")
	}
	testutil.OK(t, q.Close())
}

// What is written arrives, in its order.
func TestQueueKeepsOrder(t *testing.T) {
	near, far := net.Pipe()
	q := New(near)
	for i := range 256 {
		_, err := q.Write([]byte{byte(i), byte(i)})
		testutil.OK(t, err)
	}
	testutil.OK(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, 512)
	_, err := io.ReadFull(far, got)
	testutil.OK(t, err)
	for i, b := range got {
		if int(b) != i/2 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	testutil.OK(t, errors.Join(q.Close(), far.Close()))
}

// What was written before a connection is closed arrives.
func TestQueueSendsItsLastWords(t *testing.T) {
	near, far := net.Pipe()
	q := New(near)
	q.linger = time.Minute
	const why = "nothing was heard"
	for _, b := range []byte(why) {
		_, err := q.Write([]byte{b})
		testutil.OK(t, err)
	}
	closed := make(chan error, 1)
	go func() { closed <- q.Close() }()
	testutil.OK(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
	got, err := io.ReadAll(far)
	testutil.OK(t, errors.Join(err, <-closed, far.Close()))
	if string(got) != why {
		t.Errorf("%q arrived", got)
	}
}
