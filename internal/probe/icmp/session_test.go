package icmp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// scripted is a path that answers request i after the given delays, and after an error only
// where there are some; it runs on
// the fake clock of a synctest bubble.
type scripted struct {
	delays map[int][]time.Duration // absent: answered after a millisecond; empty: never
	errs   map[int]failure
	unsent map[int]error
	due    []scriptedEvent
	sentAt []time.Time
}

type scriptedEvent struct {
	at time.Time
	ev event
}

func (c *scripted) socket() string { return "scripted" }
func (c *scripted) close() error   { return nil }

func (c *scripted) send(index int) error {
	now := time.Now()
	c.sentAt = append(c.sentAt, now)
	if err := c.unsent[index]; err != nil {
		return err
	}
	if f, ok := c.errs[index]; ok {
		c.due = append(c.due, scriptedEvent{now.Add(time.Millisecond), event{what: refused, sequence: uint16(index), failure: f}})
	}
	delays, ok := c.delays[index]
	if _, refused := c.errs[index]; !ok && !refused {
		delays = []time.Duration{time.Millisecond}
	}
	for _, d := range delays {
		c.due = append(c.due, scriptedEvent{now.Add(d), event{what: replied, sequence: uint16(index), ttl: 60}})
	}
	return nil
}

func (c *scripted) wait(until time.Time, events []event) ([]event, error) {
	slices.SortStableFunc(c.due, func(a, b scriptedEvent) int { return a.at.Compare(b.at) })
	if len(c.due) == 0 || c.due[0].at.After(until) {
		time.Sleep(time.Until(until))
		return events, nil
	}
	first := c.due[0]
	c.due = c.due[1:]
	time.Sleep(time.Until(first.at))
	first.ev.at = time.Now()
	return append(events, first.ev), nil
}

func testPlan(t *testing.T, spec measurement.Spec) plan {
	t.Helper()
	p, err := planOf(Request{Spec: spec, Target: netip.MustParseAddr("192.0.2.1")})
	testutil.OK(t, err)
	return p
}

func runScript(t *testing.T, spec measurement.Spec, c *scripted) measurement.Outcome {
	t.Helper()
	s := newSession(testPlan(t, spec), c)
	testutil.OK(t, s.run(context.Background(), nil))
	return s.outcome()
}

func hasFact(o measurement.Outcome, parts ...string) bool {
	return slices.ContainsFunc(o.Facts, func(fact string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(fact, part) })
	})
}

// Who says that a request gets no further may be wrong of it: its answer says more.
func TestAnswerAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := runScript(t, measurement.Spec{Count: 3, Interval: 0.01, Timeout: 0.1}, &scripted{
			errs:   map[int]failure{0: {typ: 3, code: 1}, 1: {typ: 3, code: 1}, 2: {typ: 3, code: 1}},
			delays: map[int][]time.Duration{0: {5 * time.Millisecond}, 2: {105 * time.Millisecond}},
		})
		if got := o.Metrics["loss_fraction"]; math.Abs(got-2.0/3) > 1e-12 || o.Metrics["rtt_min_seconds"] != 0.005 || !hasFact(o, "3 ICMP errors") || hasFact(o, "matched no open request") {
			t.Errorf("%v %q", o.Metrics, o.Facts)
		}
	})
}

func TestEveryFateIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := netip.MustParseAddr("192.0.2.254")
		o := runScript(t, measurement.Spec{Count: 20, Interval: 0.01, Timeout: 0.1}, &scripted{
			delays: map[int][]time.Duration{
				2: {},                                                             // lost
				3: {25 * time.Millisecond},                                        // after 4 and 5
				6: {time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}, // thrice
				7: {105 * time.Millisecond, 110 * time.Millisecond},               // late, and twice
				8: {time.Millisecond, 60 * time.Millisecond},                      // twice
				9: {},                                                             // lost
			},
			errs:   map[int]failure{10: {from: router, typ: 3, code: 1}, 11: {from: router, typ: 3, code: 1}},
			unsent: map[int]error{12: errors.New("send: no buffer space available")},
		})
		if got, want := o.Metrics["loss_fraction"], 6.0/20; math.Abs(got-want) > 1e-12 {
			t.Errorf("loss_fraction %v, want %v", got, want)
		}
		for _, want := range [][]string{
			{"1 of 20", "later than the timeout of 100ms"},
			{"3 of 20", "duplicates"},
			{"1 of 20", "reordered"},
			{"2 ICMP errors from 192.0.2.254", "host unreachable"},
			{"1 of 20", "could not be sent", "no buffer space"},
		} {
			if !hasFact(o, want...) {
				t.Errorf("no fact with %q in %q", want, o.Facts)
			}
		}
		if got := o.Metrics["rtt_min_seconds"]; got != 0.001 {
			t.Errorf("rtt_min_seconds %v, want 0.001", got)
		}
		if got := o.Metrics["rtt_max_seconds"]; got != 0.025 {
			t.Errorf("rtt_max_seconds %v, want 0.025", got)
		}
		if o.Source.ReceivedTTL != 60 {
			t.Errorf("received TTL %d, want 60", o.Source.ReceivedTTL)
		}
		if o.Effective["ping_timestamps"] != "user space" {
			t.Errorf("timestamps %q", o.Effective["ping_timestamps"])
		}
	})
}

