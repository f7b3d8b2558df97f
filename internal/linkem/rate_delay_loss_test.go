package linkem

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// arrival is a frame that comes to a line in a test.
type arrival struct {
	at   time.Duration
	wire int
}

// departure is a frame that left it; reordered means that it was overtaken.
type departure struct {
	handle    uint32
	at        time.Duration
	reordered bool
}

// carry lets frames, numbered from 0, pass a line under a fake clock that a
// perfect sleeper would see, and returns what left, when, and what was dropped.
func carry(l *line, arrivals []arrival) (left []departure, dropped []uint32) {
	leave := func(until int64) {
		for {
			at, ok := l.next()
			if !ok || at > until {
				return
			}
			now := at
			if len(left) > 0 { // an overtaken frame goes with its overtaker
				now = max(at, int64(left[len(left)-1].at))
			}
			handle, reordered, ok := l.release(now)
			if !ok {
				continue // a frame began to wait to be overtaken
			}
			left = append(left, departure{handle, time.Duration(now), reordered})
		}
	}
	for i, a := range arrivals {
		leave(int64(a.at))
		if !l.offer(int64(a.at), uint32(i), a.wire) {
			dropped = append(dropped, uint32(i))
		}
	}
	leave(math.MaxInt64)
	return left, dropped
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		direction Direction
		arrivals  []arrival
		left      []departure
		dropped   []uint32
	}{
		"nothing planted": {
			Direction{},
			[]arrival{{1 * us, 60}, {2 * us, 60}},
			[]departure{{0, 1 * us, false}, {1, 2 * us, false}}, nil,
		},
		"delay": {
			Direction{Delay: 10 * ms},
			[]arrival{{0, 60}, {1 * ms, 60}, {1 * ms, 60}},
			[]departure{{0, 10 * ms, false}, {1, 11 * ms, false}, {2, 11 * ms, false}}, nil,
		},
		"rate sends one after the other": { // 1000 bytes take 1 ms
			Direction{RateBitsPerSecond: 8e6},
			[]arrival{{0, 1000}, {0, 500}, {10 * ms, 1000}},
			[]departure{{0, 1 * ms, false}, {1, 1500 * us, false}, {2, 11 * ms, false}}, nil,
		},
		"delay begins when the last bit has entered": {
			Direction{RateBitsPerSecond: 8e6, Delay: 5 * ms},
			[]arrival{{0, 1000}, {0, 1000}},
			[]departure{{0, 6 * ms, false}, {1, 7 * ms, false}}, nil,
		},
		"queue is bounded": {
			Direction{RateBitsPerSecond: 8e6, QueueBytes: 2000},
			[]arrival{{0, 1000}, {0, 1000}, {0, 1}, {1 * ms, 1000}, {1 * ms, 1}},
			[]departure{{0, 1 * ms, false}, {1, 2 * ms, false}, {3, 3 * ms, false}}, []uint32{2, 4},
		},
		"an idle wire takes what the queue does not": {
			Direction{RateBitsPerSecond: 8e6, QueueBytes: 100},
			[]arrival{{0, 1000}, {0, 100}, {1 * ms, 1000}},
			[]departure{{0, 1 * ms, false}, {2, 2 * ms, false}}, []uint32{1},
		},
		"every second frame is overtaken": {
			Direction{ReorderFraction: 0.5},
			[]arrival{{0, 60}, {1 * ms, 60}, {2 * ms, 60}, {3 * ms, 60}},
			[]departure{{1, 1 * ms, false}, {0, 1 * ms, true}, {3, 3 * ms, false}, {2, 3 * ms, true}}, nil,
		},
		"a frame does not wait for ever to be overtaken": {
			Direction{ReorderFraction: 0.5, Delay: 1 * ms},
			[]arrival{{0, 60}, {50 * ms, 60}},
			[]departure{{0, 1*ms + ReorderHold, false}, {1, 51 * ms, false}}, nil,
		},
		"overtaken after the delay": {
			Direction{ReorderFraction: 0.5, Delay: 5 * ms},
			[]arrival{{0, 60}, {1 * ms, 60}},
			[]departure{{1, 6 * ms, false}, {0, 6 * ms, true}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			left, dropped := carry(newLine(c.direction, 1, 0, 16), c.arrivals)
			if !reflect.DeepEqual(left, c.left) {
				t.Errorf("left\n%v\nwant\n%v", left, c.left)
			}
			if !reflect.DeepEqual(dropped, c.dropped) {
				t.Errorf("dropped %v, want %v", dropped, c.dropped)
			}
		})
	}
}

