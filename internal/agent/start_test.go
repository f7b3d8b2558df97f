package agent

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// skewed is the clock of an agent on another machine.
type skewed struct {
	clock.Monotonic
	ahead time.Duration
	drift float64
	began time.Time

	mu      sync.Mutex
	told    time.Time // when a test was to start, truly
	started time.Time // when it did
}

func (s *skewed) Now() time.Duration { return s.at(time.Now()) }

func (s *skewed) at(t time.Time) time.Duration {
	return s.Monotonic.Of(t) + s.ahead + time.Duration(s.drift*float64(t.Sub(s.began)))
}

// Of is asked of nothing but the start of a test.
func (s *skewed) Of(t time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = t
	return s.at(t)
}

func (s *skewed) Moment(d time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	away := float64(d-s.at(s.began)) / (1 + s.drift)
	s.told = s.began.Add(time.Duration(away))
	return s.told
}

// overTCP runs an agent with a lease and a clock of its own behind a TCP connection.
func overTCP(t *testing.T, its Clock) *Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		control, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		s := newServer(context.Background(), control, Options{Lease: longLease})
		s.clock = its
		done <- s.serve(context.Background())
	}()
	near, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	c, err := Connect(testContext(t), near)
	testutil.OK(t, err)
	t.Cleanup(func() {
		testutil.OK(t, c.Close())
		testutil.OK(t, <-done)
	})
	return c
}

// Thirty agents, whose clocks are seconds apart and drift, are told to start at one
// moment, each by its own clock, and none starts before.
func TestStartAtOneMoment(t *testing.T) {
	const agents = 30
	r := rand.New(rand.NewPCG(16, 4))
	far := remote(t, Options{})
	at, err := far.Listen(testContext(t), anyPort(), Serving{Token: testToken})
	testutil.OK(t, err)
	var clients [agents]*Client
	var clocks [agents]*skewed
	for i := range agents {
		clocks[i] = &skewed{
			Monotonic: clock.Start(), began: time.Now(),
			ahead: time.Duration((20*r.Float64() - 10) * float64(time.Second)), drift: (400*r.Float64() - 200) * 1e-6,
		}
		clients[i] = overTCP(t, clocks[i])
	}
	for _, c := range clients { // the first exchanges of each
		for known := false; !known; _, known = c.Clock() {
			testutil.OK(t, sleep(t.Context(), time.Millisecond))
		}
	}
	var prepared, runs sync.WaitGroup
	prepared.Add(agents)
	open := make(chan struct{})
	var start time.Time
	var uncertainties [agents]time.Duration
	var reported [agents]time.Time
	for i, c := range clients {
		runs.Go(func() {
			request := probe.Request{
				ID: "t", Target: at, Token: testToken,
				Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.02, MaxWarmup: 0.001, Pairs: agents},
				Prepared: func(context.Context) (time.Time, error) {
					prepared.Done()
					<-open
					e, _ := c.Clock()
					_, uncertainties[i] = e.At(c.clock.Of(start))
					return start, nil
				},
			}
			out, err := c.Run(testContext(t), request, nil)
			if err != nil {
				t.Error(err)
			}
			reported[i] = out.Started
		})
	}
	prepared.Wait()
	start = time.Now().Add(300 * time.Millisecond)
	close(open)
	runs.Wait()
	var late []time.Duration
	for i, c := range clocks {
		// The estimate may have become better between the two looks at it, not worse by
		// more than its own bound.
		if off := c.told.Sub(start).Abs(); off > 2*uncertainties[i]+time.Microsecond {
			t.Errorf("agent %d was told to start %v off, with a clock known to ± %v", i, off, uncertainties[i])
		}
		if uncertainties[i] > 250*time.Millisecond {
			t.Errorf("agent %d: its clock is known to ± %v", i, uncertainties[i])
		}
		if c.started.Before(c.told) {
			t.Errorf("agent %d started %v before its moment", i, c.told.Sub(c.started))
		}
		e, _ := clients[i].Clock()
		_, bound := e.At(clients[i].clock.Of(c.started))
		bound = max(bound, uncertainties[i]) // it has become better since it was used
		if off := reported[i].Sub(c.started).Abs(); off > 2*bound+time.Microsecond {
			t.Errorf("agent %d: the start is reported %v off, with a clock known to ± %v", i, off, bound)
		}
		late = append(late, c.started.Sub(start))
	}
	slices.Sort(late)
	t.Logf("%d agents started %v to %v after the moment, half of them by %v; clocks are known to ± %v at worst",
		agents, late[0], late[agents-1], late[agents/2], slices.Max(uncertainties[:]))
}

// A start that is far off is no start.
func TestStartTooFarAhead(t *testing.T) {
	near, far := net.Pipe()
	s := newServer(t.Context(), far, Options{})
	done := make(chan error, 1)
	go func() { done <- s.serve(t.Context()) }()
	c := NewClient(near)
	testutil.OK(t, c.write(0x25, startAt{ID: 1, At: s.clock.Now() + 2*maxStart}))
	if err := <-done; err == nil {
		t.Error("the agent waits for it")
	}
	testutil.OK(t, c.Close())
}
