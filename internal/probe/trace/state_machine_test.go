package trace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// road is a path in fake time: hop i answers after delay(i, attempt), or not
// when that is negative.
type road struct {
	length int // of the destination; farther probes reach it too
	delay  func(ttl, attempt int) time.Duration
	reject int // hop that rejects what goes beyond it, 0 if none
}

// travel runs a machine over the road and returns how long it took.
func (r road) travel(t *testing.T, m *machine) time.Duration {
	t.Helper()
	start := time.Unix(1000, 0)
	now := start
	var due []answer
	attempts := map[int]int{}
	for range 100_000 {
		s := m.next(now)
		switch {
		case s.ttl > 0:
			id := m.sending(s.ttl, now)
			attempts[s.ttl]++
			if a, ok := r.answer(id, s.ttl, attempts[s.ttl], now); ok {
				due = append(due, a)
				slices.SortFunc(due, func(a, b answer) int { return a.at.Compare(b.at) })
			}
		case s.done:
			return now.Sub(start)
		case len(due) > 0 && !due[0].at.After(s.until):
			now = due[0].at
			m.take(due[0])
			due = due[1:]
		default:
			if !s.until.After(now) {
				t.Fatalf("the machine waits for the past: %v at %v", s.until, now)
			}
			now = s.until
		}
	}
	t.Fatal("the machine never stops")
	return 0
}

func (r road) answer(id, ttl, attempt int, now time.Time) (answer, bool) {
	at := min(ttl, r.length)
	a := answer{id: id, from: netip.AddrFrom4([4]byte{10, 0, 0, byte(at)})}
	switch {
	case r.reject > 0 && ttl > r.reject:
		a.from = netip.AddrFrom4([4]byte{10, 0, 0, byte(r.reject)})
		a.verdict, a.icmp, a.typ, a.code = rejected, true, 3, 1
	case ttl >= r.length:
		a.verdict = arrived
	}
	delay := r.delay(ttl, attempt)
	a.at = now.Add(delay)
	return a, delay >= 0
}

func hopsOf(m *machine) string {
	var b strings.Builder
	for _, h := range m.result() {
		switch {
		case h.Address == "":
			b.WriteByte('*')
		case h.Reached:
			b.WriteByte('!')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

const never = time.Duration(-1)

func steady(d time.Duration) func(int, int) time.Duration {
	return func(int, int) time.Duration { return d }
}

func TestMachine(t *testing.T) {
	ms := time.Millisecond
	for _, tc := range []struct {
		name   string
		road   road
		want   string
		within time.Duration // of fake time
		probes int           // at most
	}{
		{"near", road{length: 1, delay: steady(ms)}, "!", ms, 3},
		{"three hops", road{length: 4, delay: steady(ms)}, "...!", 2 * ms, 7},
		{"far", road{length: 20, delay: steady(10 * ms)}, strings.Repeat(".", 19) + "!", 80 * ms, 24},
		{"slow to answer", road{length: 3, delay: steady(300 * ms)}, "..!", 301 * ms, 30},
		{"one silent", road{length: 4, delay: func(ttl, _ int) time.Duration {
			if ttl == 2 {
				return never
			}
			return ms
		}}, ".*.!", 70 * ms, 8},
		{"silent routers", road{length: 25, delay: func(ttl, _ int) time.Duration {
			if ttl < 25 {
				return never
			}
			return 20 * ms
		}}, strings.Repeat("*", 24) + "!", 500 * ms, 60},
		{"all silent", road{length: 40, delay: steady(never)}, strings.Repeat("*", 30), 1150 * ms, 60},
		{"first attempts lost", road{length: 3, delay: func(_, attempt int) time.Duration {
			if attempt == 1 {
				return never
			}
			return ms
		}}, "..!", 360 * ms, 60},
		{"answer lost at the destination", road{length: 3, delay: func(ttl, attempt int) time.Duration {
			if ttl == 3 && attempt == 1 {
				return never
			}
			return ms
		}}, "..!", 30 * ms, 8},
		{"rejected", road{length: 9, reject: 2, delay: steady(ms)}, "...", 5 * ms, 6},
		{"later than the timeout", road{length: 2, delay: steady(1001 * ms)}, strings.Repeat("*", 30), 1150 * ms, 60},
	} {
		m := newMachine(30, time.Second)
		took := tc.road.travel(t, m)
		if got := hopsOf(m); got != tc.want {
			t.Errorf("%s: hops %s, want %s", tc.name, got, tc.want)
		}
		if took > tc.within {
			t.Errorf("%s: took %v of fake time, want at most %v", tc.name, took, tc.within)
		}
		if len(m.probes) > tc.probes {
			t.Errorf("%s: %d probes, want at most %d", tc.name, len(m.probes), tc.probes)
		}
	}
}

func TestMachineIgnoresNonsense(t *testing.T) {
	m := newMachine(30, time.Second)
	now := time.Unix(1000, 0)
	id := m.sending(1, now)
	m.take(answer{id: -1, at: now})
	m.take(answer{id: 77, at: now})
	first := answer{id: id, from: netip.MustParseAddr("10.0.0.1"), at: now.Add(time.Millisecond)}
	m.take(first)
	second := first
	second.from, second.verdict = netip.MustParseAddr("10.0.0.2"), arrived
	m.take(second)
	if hops := m.result(); len(hops) != 1 || hops[0].Address != "10.0.0.1" || hops[0].Reached {
		t.Errorf("hops %+v", hops)
	}
}

func TestPlanRefuses(t *testing.T) {
	good := netip.MustParseAddrPort("192.0.2.1:80")
	for _, tc := range []struct {
		req  Request
		want string
	}{
		{Request{}, "not a unicast address"},
		{Request{Target: netip.MustParseAddrPort("192.0.2.1:0")}, "need a port"},
		{Request{Target: netip.MustParseAddrPort("224.0.0.1:80")}, "not a unicast address"},
		{Request{Target: good, Source: netip.MustParseAddr("::1")}, "different address families"},
		{Request{Target: good, Spec: measurement.Spec{MaxHops: 65}}, "max_hops is 65"},
		{Request{Target: good, Spec: measurement.Spec{MaxHops: -1}}, "max_hops is -1"},
		{Request{Target: good, Spec: measurement.Spec{Timeout: 61}}, "timeout"},
		{Request{Target: good, Spec: measurement.Spec{Protocol: "sctp"}}, "sctp"},
	} {
		if _, err := planOf(tc.req); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.req, err, tc.want)
		}
	}
}

// Who reads that nothing answered reads how long that was waited for: the path may be longer.
func TestFactsSayTheTimeout(t *testing.T) {
	for highest, want := range []string{"within 1.5s", "did not answer within 1.5s, the timeout"} {
		m := newMachine(3, 1500*time.Millisecond)
		m.opened, m.highest = 3, highest
		if facts := m.facts(false); len(facts) != 1 || !strings.Contains(facts[0], want) {
			t.Errorf("%q, want %q", facts, want)
		}
	}
}
