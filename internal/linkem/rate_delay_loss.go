package linkem

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// line is one direction without its input and output: which frame is on the
// wire until when. It knows frames by a handle and their size only, and time
// only as it is told (nanoseconds of any clock that does not go back), so that it can
// be tested without a kernel. It allocates nothing after newLine. A line is not
// safe for concurrent use.
type line struct {
	loss, duplicate, reorder draw

	rate  float64 // bytes per nanosecond; 0 unlimited
	queue float64 // bytes
	// busy is when the wire will have sent all that was admitted, in
	// nanoseconds with a fraction, so that no rate is ever rounded.
	busy float64
	// before is when it will have sent what was admitted at other speeds, and
	// beforeRate how fast it does.
	before, beforeRate float64

	delay, jitter float64 // nanoseconds
	jitterSource  *rand.Rand
	lastDue       int64

	// entries is a ring, oldest at head, in order of due.
	entries    []entry
	head, tail uint32
	// reordering is a frame that waits to be overtaken.
	reordering   entry
	isReordering bool
	overtaken    bool  // the frame behind it has gone
	reorderUntil int64 // and this is when it stops waiting
	pending      bool  // the last of entries is marked to be overtaken
	// reorderBy is for how long those are held that are to be overtaken by many, and
	// held are these, the oldest first; 0 is none. passed counts all others that left.
	reorderBy int64
	held      []late
	passed    uint64
}

// entry is a frame on the wire.
type entry struct {
	due     int64 // when it leaves
	handle  uint32
	reorder bool // it is to be overtaken by the next
}

// late is a frame that is held, and how many others had left when it should have.
type late struct {
	entry
	passed uint64
}

// newLine makes a line that holds up to frames frames. index tells the
// directions of a link emulator apart, so that they do not lose the same frames.
func newLine(d Direction, seed uint64, index, frames int) *line {
	stream := uint64(index) * streamsPerDirection
	l := &line{
		loss:         newDraw(d.LossFraction, seed, stream+streamLoss),
		duplicate:    newDraw(d.DuplicateFraction, seed, stream+streamDuplicate),
		reorder:      newDraw(pickedFraction(d), seed, stream+streamReorder),
		reorderBy:    int64(d.ReorderBy),
		queue:        d.queueBytes(),
		delay:        float64(d.Delay),
		jitter:       float64(d.Jitter),
		jitterSource: rand.New(rand.NewPCG(seed, stream+streamJitter)),
		busy:         math.Inf(-1),
		before:       math.Inf(-1),
		lastDue:      math.MinInt64,
	}
	l.pace(0, d.RateBitsPerSecond)
	capacity := 1
	for capacity < frames {
		capacity *= 2
	}
	l.entries = make([]entry, capacity)
	if l.reorderBy > 0 {
		l.held = make([]late, 0, maxReordered)
	}
	return l
}

// pickedFraction is the probability that makes ReorderFraction of the frames reordered.
// While a frame waits for the one behind it, that one is not picked, so that of n frames
// n·q/(1+q) are.
func pickedFraction(d Direction) float64 {
	if d.ReorderBy > 0 {
		return d.ReorderFraction
	}
	return d.ReorderFraction / (1 - d.ReorderFraction)
}

// maxReordered is how many frames of a line wait to be overtaken at a time; more keep their place.
const maxReordered = 4096

// pace sets the speed of the wire from now on. What was admitted before keeps its
// place, and the queue its size in bytes: a device does not lose memory by being slow.
func (l *line) pace(now int64, bitsPerSecond float64) {
	rate := bitsPerSecond / 8 / 1e9
	if rate == l.rate {
		return
	}
	if at := float64(now); l.busy > at {
		l.before, l.beforeRate = l.busy, l.waiting(at)/(l.busy-at)
	}
	l.rate = rate
}

// waiting is how many bytes the queue holds at now.
func (l *line) waiting(now float64) float64 {
	before := max(0, l.before-now)
	return before*l.beforeRate + max(0, l.busy-now-before)*l.rate
}

// copies runs the stages of loss and duplication on the next frame.
func (l *line) copies() int {
	if l.loss.hit() {
		return 0
	}
	if l.duplicate.hit() {
		return 2
	}
	return 1
}

// offer runs rate, delay and reordering on one copy of a frame of so many bytes
// on the wire, which arrives at now. It reports whether the frame was
// admitted; if not, the queue was full.
func (l *line) offer(now int64, handle uint32, wireBytes int) bool {
	if l.tail-l.head == uint32(len(l.entries)) {
		return false
	}
	departs := float64(now)
	if l.rate > 0 {
		waiting := l.waiting(departs)
		if waiting > 0 {
			if waiting+float64(wireBytes) > l.queue {
				return false
			}
			departs = l.busy
		}
		departs += float64(wireBytes) / l.rate
		l.busy = departs
	}
	if l.jitter > 0 {
		departs += max(0, l.delay+l.jitter*l.jitterSource.NormFloat64())
	} else {
		departs += l.delay
	}
	due := max(int64(math.Ceil(departs)), l.lastDue)
	l.lastDue = due
	reorder := false
	if l.pending {
		l.pending = false
	} else {
		reorder = l.reorder.hit()
		l.pending = reorder && l.reorderBy == 0
	}
	l.entries[l.tail&uint32(len(l.entries)-1)] = entry{due: due, handle: handle, reorder: reorder}
	l.tail++
	return true
}

// next is when release will have a frame, and whether it ever will.
func (l *line) next() (at int64, ok bool) {
	if l.isReordering && l.overtaken {
		return l.reordering.due, true // now: that time has passed
	}
	if l.head != l.tail {
		at, ok = l.entries[l.head&uint32(len(l.entries)-1)].due, true
	}
	if l.isReordering && (!ok || l.reorderUntil < at) {
		at, ok = l.reorderUntil, true
	}
	if len(l.held) > 0 && (!ok || l.held[0].due < at) {
		at, ok = l.held[0].due, true
	}
	return at, ok
}

// release returns the next frame that has left the wire by now, and whether
// it was overtaken.
func (l *line) release(now int64) (handle uint32, reordered, ok bool) {
	for {
		if l.isReordering && (l.overtaken || l.reorderUntil <= now && !l.dueBy(min(now, l.reorderUntil))) {
			l.isReordering = false
			return l.reordering.handle, l.overtaken, true
		}
		if len(l.held) > 0 && l.held[0].due <= now && !l.dueBy(min(now, l.held[0].due)) {
			e := l.held[0]
			l.held = slices.Delete(l.held, 0, 1)
			return e.handle, l.passed > e.passed, true
		}
		if !l.dueBy(now) {
			return 0, false, false
		}
		e := l.entries[l.head&uint32(len(l.entries)-1)]
		l.head++
		if !e.reorder || l.reorderBy > 0 && len(l.held) == cap(l.held) {
			l.passed++
			l.overtaken = true // of no meaning unless a frame is reordering
			return e.handle, false, true
		}
		if l.reorderBy > 0 {
			e.due += l.reorderBy
			l.held = append(l.held, late{e, l.passed})
			continue
		}
		l.reordering, l.isReordering, l.overtaken = e, true, false
		l.reorderUntil = e.due + int64(ReorderHold)
	}
}

func (l *line) dueBy(now int64) bool {
	return l.head != l.tail && l.entries[l.head&uint32(len(l.entries)-1)].due <= now
}

// clock is the time since a start, in nanoseconds.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) }