// What is overtaken is due at a time that the caller can compute with.
func TestLineNextAfterOvertaking(t *testing.T) {
	l := newLine(Direction{ReorderFraction: 0.5}, 1, 0, 16)
	const now = int64(time.Hour)
	for i := range uint32(2) {
		if !l.offer(now, i, 60) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	if handle, _, ok := l.release(now); !ok || handle != 1 {
		t.Fatalf("frame %d left first (%v), want 1", handle, ok)
	}
	if at, ok := l.next(); !ok || at > now || at < 0 {
		t.Errorf("the overtaken frame is due at %d (%v), want by %d", at, ok, now)
	}
}

// A thread that wakes up late releases in the order of a punctual one.
func TestLineReleasedLate(t *testing.T) {
	l := newLine(Direction{ReorderFraction: 0.5}, 1, 0, 16)
	for i, at := range []time.Duration{0, ReorderHold / 2, ReorderHold, 3 * ReorderHold} {
		if !l.offer(int64(at), uint32(i), 60) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	var order []uint32
	for {
		handle, _, ok := l.release(int64(time.Hour))
		if !ok {
			break
		}
		order = append(order, handle)
	}
	// 1 overtakes 0 in time; 3 comes too late to overtake 2.
	if want := []uint32{1, 0, 2, 3}; !reflect.DeepEqual(order, want) {
		t.Errorf("left in the order %v, want %v", order, want)
	}
}

func TestLineHoldsNoMoreThanItsMemory(t *testing.T) {
	l := newLine(Direction{Delay: time.Second}, 1, 0, 8)
	for i := range uint32(8) {
		if !l.offer(0, i, 60) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	if l.offer(0, 8, 60) {
		t.Error("the line took more frames than it has room for")
	}
}

func drawArrivals(t *rapid.T) []arrival {
	n := rapid.IntRange(1, 200).Draw(t, "frames")
	arrivals := make([]arrival, n)
	at := time.Duration(0)
	for i := range arrivals {
		at += time.Duration(rapid.IntRange(0, 2_000_000).Draw(t, "gap"))
		arrivals[i] = arrival{at, rapid.IntRange(14, 70_000).Draw(t, "bytes")}
	}
	return arrivals
}

func drawDirection(t *rapid.T) Direction {
	d := Direction{Delay: time.Duration(rapid.IntRange(0, 50_000_000).Draw(t, "delay"))}
	if rapid.Bool().Draw(t, "has jitter") {
		d.Jitter = time.Duration(rapid.IntRange(1, 20_000_000).Draw(t, "jitter"))
	}
	if rapid.Bool().Draw(t, "has rate") {
		d.RateBitsPerSecond = rapid.Float64Range(1e5, 1e11).Draw(t, "rate")
		d.QueueBytes = rapid.IntRange(0, 1_000_000).Draw(t, "queue")
	}
	if rapid.Bool().Draw(t, "reorders") {
		d.ReorderFraction = rapid.Float64Range(0, 0.5).Draw(t, "reorder")
	}
	return d
}

// Every frame that was admitted leaves once, never before its delay, never
// later than it may wait to be overtaken, and displaced by at most one place.
func TestLineKeepsEveryFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDirection(t)
		arrivals := drawArrivals(t)
		l := newLine(d, rapid.Uint64().Draw(t, "seed"), 0, len(arrivals))
		left, dropped := carry(l, arrivals)
		if len(left)+len(dropped) != len(arrivals) || l.head != l.tail || l.isReordering {
			t.Fatalf("%d frames left, %d were dropped, of %d; the line still has %d, and one held back: %v", len(left), len(dropped), len(arrivals), l.tail-l.head, l.isReordering)
		}
		seen := make(map[uint32]bool)
		for _, handle := range dropped {
			seen[handle] = true
		}
		last := time.Duration(0)
		for i, f := range left {
			if seen[f.handle] {
				t.Fatalf("frame %d left twice, or was dropped as well", f.handle)
			}
			seen[f.handle] = true
			if f.at < last {
				t.Fatalf("frame %d left at %v, after one that left at %v", f.handle, f.at, last)
			}
			last = f.at
			least := arrivals[f.handle].at
			if d.Jitter == 0 {
				least += d.Delay
			}
			if f.at < least {
				t.Fatalf("frame %d left at %v, before %v", f.handle, f.at, least)
			}
			inversion := i > 0 && left[i-1].handle > f.handle
			if inversion != f.reordered {
				t.Fatalf("frame %d behind %d: counted as reordered: %v", f.handle, left[max(i-1, 0)].handle, f.reordered)
			}
			if inversion && i > 1 && left[i-2].handle > f.handle {
				t.Fatalf("frame %d was overtaken by two", f.handle)
			}
			if inversion && d.ReorderFraction == 0 {
				t.Fatalf("frame %d was overtaken", f.handle)
			}
		}
	})
}

