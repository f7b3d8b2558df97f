package agent

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// An exchange is over when the agent has answered, and its clock is known then; without an
// answer it ends with the connection, or with its context.
func TestExchange(t *testing.T) {
	const ahead = time.Hour
	c := overTCP(t, &skewed{Monotonic: clock.Start(), began: time.Now(), ahead: ahead})
	for range 3 {
		testutil.OK(t, c.Exchange(testContext(t)))
	}
	e, known := c.Clock()
	if off := (e.Offset - ahead).Abs(); !known || off > e.Uncertainty+time.Millisecond { // two clocks that were started apart
		t.Errorf("known: %v, %v off, ± %v", known, off, e.Uncertainty)
	}
	near, far := net.Pipe()
	silent := NewClient(near)
	go func() {
		for range 2 {
			_, _, _ = protocol.ReadFrame(far, maxRequest)
		}
		_ = far.Close()
	}()
	why := errors.New("no more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := silent.Exchange(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := silent.Exchange(testContext(t)); err == nil || silent.Err() == nil {
		t.Errorf("%v, and the connection ended with: %v", err, silent.Err())
	}
	testutil.OK(t, silent.Close())
}

// Of many agents each is asked the more rarely for it, also when it has just joined, and
// often enough for its lease.
func TestExchangesOfMany(t *testing.T) {
	for _, c := range []struct {
		times, n int
		lease    time.Duration
		want     time.Duration
	}{
		{1, 0, 0, burstEvery}, {1, burst - 1, 0, burstEvery}, {1, burst, 0, exchangeEvery},
		{4, burst/4 - 1, 0, 4 * burstEvery}, {4, burst / 4, 0, 4 * exchangeEvery},
		{100, 0, 0, 100 * exchangeEvery}, {100, 0, 30 * time.Second, 10 * time.Second},
	} {
		one := &Client{crowd: NewCrowd(func() int { return c.times })}
		if got := one.untilNext(c.n, c.lease); got != c.want {
			t.Errorf("%d times as rarely, exchange %d, lease %v: the next is in %v, want %v", c.times, c.n, c.lease, got, c.want)
		}
	}
}

// While as many of a crowd write as may, another begins no exchange; it does when one is done.
func TestCrowdWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crowd := NewCrowd(func() int { return 1 })
		for range crowdWrites {
			if !crowd.enter() {
				t.Fatal("there was no room")
			}
		}
		near, far := net.Pipe()
		c := NewClient(near)
		c.crowd = crowd
		heard := make(chan protocol.Type)
		go func() {
			for {
				kind, _, err := protocol.ReadFrame(far, maxRequest)
				if err != nil {
					close(heard)
					return
				}
				heard <- kind
			}
		}()
		c.keepInTouch()
		select {
		case kind := <-heard:
			t.Errorf("a frame of type %d came", kind)
		case <-time.After(10 * crowdPause):
		}
		crowd.leave()
		if kind := <-heard; kind != protocol.TypeAgentClock {
			t.Errorf("a frame of type %d came", kind)
		}
		go func() {
			for range heard {
			}
		}()
		testutil.OK(t, errors.Join(far.Close(), c.Close()))
	})
}

// Who waits for the start of a test hears that the test is over, also where its agent is gone.
func TestPreparedTestEnds(t *testing.T) {
	near, far := net.Pipe()
	c := NewClient(near)
	waits := make(chan struct{})
	request := probe.Request{ID: "t", Spec: measurement.Spec{Kind: measurement.RR}, Prepared: func(ctx context.Context) (time.Time, error) {
		close(waits)
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(testContext(t), request, nil)
		ended <- err
	}()
	_, _, err := protocol.ReadFrame(far, maxRequest)
	testutil.OK(t, errors.Join(err, protocol.WriteFrame(far, protocol.TypeAgentPrepared, about{ID: 1})))
	<-waits
	testutil.OK(t, far.Close())
	if err := <-ended; err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testutil.OK(t, c.Close())
}

// Of many pairs each gives signs of life the more rarely, the first at once.
func TestProgressOfMany(t *testing.T) {
	for pairs, want := range map[int]int{0: 100, 100: 100, 150: 100, 1000: 20, 5000: 4} {
		heard := 0
		report := thinned(pairs, func(measurement.Progress) { heard++ })
		for i := range 100 { // of a test of 20 s, one each 200 ms
			report(measurement.Progress{Elapsed: measurement.Seconds(i+1) / 5})
		}
		if heard != want {
			t.Errorf("of %d pairs each gives %d signs of life, want %d", pairs, heard, want)
		}
	}
}
