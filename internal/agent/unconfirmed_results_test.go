package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/fleet/resume"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sendqueue"
	"github.com/hopbench/hopbench/internal/testutil"
)

// pretender is a machine each of whose tests brings the number of its seat.
func pretender() *Simulation {
	return &Simulation{
		Clock: clock.Start(),
		Run: func(ctx context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Prepared != nil {
				if _, err := r.Prepared(ctx); err != nil {
					return measurement.Outcome{}, err
				}
			}
			return measurement.Outcome{Metrics: measurement.Metrics{"seat": float64(r.Sampled.Seat)}}, nil
		},
	}
}

func testOf(seat int) probe.Request {
	return probe.Request{
		ID: fmt.Sprint("b01-", seat), Target: anyPort(), Sampled: &probe.Sampled{Seat: seat, Attempt: 1},
		Spec: measurement.Spec{Kind: measurement.RR, Duration: 1},
	}
}

// However often connections are cut, every test that was asked for brings its own result, once.
func TestKilledConnections(t *testing.T) {
	for seed := range uint64(testutil.Repeat(2, 50)) {
		random := rand.New(rand.NewPCG(seed, 3))
		o := resume.Options{Away: time.Hour}
		near, far := resume.New(o), resume.New(o)
		done := make(chan error, 1)
		box := outbox(t)
		go func() {
			done <- Serve(context.Background(), far, Options{Lease: longLease, Samples: box, Simulated: pretender()})
		}()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				a, b := net.Pipe()
				cut := errors.New("cut")
				readNear, readFar := near.Detach(cut), far.Detach(cut)
				_, _ = near.Attach(sendqueue.New(a), readFar)
				_, _ = far.Attach(sendqueue.New(b), readNear)
				select {
				case <-time.After(time.Duration(random.IntN(3000)) * time.Microsecond):
				case <-stop:
					return
				}
			}
		}()
		c, err := Connect(testContext(t), near)
		testutil.OK(t, err)
		for seat := 1; seat <= 100; seat++ {
			r := testOf(seat)
			r.Prepared = func(context.Context) (time.Time, error) { return time.Time{}, nil }
			out, err := c.Run(testContext(t), r, nil)
			if err != nil || out.Metrics["seat"] != float64(seat) {
				t.Fatalf("seed %d, test %d: %v, %v", seed, seat, out.Metrics, err)
			}
		}
		if held := box.Results(); len(held) != 100 || held[99].Trial != "b01-100" {
			t.Errorf("seed %d: %d results are held", seed, len(held))
		}
		close(stop)
		<-stopped
		testutil.OK(t, c.Close())
		<-done // the stream may have had no connection when it ended
	}
}

// What a test brought of which nobody has said that it is kept comes over the next connection,
// until somebody has; nothing comes of another run.
func TestLateResults(t *testing.T) {
	box := outbox(t)
	session := func(run string, do func(*Client, <-chan SeatResult)) {
		t.Helper()
		near, done := serving(Options{Lease: longLease, Samples: box, Simulated: pretender()})
		c, err := Connect(testContext(t), near)
		testutil.OK(t, err)
		late := make(chan SeatResult, 16)
		c.TakeResults(func(r SeatResult) error { late <- r; return nil })
		testutil.OK(t, c.SayKept(Kept{Run: run, Credit: 1 << 20}))
		do(c, late)
		testutil.OK(t, c.Close())
		testutil.OK(t, <-done)
	}
	barrier := func(c *Client) { // what comes after it was answered after what came before
		_, err := c.Canary(testContext(t), CanaryRequest{})
		if err == nil {
			t.Error("a canary without a target")
		}
	}
	key := func(seat int) samples.Key {
		return samples.Key{Trial: fmt.Sprint("b01-", seat), Seat: seat, Attempt: 1}
	}
	session("r", func(c *Client, late <-chan SeatResult) {
		for seat := 1; seat <= 3; seat++ {
			_, err := c.Run(testContext(t), testOf(seat), nil)
			testutil.OK(t, err)
		}
		testutil.OK(t, c.SaySettled(key(2)))
		barrier(c)
		if len(late) != 0 {
			t.Errorf("%d results came twice over one connection", len(late))
		}
	})
	session("r", func(c *Client, late <-chan SeatResult) {
		if r := <-late; r.Trial != "b01-1" || r.Seat != 1 || r.Attempt != 1 || r.Outcome.Metrics["seat"] != 1 {
			t.Errorf("%+v", r)
		}
		barrier(c)
		if len(late) != 0 {
			t.Error("the next came before the first was kept")
		}
	})
	session("r", func(c *Client, late <-chan SeatResult) {
		for _, seat := range []int{1, 3} {
			if r := <-late; r.Seat != seat {
				t.Errorf("seat %d, want %d", r.Seat, seat)
			}
			testutil.OK(t, c.SaySettled(key(seat)))
		}
		_, err := c.Run(testContext(t), testOf(4), nil)
		testutil.OK(t, err)
	})
	if held := box.Results(); len(held) != 1 {
		t.Errorf("%d results are held, want that of seat 4", len(held))
	}
	session("another", func(c *Client, late <-chan SeatResult) {
		barrier(c)
		if len(late) != 0 {
			t.Error("a result of another run")
		}
	})
	if counts := box.Counts(); len(box.Results()) != 0 || counts.HeldBytes != 0 {
		t.Errorf("what nobody wants is held: %+v", counts)
	}
}

// Whatever comes as a result, or as one that is kept, is refused or fits.
func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"trial":"t","seat":1,"attempt":1,"outcome":{"metrics":{"a":1}}}`), []byte(`{"trial":"t","seat":1,"attempt":1}`))
	f.Add([]byte(`{"trial":"","outcome":null}`), []byte(`[]`))
	box := outbox(f)
	f.Fuzz(func(t *testing.T, payload, settled []byte) {
		c := &Client{takeResult: func(r SeatResult) error {
			if r.Trial == "" || r.Seat < 1 || r.Attempt < 1 {
				t.Errorf("%+v", r)
			}
			return nil
		}}
		_ = c.result(payload)
		near, far := net.Pipe()
		testutil.OK(t, far.Close())
		s := newServer(context.Background(), near, Options{Samples: box})
		if err := s.settled(settled); err != nil && !errors.Is(err, protocol.ErrMalformed) {
			t.Error(err)
		}
		testutil.OK(t, near.Close())
	})
}