// Over no window do more bytes leave than the rate allows, and the queue never
// exceeds its limit.
func TestLineNeverExceedsRateOrQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Direction{
			RateBitsPerSecond: rapid.Float64Range(1e5, 1e11).Draw(t, "rate"),
			QueueBytes:        rapid.IntRange(1, 1_000_000).Draw(t, "queue"),
			Delay:             time.Duration(rapid.IntRange(0, 50_000_000).Draw(t, "delay")),
		}
		arrivals := drawArrivals(t)
		left, _ := carry(newLine(d, 1, 0, len(arrivals)), arrivals)
		bytesPerNanosecond := d.RateBitsPerSecond / 8e9
		for i := range left {
			bytes := 0.0
			for _, f := range left[i+1:] {
				bytes += float64(arrivals[f.handle].wire)
				// Departures are whole nanoseconds, rounded up.
				if window := float64(f.at - left[i].at + 1); bytes > window*bytesPerNanosecond*(1+1e-9) {
					t.Fatalf("%v bytes left within %v ns, more than %v bit/s", bytes, window, d.RateBitsPerSecond)
				}
			}
			// What had arrived by then and left later is the queue that
			// frame i found, with itself.
			f := left[i]
			queued := 0
			for _, earlier := range left[:i+1] {
				if earlier.at-d.Delay > arrivals[f.handle].at {
					queued += arrivals[earlier.handle].wire
				}
			}
			// The frame being sent may be partly gone already.
			if limit := d.QueueBytes + 70_000; queued > limit {
				t.Fatalf("%d bytes wait, more than %d", queued, limit)
			}
		}
	})
}

// The exact form of the queue's bound, on the line's own account.
func TestLineQueueBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Direction{RateBitsPerSecond: rapid.Float64Range(1e5, 1e11).Draw(t, "rate"), QueueBytes: rapid.IntRange(1, 1_000_000).Draw(t, "queue")}
		l := newLine(d, 1, 0, 1024)
		for i, a := range drawArrivals(t) {
			idle := l.busy <= float64(a.at)
			before := l.busy
			admitted := l.offer(int64(a.at), uint32(i), a.wire)
			queued := (l.busy - float64(a.at)) * l.rate
			switch {
			case !admitted && l.busy != before:
				t.Fatal("a dropped frame occupies the wire")
			case !admitted && idle:
				t.Fatal("an idle wire dropped a frame")
			case admitted && !idle && queued > float64(d.QueueBytes)*(1+1e-9):
				t.Fatalf("%v bytes wait, more than %d", queued, d.QueueBytes)
			}
		}
	})
}

// Jitter is a normal variation of the delay where frames are far enough apart to
// keep their order anyway.
func TestLineJitterDistribution(t *testing.T) {
	const n = 20_000
	d := Direction{Delay: 10 * ms, Jitter: ms}
	arrivals := make([]arrival, n)
	for i := range arrivals {
		arrivals[i] = arrival{time.Duration(i) * time.Second, 60}
	}
	left, _ := carry(newLine(d, 3, 0, 4), arrivals)
	var sum, squares float64
	for i, f := range left {
		x := float64(f.at - arrivals[i].at - d.Delay)
		sum += x
		squares += x * x
	}
	mean, deviation := sum/n, math.Sqrt(squares/n)
	// Bounds are six standard errors.
	if limit := 6 * float64(ms) / math.Sqrt(n); math.Abs(mean) > limit {
		t.Errorf("mean variation is %v ns, not within %v of 0", mean, limit)
	}
	if limit := 6 * float64(ms) / math.Sqrt(2*n); math.Abs(deviation-float64(ms)) > limit {
		t.Errorf("standard deviation is %v ns, not within %v of 1 ms", deviation, limit)
	}
}

