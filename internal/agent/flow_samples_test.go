package agent

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func outbox(t testing.TB) *samples.Outbox {
	t.Helper()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	return samples.NewOutbox(coder, 64<<20)
}

// The near end of a test sends what its flows count, and all of it is there before the
// outcome is: the same bytes as the test itself says, but for what the other end received
// after it had stopped to count.
func TestSamplesOfATest(t *testing.T) {
	box := outbox(t)
	c := remote(t, Options{Samples: box})
	ctx := testContext(t)
	at, err := c.Listen(ctx, anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	var mu sync.Mutex
	var got []samples.Block
	c.TakeSamples(func(b samples.Block, _ bool) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, b)
		return nil
	})
	testutil.OK(t, c.SayKept(Kept{Run: "r", Credit: 1 << 20}))
	directions := []measurement.Direction{measurement.Receive}
	if runtime.GOOS == "linux" { // elsewhere a sender cannot know what was acknowledged
		directions = append(directions, measurement.Send)
	}
	for _, direction := range directions {
		mu.Lock()
		got = nil
		mu.Unlock()
		out, err := c.Run(ctx, probe.Request{
			ID: "b01-" + string(direction), Target: at, Token: testToken, Sampled: &probe.Sampled{Seat: 7, Attempt: 2},
			Spec: measurement.Spec{Kind: measurement.TCP, Flows: 3, Duration: 0.5, MaxWarmup: 0.2, Direction: direction, PacingBitsPerSecond: 100e6},
		}, nil)
		testutil.OK(t, err)
		mu.Lock()
		blocks := got
		mu.Unlock()
		if len(blocks) == 0 {
			t.Fatalf("%s: no samples came before the outcome", direction)
		}
		var sum, window int64
		for _, b := range blocks {
			sum += b.Bytes
			if b.Trial != "b01-"+string(direction) || b.Seat != 7 || b.Attempt != 2 {
				t.Errorf("%s: a block of %+v", direction, b.Key)
			}
			all, err := coder(t).Samples(b)
			testutil.OK(t, err)
			for _, s := range all {
				window = max(window, s.CongestionWindow)
				if s.Flow < 1 || s.Flow > 3 {
					t.Errorf("%s: %+v", direction, s)
				}
			}
		}
		received := 0.0
		for _, n := range out.Throughput.Bytes {
			received += n
		}
		if float64(sum) < received*0.999 || sum == 0 {
			t.Errorf("%s: the samples have %d bytes, the receivers counted %.0f", direction, sum, received)
		}
		if direction == measurement.Send && window == 0 {
			t.Errorf("%s: no congestion window", direction)
		}
	}
	testutil.OK(t, c.SayKept(Kept{Run: "r", Seq: box.Counts().LastSeq, Credit: 1 << 20}))
	for _, direction := range directions {
		testutil.OK(t, c.SaySettled(samples.Key{Trial: "b01-" + string(direction), Seat: 7, Attempt: 2}))
	}
	_, err = c.Prove(ctx, probe.Request{Target: at, Token: testToken}) // answered after what came before
	testutil.OK(t, err)
	if counts := box.Counts(); counts.HeldBytes != 0 || counts.Added == 0 {
		t.Errorf("what is on the disk is held: %+v", counts)
	}
}