// A path whose answers all come late is not one that lost the requests, nor is a host that
// sends none of them.
func TestWhyNothingWasAnswered(t *testing.T) {
	slow, lost, refused := []time.Duration{150 * time.Millisecond}, []time.Duration{}, fmt.Errorf("send: %w", syscall.EPERM)
	for _, test := range []struct {
		name string
		path scripted
		want string
		is   error
	}{
		{name: "late", path: scripted{delays: map[int][]time.Duration{0: slow, 1: slow, 2: lost}}, want: "after which 2 answers came"},
		{name: "lost", path: scripted{delays: map[int][]time.Duration{0: lost, 1: lost, 2: lost}}},
		{name: "one in time", path: scripted{delays: map[int][]time.Duration{0: slow, 1: slow}}},
		{name: "not sent", path: scripted{unsent: map[int]error{0: refused, 1: refused, 2: refused}}, want: "none of 3 requests could be sent", is: syscall.EPERM},
		{name: "sent and lost", path: scripted{unsent: map[int]error{0: refused, 1: refused}, delays: map[int][]time.Duration{2: lost}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSession(testPlan(t, measurement.Spec{Count: 3, Interval: 0.1, Timeout: 0.1}), &test.path)
			testutil.OK(t, s.run(t.Context(), nil))
			err := s.unanswered()
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.want)
			}
		})
	}
}

func TestScheduleIsOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{delays: map[int][]time.Duration{}}
		for i := range 50 {
			c.delays[i] = nil // nobody ever answers
		}
		start := time.Now()
		o := runScript(t, measurement.Spec{Count: 50, Interval: 0.002, Timeout: 0.5}, c)
		for i, at := range c.sentAt {
			if want := time.Duration(i) * 2 * time.Millisecond; at.Sub(start) != want {
				t.Fatalf("request %d left at %v, want %v", i, at.Sub(start), want)
			}
		}
		if o.Metrics["loss_fraction"] != 1 || len(o.Metrics) != 1 {
			t.Errorf("metrics of silence: %v", o.Metrics)
		}
	})
}

func TestCompleteMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := runScript(t, measurement.Spec{Count: 3, Interval: 1}, &scripted{delays: map[int][]time.Duration{
			0: {time.Millisecond}, 1: {2 * time.Millisecond}, 2: {6 * time.Millisecond},
		}})
		for _, m := range measurement.MetricsOf(measurement.Ping) {
			if _, ok := o.Metrics[m.Name]; !ok {
				t.Errorf("%s is missing", m.Name)
			}
		}
		if got := o.Metrics["rtt_p50_seconds"]; got != 0.002 {
			t.Errorf("median %v, want 0.002", got)
		}
		// sqrt(((1-3)² + (2-3)² + (6-3)²)/3) = sqrt(14/3) ms
		if got, want := o.Metrics["rtt_standard_deviation_seconds"], math.Sqrt(14.0/3)/1e3; math.Abs(got-want) > 1e-9 {
			t.Errorf("mdev %v, want %v", got, want)
		}
		if o.Latency == nil || o.Latency.Samples != 3 {
			t.Errorf("distribution %+v", o.Latency)
		}
	})
}

// The 16 bits of a sequence number come round without a mix-up.
func TestSequenceWraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 1<<16 + 500
		o := runScript(t, measurement.Spec{Count: count, Interval: 0.001, Timeout: 0.1}, &scripted{})
		if o.Metrics["loss_fraction"] != 0 || len(o.Facts) != 0 {
			t.Errorf("loss %v, facts %q", o.Metrics["loss_fraction"], o.Facts)
		}
	})
}

func TestKernelClocksOnlyWhenPlausible(t *testing.T) {
	base := time.Now()
	wall := base.Round(0)
	for _, tc := range []struct {
		name             string
		left, kernel, at time.Duration // since it was sent; 0: unknown
		want             time.Duration
		implausible      int
	}{
		{"both", 10, 60, 100, 50, 0},
		{"receive only", 0, 60, 100, 60, 0},
		{"neither", 10, 0, 100, 100, 0},
		{"stepped forward", 10, 5_000_000, 100, 100, 1},
		{"stepped back", 10, 5, 100, 100, 1},
	} {
		s := newSession(testPlan(t, measurement.Spec{}), nil)
		e := echo{sent: base}
		if tc.left > 0 {
			e.left = wall.Add(tc.left * time.Microsecond)
		}
		ev := event{at: base.Add(tc.at * time.Microsecond)}
		if tc.kernel > 0 {
			ev.kernel = wall.Add(tc.kernel * time.Microsecond)
		}
		if got := s.rtt(&e, &ev); got != tc.want*time.Microsecond || s.implausible != tc.implausible {
			t.Errorf("%s: %v, %d implausible; want %v µs, %d", tc.name, got, s.implausible, int64(tc.want), tc.implausible)
		}
	}
}

