package linkem

import "math"

const (
	// flowSets × flowWays, 65 536, are the flows that a shaper can hold a
	// backlog of. A flow's place is one of flowWays by its hash, so the first
	// may be refused before all are taken: of 10 000 at a time fewer than one in
	// ten thousand.
	flowSets = 8192
	flowWays = 8
)

// shaper limits each flow of a direction to a rate, before the frames reach the
// line: every flow has a wire of its own, with its own queue, so no flow delays
// another. Like a line it knows frames by a handle and time as it is told, and
// it allocates nothing after newShaper. It is not safe for concurrent use.
//
// All that a flow needs is when its wire will be free. A flow whose wire is free
// is as good as one that was never seen, so its place is given to the next: flows
// are never aged by a timer, and only those with a backlog count.
type shaper struct {
	rate  float64 // bytes per nanosecond
	queue float64 // bytes
	flows [flowSets][flowWays]flow
	// waiting is a heap, the earliest frame first.
	waiting []shaped
	room    int
	order   uint64 // of the next frame
}

// flow is one that may have a backlog.
type flow struct {
	key flowKey
	// busy is when its wire will have sent all that was admitted, in
	// nanoseconds with a fraction, so that no rate is ever rounded.
	busy float64
}

// shaped is a frame that its flow's wire is sending.
type shaped struct {
	due    int64  // when it will be sent
	order  uint64 // in which it came, which decides between equals
	handle uint32
	wire   int32 // bytes on the wire
}

// newShaper makes one for a direction with a rate per flow that holds up to
// frames frames.
func newShaper(d Direction, frames int) *shaper {
	return &shaper{
		rate:    d.PerFlowRateBitsPerSecond / 8 / 1e9,
		queue:   queueBytes(d.PerFlowRateBitsPerSecond),
		waiting: make([]shaped, 0, frames),
		room:    frames,
	}
}

// offer takes a frame of so many bytes on the wire that arrives at now, and
// reports whether it was admitted; if not, the queue of its flow was full, or the
// table of flows. What is of no flow does not wait.
func (s *shaper) offer(now int64, key flowKey, handle uint32, wireBytes int) bool {
	if len(s.waiting) == s.room {
		return false
	}
	due := now
	if key != 0 {
		f := s.flow(key, float64(now))
		if f == nil {
			return false
		}
		departs := float64(now)
		if waiting := (f.busy - departs) * s.rate; waiting > 0 {
			if waiting+float64(wireBytes) > s.queue {
				return false
			}
			departs = f.busy
		}
		f.busy = departs + float64(wireBytes)/s.rate
		due = int64(math.Ceil(f.busy))
	}
	s.push(shaped{due: due, order: s.order, handle: handle, wire: int32(wireBytes)})
	s.order++
	return true
}

// flow finds the place of a flow, or gives it one that is free by now; nil when
// there is none, and then the frame is lost, as with any device whose table of
// flows is full.
func (s *shaper) flow(key flowKey, now float64) *flow {
	set := &s.flows[uint64(key)%flowSets]
	earliest := &set[0]
	for i := range set {
		f := &set[i]
		if f.key == key {
			return f
		}
		if f.busy < earliest.busy {
			earliest = f
		}
	}
	if earliest.busy > now {
		return nil
	}
	*earliest = flow{key: key, busy: math.Inf(-1)}
	return earliest
}

// next is when release will have a frame, and whether it ever will.
func (s *shaper) next() (at int64, ok bool) {
	if len(s.waiting) == 0 {
		return 0, false
	}
	return s.waiting[0].due, true
}

// release returns the next frame that its flow's wire has sent by now, and when
// it had.
func (s *shaper) release(now int64) (f shaped, ok bool) {
	if len(s.waiting) == 0 || s.waiting[0].due > now {
		return shaped{}, false
	}
	return s.pop(), true
}

func (a shaped) before(b shaped) bool {
	return a.due < b.due || a.due == b.due && a.order < b.order
}

// push and pop are those of container/heap without its interface, which would
// allocate.
func (s *shaper) push(f shaped) {
	s.waiting = append(s.waiting, f)
	i := len(s.waiting) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !f.before(s.waiting[parent]) {
			break
		}
		s.waiting[i] = s.waiting[parent]
		i = parent
	}
	s.waiting[i] = f
}

func (s *shaper) pop() shaped {
	first := s.waiting[0]
	last := len(s.waiting) - 1
	f := s.waiting[last]
	s.waiting = s.waiting[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s.waiting[child+1].before(s.waiting[child]) {
			child++
		}
		if !s.waiting[child].before(f) {
			break
		}
		s.waiting[i] = s.waiting[child]
		i = child
	}
	s.waiting[i] = f
	return first
}
