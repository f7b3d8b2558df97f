package event

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// mostWeight bounds what a stream keeps, in events and pairs of them: some 30 MB.
const mostWeight = 1 << 18

// mostEvents bounds it in events: an hour and more of a run's seconds.
const mostEvents = 1 << 13

// Stream is what is published of a run, or of several one after the other. It keeps
// the newest events for those who read later or again. The zero value is not ready:
// see NewStream.
type Stream struct {
	mu     sync.Mutex
	kept   []Event // the newest, with the numbers from first on
	first  int64
	weight int
	state  State
	// more is closed, and replaced, when there is something new; it is closed for
	// good with the stream.
	more   chan struct{}
	closed bool
	limit  int // of events
}

// NewStream makes a stream without events.
func NewStream() *Stream { return newStream(mostEvents) }

func newStream(limit int) *Stream {
	return &Stream{first: 1, more: make(chan struct{}), limit: limit, state: newState()}
}

// Publish gives an event its number, and its time unless it has one, and hands it to all
// who read. It waits for nobody. After Close it does nothing.
func (s *Stream) Publish(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	e.Number = s.first + int64(len(s.kept))
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s.state.apply(e)
	s.kept = append(s.kept, e)
	s.weight += weightOf(e)
	for len(s.kept) > 1 && (len(s.kept) > s.limit || s.weight > mostWeight) {
		s.weight -= weightOf(s.kept[0])
		s.kept[0] = Event{} // let go of what it holds
		s.kept = s.kept[1:]
		s.first++
	}
	close(s.more)
	s.more = make(chan struct{})
}

func weightOf(e Event) int {
	n := 1 + len(e.Hops)
	if e.Second != nil {
		n += len(e.Second.Pairs)
	}
	return n
}

// Close ends the stream: readers get what they have not read yet, and then io.EOF. A
// second Close does nothing.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.more)
	}
}

// State is where the run is.
func (s *Stream) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// Progress is how many trials are done and planned, and how long the rest takes.
func (s *Stream) Progress() (done, planned int, left measurement.Seconds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Done, s.state.Planned, s.state.Left
}

// Reader reads a stream. It is for one goroutine.
type Reader struct {
	s    *Stream
	next int64
}

// Read begins after the event of that number: 0 for all that is kept.
func (s *Stream) Read(after int64) *Reader { return &Reader{s: s, next: max(after, 0) + 1} }

// Follow begins with what is published from now on.
func (s *Stream) Follow() *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Reader{s: s, next: s.first + int64(len(s.kept))}
}

// batch bounds what Next returns at a time.
const batch = 256

// Next waits for events and returns those that there are, oldest first, a Lost before
// them in place of any that the reader came too late for. After the last of a closed
// stream it returns io.EOF, and ctx's error once that is over.
func (r *Reader) Next(ctx context.Context) ([]Event, error) {
	for {
		events, more, closed := r.take()
		if len(events) > 0 {
			return events, nil
		}
		if closed {
			return nil, io.EOF
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-more:
		}
	}
}

func (r *Reader) take() (events []Event, more <-chan struct{}, closed bool) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.first + int64(len(s.kept))
	// A number that is not there yet is of another stream: there is nothing to skip.
	r.next = min(r.next, end)
	if lost := s.first - r.next; lost > 0 {
		events = append(events, Event{Number: s.first - 1, Time: time.Now(), Code: Lost, LostEvents: lost,
			Done: s.state.Done, Planned: s.state.Planned, Left: s.state.Left})
		r.next = s.first
	}
	n := min(end-r.next, batch)
	from := r.next - s.first
	events = append(events, s.kept[from:from+n]...)
	r.next += n
	return events, s.more, s.closed
}
