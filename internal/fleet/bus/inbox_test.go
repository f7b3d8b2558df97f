package bus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/testutil"
)

// What is put is read once, in its order, also by a reader that waits for it.
func TestInboxOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, all := newInbox(), make([]*nats.Msg, 3*maxWaiting)
		for i := range all {
			all[i] = &nats.Msg{Data: make([]byte, 1+i)}
		}
		go func() {
			for i, m := range all {
				if i%7 == 0 {
					synctest.Wait() // the reader waits
				}
				for {
					in.mu.Lock()
					room := len(in.waiting) < maxWaiting
					in.mu.Unlock()
					if room {
						break
					}
					synctest.Wait()
				}
				in.put(m)
			}
		}()
		for i, want := range all {
			if m, err := in.NextMsgWithContext(t.Context()); err != nil || m != want {
				t.Fatalf("message %d: %v, %v", i, m, err)
			}
		}
		if in.bytes != 0 || in.waiting != nil {
			t.Errorf("%d messages of %d bytes are kept of none", len(in.waiting), in.bytes)
		}
	})
}

func TestInboxEnds(t *testing.T) {
	one, large := &nats.Msg{Data: []byte("x")}, &nats.Msg{Data: make([]byte, maxWaitingBytes/2+1)}
	for name, c := range map[string]struct {
		do   func(*inbox)
		want error
	}{
		"messages": {func(in *inbox) {
			for range maxWaiting + 1 {
				in.put(one)
			}
		}, nats.ErrSlowConsumer},
		"bytes":  {func(in *inbox) { in.put(large); in.put(large) }, nats.ErrSlowConsumer},
		"closed": {func(in *inbox) { in.put(one); in.end(nats.ErrConnectionClosed) }, nats.ErrConnectionClosed},
		"first reason": {func(in *inbox) {
			in.end(nats.ErrConnectionClosed)
			for range maxWaiting + 1 {
				in.put(one)
			}
		}, nats.ErrConnectionClosed},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInbox()
			c.do(in)
			for range 2 {
				if m, err := in.NextMsgWithContext(t.Context()); m != nil || !errors.Is(err, c.want) {
					t.Errorf("%v, %v; want %v", m, err, c.want)
				}
			}
			if in.waiting != nil {
				t.Errorf("%d messages are kept that nobody will read", len(in.waiting))
			}
		})
	}
}

// As much as is allowed is kept.
func TestInboxKeeps(t *testing.T) {
	in, one := newInbox(), &nats.Msg{Data: make([]byte, maxWaitingBytes/maxWaiting)}
	for range maxWaiting {
		in.put(one)
	}
	for range maxWaiting {
		_, err := in.NextMsgWithContext(t.Context())
		testutil.OK(t, err)
	}
}

// A reader that waits ends with its context, and with the inbox.
func TestInboxReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInbox()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		read := func(ctx context.Context) { _, err := in.NextMsgWithContext(ctx); errs <- err }
		go read(ctx)
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go read(t.Context())
		synctest.Wait()
		in.end(nats.ErrConnectionClosed)
		if err := <-errs; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Error(err)
		}
	})
}