// A sample says how long its step was: also the last one, which ends with the test, and one of
// a machine that stood still meanwhile.
func TestStepsAreAsLongAsTheyWere(t *testing.T) {
	for name, flows := range map[string]int{"few flows": 1, "many flows": 20} {
		synctest.Test(t, func(t *testing.T) {
			box := outbox(t)
			s := &server{opts: Options{Samples: box}}
			r := probe.Request{ID: "b01", Sampled: &probe.Sampled{Seat: 1, Attempt: 1}}
			testutil.OK(t, s.sample(&r))
			start, stood := time.Now(), false
			read := make([]probe.ReadFlow, flows)
			for i := range read {
				read[i] = func() (probe.FlowCount, bool) {
					now := time.Since(start)
					if i == 0 && now >= 2*time.Second && !stood {
						stood = true
						time.Sleep(3*time.Second + 400*time.Millisecond)
					}
					return probe.FlowCount{Bytes: int64(now)}, true // a byte a nanosecond
				}
			}
			ended := r.Watch(start, read)
			time.Sleep(7*time.Second + 330*time.Millisecond)
			ended()
			testutil.OK(t, box.Acknowledge(0, 1<<30))
			var sum time.Duration
			for b, ok := box.Next(); ok; b, ok = box.Next() {
				all, err := coder(t).Samples(b)
				testutil.OK(t, err)
				for _, x := range all {
					if x.Flow != 1 {
						continue
					}
					sum += b.Step
					if off := time.Duration(x.Bytes) - b.Step; off.Abs() > 20*time.Millisecond {
						t.Errorf("%s: at %v a step of %v has what was counted in %v", name, x.At, b.Step, time.Duration(x.Bytes))
					}
				}
			}
			if sum < 7300*time.Millisecond || sum > 7360*time.Millisecond {
				t.Errorf("%s: all steps together last %v", name, sum)
			}
		})
	}
}

func coder(t testing.TB) *samples.Coder {
	t.Helper()
	c, err := samples.NewCoder()
	testutil.OK(t, err)
	return c
}

// Agents that keep none say so; samples that nobody asked for, and what is kept of blocks
// that were never sent, end the connection.
func TestSamplesOutOfTurn(t *testing.T) {
	c := remote(t, Options{})
	_, err := c.Run(testContext(t), probe.Request{ID: "t", Target: anyPort(), Sampled: &probe.Sampled{Seat: 1, Attempt: 1}, Spec: measurement.Spec{Kind: measurement.TCP}}, nil)
	failsFor(t, "asked for samples", err, probe.Unsupported)
	for name, k := range map[string]Kept{"never sent": {Run: "r", Seq: 1}, "without a run": {Credit: 1}, "negative": {Run: "r", Credit: -1}} {
		near, done := serving(Options{Lease: longLease, Samples: outbox(t)})
		c, err := Connect(testContext(t), near)
		testutil.OK(t, err)
		testutil.OK(t, c.SayKept(k))
		if err := <-done; !errors.Is(err, protocol.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		testutil.OK(t, c.Close())
	}
	near, far := net.Pipe()
	quiet := NewClient(near)
	testutil.OK(t, protocol.WriteBytes(far, protocol.TypeAgentSamples, []byte{noMore}))
	<-quiet.Done()
	if err := quiet.Err(); !errors.Is(err, protocol.ErrMalformed) {
		t.Errorf("samples that nobody asked for: %v", err)
	}
	testutil.OK(t, errors.Join(quiet.Close(), far.Close()))
}

// Whatever comes as samples, or as what is kept of them, is refused or fits.
func FuzzSamples(f *testing.F) {
	box := outbox(f)
	testutil.OK(f, box.Acknowledge(0, 1<<20))
	testutil.OK(f, box.Add("t", 1, 1, time.Second, []samples.Sample{{Flow: 1, Bytes: 5}}))
	b, _ := box.Next()
	f.Add(append([]byte{more}, b.Data...), []byte(`{"run":"r","seq":1,"credit_bytes":5}`))
	f.Add([]byte{2}, []byte(`{"run":"","seq":-1}`))
	f.Fuzz(func(t *testing.T, payload, kept []byte) {
		c := &Client{take: func(b samples.Block, _ bool) error {
			if b.Data != nil && b.Seq < 1 || len(b.Data) > samples.MaxBlockBytes {
				t.Errorf("%+v", b.Header)
			}
			return nil
		}}
		_ = c.samples(payload)
		near, far := net.Pipe()
		testutil.OK(t, far.Close())
		s := newServer(context.Background(), near, Options{Samples: box})
		if err := s.kept(kept); err == nil && box.Counts().InFlightBytes < 0 {
			t.Errorf("%s", kept)
		}
		testutil.OK(t, near.Close())
	})
}