// A frame that is later by some time is overtaken by all that leave meanwhile, and none
// is lost however many are held.
func TestReorderBy(t *testing.T) {
	const n, by = 20_000, 5 * time.Millisecond
	l := newLine(Direction{ReorderFraction: 0.25, ReorderBy: by, Delay: time.Millisecond}, 1, 0, 1024)
	seen := make([]bool, n)
	var reordered int
	release := func(now time.Duration) {
		for {
			handle, late, ok := l.release(int64(now))
			if !ok {
				return
			}
			arrived := time.Duration(handle) * 50 * time.Microsecond
			want := arrived + time.Millisecond
			if late || now >= want+by { // nothing follows the last ones
				want += by
			}
			if late {
				reordered++
			}
			if seen[handle] || now < want || now >= want+50*time.Microsecond {
				t.Fatalf("frame %d left at %v, want %v; twice: %v", handle, now, want, seen[handle])
			}
			seen[handle] = true
		}
	}
	for i := range n {
		now := time.Duration(i) * 50 * time.Microsecond
		release(now)
		if !l.offer(int64(now), uint32(i), 1500) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	for i := range 200 {
		release(time.Duration(n+i) * 50 * time.Microsecond)
	}
	if _, waits := l.next(); waits || slices.Contains(seen, false) || reordered < n/5 || reordered > n*3/10 {
		t.Errorf("%d of %d reordered; all left: %v", reordered, n, !slices.Contains(seen, false))
	}
}

// A frame that nothing follows while it is held is late, and not overtaken.
func TestReorderByOfSparseFrames(t *testing.T) {
	const by = 5 * time.Millisecond
	l := newLine(Direction{ReorderFraction: 0.5, ReorderBy: by}, 1, 0, 16)
	held := 0
	for i := range 200 {
		now := time.Duration(i) * time.Second
		l.offer(int64(now), uint32(i), 100)
		if _, _, ok := l.release(int64(now)); ok {
			continue
		}
		held++
		if handle, reordered, ok := l.release(int64(now + by)); !ok || handle != uint32(i) || reordered {
			t.Fatalf("frame %d: %v, overtaken: %v, left: %v", i, handle, reordered, ok)
		}
	}
	if held < 50 {
		t.Errorf("%d of 200 were held", held)
	}
}

// The shares of lost, duplicated and reordered frames are as planted, within six
// standard errors (one failure in 10^9, and the seed is fixed).
func TestLineFractions(t *testing.T) {
	const n = 200_000
	within := func(what string, hits int, of int, p float64) {
		t.Helper()
		if limit := 6 * math.Sqrt(float64(of)*p*(1-p)); math.Abs(float64(hits)-float64(of)*p) > limit {
			t.Errorf("%s: %d of %d, not within %.0f of %.0f", what, hits, of, limit, float64(of)*p)
		}
	}
	for _, p := range []float64{0, 0.001, 0.05, 0.3, 0.5} {
		l := newLine(Direction{LossFraction: p, DuplicateFraction: p, ReorderFraction: p}, 11, 1, 16)
		lost, twice := 0, 0
		for range n {
			switch l.copies() {
			case 0:
				lost++
			case 2:
				twice++
			}
		}
		within("lost", lost, n, p)
		within("duplicated", twice, n-lost, p)
		arrivals := make([]arrival, n)
		for i := range arrivals {
			arrivals[i] = arrival{time.Duration(i) * us, 60}
		}
		left, _ := carry(l, arrivals)
		overtaken := 0
		for _, f := range left {
			if f.reordered {
				overtaken++
			}
		}
		within("reordered", overtaken, n, p)
	}
}

func TestLineFractionsOfAllAndNothing(t *testing.T) {
	for _, c := range []struct {
		direction Direction
		copies    int
	}{{Direction{}, 1}, {Direction{LossFraction: 1}, 0}, {Direction{DuplicateFraction: 1}, 2}} {
		l := newLine(c.direction, 1, 0, 1)
		for range 1000 {
			if got := l.copies(); got != c.copies {
				t.Fatalf("%+v: %d copies, want %d", c.direction, got, c.copies)
			}
		}
	}
}

// What one stage draws does not depend on the others, so that an experiment with
// jitter loses the same frames as one without.
func TestLineStagesDrawIndependently(t *testing.T) {
	pattern := func(d Direction, seed uint64, index int) (lost []bool) {
		l := newLine(d, seed, index, 2)
		for i := range 1000 {
			lost = append(lost, l.copies() == 0)
			l.offer(int64(i), 0, 60)
			l.release(math.MaxInt64)
		}
		return lost
	}
	plain := pattern(Direction{LossFraction: 0.2}, 5, 0)
	loaded := pattern(Direction{LossFraction: 0.2, DuplicateFraction: 0.5, Jitter: ms, Delay: ms, ReorderFraction: 0.3}, 5, 0)
	if !reflect.DeepEqual(plain, loaded) {
		t.Error("other stages change which frames are lost")
	}
	if reflect.DeepEqual(plain, pattern(Direction{LossFraction: 0.2}, 5, 1)) {
		t.Error("both directions lose the same frames")
	}
	if reflect.DeepEqual(plain, pattern(Direction{LossFraction: 0.2}, 6, 0)) {
		t.Error("two seeds lose the same frames")
	}
}

func TestLineAllocatesNothing(t *testing.T) {
	d := Direction{
		Delay: ms, Jitter: 100 * us, LossFraction: 0.1, DuplicateFraction: 0.1,
		ReorderFraction: 0.1, RateBitsPerSecond: 1e9,
	}
	l := newLine(d, 1, 0, 1024)
	now := int64(0)
	allocations := testing.AllocsPerRun(10_000, func() {
		now += 1000
		for range l.copies() {
			l.offer(now, 1, 1514)
		}
		for {
			if _, _, ok := l.release(now); !ok {
				break
			}
		}
		l.next()
	})
	if allocations != 0 {
		t.Errorf("%v allocations per frame, want none", allocations)
	}
}

// The speed of the wire changes while its inspector is active, and no frame
// overtakes one that came before.
func TestLineChangesItsPace(t *testing.T) {
	d := Direction{InspectRateBitsPerSecond: 8e6, QueueBytes: 2000} // a byte in a microsecond
	l := newLine(d, 1, 0, 8)
	due := func(at time.Duration, wire int) time.Duration {
		t.Helper()
		if !l.offer(int64(at), 0, wire) {
			t.Fatalf("a frame at %v was refused", at)
		}
		return time.Duration(l.lastDue)
	}
	if got := due(ms, 1000); got != ms {
		t.Errorf("while it is not inspected: due at %v", got)
	}
	l.pace(int64(2*ms), d.inspectedRate())
	if got := due(2*ms, 1000); got != 3*ms {
		t.Errorf("while it is: due at %v", got)
	}
	if got := due(2*ms, 1000); got != 4*ms {
		t.Errorf("and the next: due at %v", got)
	}
	if l.offer(int64(2*ms), 0, 1000) {
		t.Error("the queue took more than it holds")
	}
	l.pace(int64(2*ms), d.RateBitsPerSecond)
	if got := due(2*ms, 1000); got != 4*ms {
		t.Errorf("no longer inspected: due at %v, want behind those before", got)
	}
	if got := due(5*ms, 1000); got != 5*ms {
		t.Errorf("and when they have gone: due at %v", got)
	}
}

// The queue holds as many bytes at one speed of the wire as at another, whatever
// was admitted at which.
func TestQueueKeepsItsSizeWhenTheSpeedChanges(t *testing.T) {
	fast, slow := 80e6, 8e6 // 1000 bytes take 0.1 ms and 1 ms
	l := newLine(Direction{RateBitsPerSecond: fast, QueueBytes: 10_500}, 1, 0, 64)
	takes := func(what string, at time.Duration, most, want int) {
		t.Helper()
		n := 0
		for n < most && l.offer(int64(at), 0, 1000) {
			n++
		}
		if n != want {
			t.Errorf("%s: took %d frames, want %d", what, n, want)
		}
	}
	l.pace(0, slow)
	takes("slow", 0, 5, 5)
	l.pace(0, fast)
	takes("fast, half full", 0, 20, 5)
	l.pace(0, slow)
	takes("slow, full", 0, 20, 0)
	takes("slow, all gone", 5600*us, 20, 10)
	l.pace(int64(10600*us), fast)
	takes("fast, half gone", 10600*us, 20, 5)
	takes("fast, all gone", 17*ms, 20, 10)
}

func TestRateWhileInspecting(t *testing.T) {
	for _, c := range []struct{ rate, inspect, want float64 }{
		{0, 0, 0}, {1e6, 0, 1e6}, {0, 1e6, 1e6}, {2e6, 1e6, 1e6}, {1e6, 2e6, 1e6},
	} {
		d := Direction{RateBitsPerSecond: c.rate, InspectRateBitsPerSecond: c.inspect}
		if got := d.inspectedRate(); got != c.want {
			t.Errorf("%+v: %g bit/s while inspecting, want %g", c, got, c.want)
		}
	}
	if (Direction{InspectRateBitsPerSecond: 1e6}).direct() {
		t.Error("a wire with a rate needs a queue")
	}
}
