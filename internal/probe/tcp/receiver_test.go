package tcp

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Large packets at a steady rate give every window of whole bins its rate, however the
// window lies to them, and no byte is lost or counted twice.
func TestBookSharesLargePackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width = 10 * time.Millisecond
		r := &receiver{bins: make([]int64, 30), width: width}
		period := time.Duration(rapid.Int64Range(1, int64(width)).Draw(t, "period in ns"))
		if period < width/1000 {
			period += width / 1000 // no more reads than the test has time for
		}
		phase := time.Duration(rapid.Int64Range(0, int64(period)-1).Draw(t, "phase in ns"))
		size := rapid.Int64Range(1, 1<<20).Draw(t, "bytes of a packet")
		end, sum := time.Duration(len(r.bins))*width, int64(0)
		before := time.Duration(0)
		for at := phase; at < end; at += period {
			r.book(size, before, at, int(at/width))
			before, sum = at, sum+size
		}
		counted := int64(0)
		for _, n := range r.bins {
			counted += n
		}
		if counted != sum {
			t.Fatalf("%d bytes were counted of %d", counted, sum)
		}
		// What is read after the last bin belongs to it in part.
		r.book(size, before, end+period/2, len(r.bins))
		from := rapid.IntRange(1, len(r.bins)-2).Draw(t, "first bin")
		to := rapid.IntRange(from+1, len(r.bins)-1).Draw(t, "bin after the last")
		got := 0.0
		for _, n := range r.bins[from:to] {
			got += float64(n)
		}
		want := float64(size) * float64(time.Duration(to-from)*width) / float64(period)
		// Shares are of whole bytes.
		if math.Abs(got-want) > 2 {
			t.Errorf("%d bins have %.0f bytes, want %.1f", to-from, got, want)
		}
	})
}

func TestBookReachesNoFurtherThanABinBack(t *testing.T) {
	const width = 10 * time.Millisecond
	for name, c := range map[string]struct {
		before, at time.Duration
		want       [4]int64
	}{
		"inside a bin":             {11 * time.Millisecond, 14 * time.Millisecond, [4]int64{0, 1000, 0, 0}},
		"over an edge":             {18 * time.Millisecond, 22 * time.Millisecond, [4]int64{0, 500, 500, 0}},
		"at the edge":              {15 * time.Millisecond, 20 * time.Millisecond, [4]int64{0, 1000, 0, 0}},
		"after a long silence":     {0, 35 * time.Millisecond, [4]int64{0, 0, 666, 334}},
		"the first":                {0, 5 * time.Millisecond, [4]int64{1000, 0, 0, 0}},
		"over the end":             {38 * time.Millisecond, 42 * time.Millisecond, [4]int64{0, 0, 0, 500}},
		"long after the end":       {38 * time.Millisecond, 52 * time.Millisecond, [4]int64{}},
		"no time between two":      {20 * time.Millisecond, 20 * time.Millisecond, [4]int64{0, 0, 1000, 0}},
		"the first at its instant": {0, 0, [4]int64{1000, 0, 0, 0}},
	} {
		r := &receiver{bins: make([]int64, 4), width: width}
		r.book(1000, c.before, c.at, int(c.at/width))
		if got := [4]int64(r.bins); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A flow whose bytes come in lumps, as behind a lost packet on a slow path, is not silent for
// that nothing came in the second half of the count: it came later.
func TestStalled(t *testing.T) {
	for _, c := range []struct {
		bins          []int64
		alive, silent bool
	}{
		{[]int64{1, 1, 0, 0}, false, true},
		{[]int64{1, 1, 0, 0}, true, false},
		{[]int64{0, 0, 0, 0}, true, true},
		{[]int64{0, 0, 0, 1}, false, false},
	} {
		if r := (&receiver{bins: c.bins, full: len(c.bins), alive: c.alive}); r.stalled() != c.silent {
			t.Errorf("%v, then alive %v: stalled %v", c.bins, c.alive, r.stalled())
		}
	}
}

// What is read piece by piece, because a frame ends in it, came together.
func TestArrivalOfPieces(t *testing.T) {
	var a arrival
	for i, c := range []struct{ at, want time.Duration }{
		{5 * time.Millisecond, 0},
		{5*time.Millisecond + 10*time.Microsecond, 0},
		{5*time.Millisecond + 20*time.Microsecond, 0},
		{8 * time.Millisecond, 5*time.Millisecond + 20*time.Microsecond},
		{8*time.Millisecond + together, 5*time.Millisecond + 20*time.Microsecond},
		{8*time.Millisecond + together + 1, 8*time.Millisecond + together},
	} {
		if got := a.since(c.at); got != c.want {
			t.Errorf("read %d came after %v, want %v", i, got, c.want)
		}
	}
}

// What a slow queue still holds at the end comes before what the sender says, which is waited
// for as long as something comes.
func TestSenderIsHeardBehindItsQueue(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.TCP, Flows: 1000}.Defaults()
	own := session.Grace + 1000*gracePerFlow
	for name, c := range map[string]struct {
		after               time.Duration
		alive, served, over bool
		err                 error
	}{
		"just over":                      {time.Second, false, false, false, nil},
		"silent":                         {own + time.Millisecond, false, false, true, session.ErrSilent},
		"silent at a server":             {own + time.Millisecond, false, true, false, nil},
		"silent for long":                {own + 2*session.Grace + time.Millisecond, false, true, true, session.ErrSilent},
		"what was queued comes":          {own + 2*session.Grace, true, false, false, nil},
		"what was queued comes for long": {own + 2*session.Grace + time.Millisecond, true, false, true, nil},
	} {
		r := newReceiver(session.ControlConn{Conn: new(sockets.Conn)}, spec, nil, false)
		if c.served {
			r.Guard = new(session.Guard)
		}
		r.alive = c.alive
		if over, err := r.spent(c.after); over != c.over || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", name, over, err)
		}
	}
}