// An answer that the kernel stamped in time counts, however late this process
// woke up for it.
func TestLateWakeUpIsNotALateAnswer(t *testing.T) {
	s := newSession(testPlan(t, measurement.Spec{Count: 2, Timeout: 0.1}), &scripted{})
	s.send(0)
	s.send(0)
	start := s.echos[0].sent
	s.next(start, start.Add(time.Second))
	if s.echos[0].state != lost || s.echos[1].state != lost {
		t.Fatal("requests were not given up")
	}
	awake := start.Add(2 * time.Second)
	s.take(&event{what: replied, sequence: 0, at: awake, kernel: start.Round(0).Add(time.Millisecond)})
	s.take(&event{what: replied, sequence: 1, at: awake, kernel: start.Round(0).Add(time.Second)})
	if o := s.outcome(); o.Metrics["loss_fraction"] != 0.5 || s.late != 1 || o.Metrics["rtt_max_seconds"] != 0.001 {
		t.Errorf("metrics %v, %d late", o.Metrics, s.late)
	}
}

func TestPlanRefuses(t *testing.T) {
	good := netip.MustParseAddr("192.0.2.1")
	for _, tc := range []struct {
		req  Request
		want string
	}{
		{Request{}, "not a unicast address"},
		{Request{Target: netip.MustParseAddr("224.0.0.1")}, "not a unicast address"},
		{Request{Target: good, Source: netip.MustParseAddr("::1")}, "different address families"},
		{Request{Target: good, Spec: measurement.Spec{Count: -1}}, "count is -1"},
		{Request{Target: good, Spec: measurement.Spec{Count: 1_000_001}}, "count"},
		{Request{Target: good, Spec: measurement.Spec{Interval: 1e-6}}, "interval is 1us"},
		{Request{Target: good, Spec: measurement.Spec{Timeout: -1}}, "timeout"},
		{Request{Target: good, Spec: measurement.Spec{Timeout: 30, Interval: 1e-4}}, "shorten the timeout"},
		{Request{Target: good, Spec: measurement.Spec{PayloadBytes: 70000}}, "payload"},
		{Request{Target: good, Spec: measurement.Spec{PayloadBytes: -5}}, "payload"},
	} {
		if _, err := planOf(tc.req); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.req, err, tc.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	p, err := planOf(Request{Target: netip.MustParseAddr("192.0.2.1")})
	testutil.OK(f, err)
	f.Add(p.request(nil, 7))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		// Nobody can guess the cookie; what is taken must hold it.
		if _, ok := p.answers(b); ok && string(b[8:16]) != string(p.cookie) {
			t.Error("an answer without the cookie was taken")
		}
		p.quotes(b, true)
		p.quotes(b, false)
	})
}

func TestAnswersMatchCookieAndLength(t *testing.T) {
	p := testPlan(t, measurement.Spec{})
	reply := p.request(nil, 513)
	reply[0] = 0 // echo reply
	if sequence, ok := p.answers(reply); !ok || sequence != 513 {
		t.Fatalf("own answer: %d, %v", sequence, ok)
	}
	if _, ok := p.answers(reply[:len(reply)-1]); ok {
		t.Error("a cut answer was taken")
	}
	reply[12] ^= 1
	if _, ok := p.answers(reply); ok {
		t.Error("a stranger's answer was taken")
	}
	request := p.request(nil, 513)
	for _, quoted := range [][]byte{request, request[:8], request[:11]} {
		if sequence, ok := p.quotes(quoted, true); !ok || sequence != 513 {
			t.Errorf("a quote of %d bytes: %d, %v", len(quoted), sequence, ok)
		}
	}
	if _, ok := p.quotes(request[:7], true); ok {
		t.Error("a quote of 7 bytes was taken")
	}
}

// A request whose time is not over when the run is stopped is neither answered nor lost.
func TestWhatMayStillBeAnsweredIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(2500*time.Millisecond, stop)
		s := newSession(testPlan(t, measurement.Spec{Count: 20, Interval: 1, Timeout: 5}), &scripted{delays: map[int][]time.Duration{
			1: {}, 2: {},
		}})
		if err := s.run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if o := s.outcome(); o.Metrics["loss_fraction"] != 0 || o.Latency.Unanswered != 0 || o.Latency.Samples != 1 {
			t.Errorf("loss %v, %d without an answer: %v", o.Metrics["loss_fraction"], o.Latency.Unanswered, o.Effective)
		}
	})
}

// Who watches a ping that nobody answers any more sees no round trip.
func TestProgressOfAPathThatWentDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &scripted{delays: map[int][]time.Duration{}}
		for i := 20; i < 60; i++ {
			c.delays[i] = nil
		}
		s := newSession(testPlan(t, measurement.Spec{Kind: measurement.Ping, Count: 60, Interval: 0.1, Timeout: 1}), c)
		testutil.OK(t, s.run(context.Background(), func(p measurement.Progress) {
			if answered := p.Elapsed > 0.2 && p.Elapsed < 2; answered && p.RTT != 1e-3 || p.Elapsed > 3.1 && p.RTT != 0 {
				t.Errorf("after %v s: %v", p.Elapsed, p.RTT)
			}
		}))
	})
}
