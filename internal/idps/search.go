package idps

import (
	"bytes"
	"math"
)

const (
	// reach is how far from the content that is looked for, in bytes before
	// its end and behind it, the rest of a rule may lie. What a rule finds so
	// depends on the stream alone and not on how it was cut into segments.
	reach = 2048
	// historyBytes is how much of a stream is kept to look back at.
	historyBytes = 2 * reach
	// maxPending bounds the rules that wait for more of one stream.
	maxPending = 32
	// maxAttempts bounds the work of comparing one rule with the bytes around
	// its content, where contents that are found often may combine in many ways.
	maxAttempts = 3000
)

// stream is one direction of a flow, or a single datagram, as inspection sees
// it. Offsets count its bytes from where it began.
type stream struct {
	state   uint32
	end     int64 // offset behind the last byte that was searched
	history []byte
	pending []pending
	// joined streams were come across in the middle: where they began is not
	// known, and rules that ask for it do not apply.
	joined bool
	// limited says that rules were dropped from pending.
	limited bool
}

// pending is a rule whose content was found and whose rest was not, yet.
type pending struct {
	rule *Rule
	at   int64 // offset behind the content
}

// window is the part of a stream that can be looked at: data, and before it the
// stream's history.
type window struct {
	*stream
	data    []byte
	begin   int64   // offset of data
	scratch *[]byte // for what lies in both
}

// bytes are those from offset lo to hi as far as they are there, and where
// they begin.
func (w *window) bytes(lo, hi int64) ([]byte, int64) {
	lo = max(lo, w.begin-int64(len(w.history)))
	hi = min(hi, w.begin+int64(len(w.data)))
	switch {
	case lo >= hi:
		return nil, lo
	case lo >= w.begin:
		return w.data[lo-w.begin : hi-w.begin], lo
	}
	history := w.history[int64(len(w.history))-(w.begin-lo):]
	if hi <= w.begin {
		return history[:hi-lo], lo
	}
	*w.scratch = append(append((*w.scratch)[:0], history...), w.data[:hi-w.begin]...)
	return *w.scratch, lo
}

// matches compares a rule, whose content ends at an offset, with what is there.
// more tells that it may match when more of the stream has come.
func (w *window) matches(r *Rule, at int64) (matched, more bool) {
	if r.alone {
		s := &r.steps[0]
		if s.folded != nil {
			return true, false
		}
		found, _ := w.bytes(at-int64(len(s.content)), at)
		return bytes.Equal(found, s.content), false
	}
	area, from := w.bytes(at-reach, at+reach)
	e := evaluation{steps: r.steps, area: area, from: from, joined: w.joined, left: maxAttempts}
	return e.rest(0, 0), w.mayCome(at)
}

// mayCome tells whether more of what is around a content is still to come.
func (w *window) mayCome(at int64) bool { return w.begin+int64(len(w.data)) < at+reach }

// adds tells whether data can complete a match of a rule that could not be found
// before: one of its contents ends there, or nobody can say.
func (w *window) adds(r *Rule) bool {
	for i := range r.steps {
		s := &r.steps[i]
		switch {
		case s.expression != nil:
			return true
		case s.negated:
			continue // more of the stream takes matches away only
		}
		pattern, find := s.needle()
		area, _ := w.bytes(w.begin-int64(len(pattern)-1), math.MaxInt64)
		if find(area, pattern) >= 0 {
			return true
		}
	}
	return false
}

// needle is what a content looks for, and how.
func (s *step) needle() (pattern []byte, find func(data, pattern []byte) int) {
	if s.folded != nil {
		return s.folded, indexFold
	}
	return s.content, bytes.Index
}

// remember keeps the end of data, which was searched, to look back at.
func (s *stream) remember(data []byte) {
	if len(data) >= historyBytes {
		s.history = append(s.history[:0], data[len(data)-historyBytes:]...)
		return
	}
	// Twice the room, so that not every small segment moves all of it.
	if len(s.history)+len(data) > 2*historyBytes {
		n := copy(s.history, s.history[len(s.history)-historyBytes:])
		s.history = s.history[:n]
	}
	s.history = append(s.history, data...)
}

// interrupted forgets everything that leads to the bytes that come next, since
// n bytes between are missing.
func (s *stream) interrupted(n int64) {
	s.state, s.end = 0, s.end+n
	s.history, s.pending = s.history[:0], s.pending[:0]
}

// evaluation compares the steps of one rule with a part of a stream.
type evaluation struct {
	steps  []step
	area   []byte
	from   int64 // offset of area in the stream
	joined bool
	left   int // attempts
}

// rest tells whether the steps from the i-th on can be found, when the one
// before ended at an index of area.
func (e *evaluation) rest(i, before int) bool {
	if i == len(e.steps) {
		return true
	}
	s := &e.steps[i]
	if s.expression != nil {
		return e.expression(s, i, before)
	}
	if s.negated && e.hides(s) {
		return false
	}
	lo, hi := e.span(s, before)
	pattern, find := s.needle()
	for lo+len(pattern) <= hi && e.left > 0 {
		e.left--
		at := find(e.area[lo:hi], pattern)
		if s.negated {
			return at < 0 && e.rest(i+1, before)
		}
		if at < 0 {
			return false
		}
		if e.rest(i+1, lo+at+len(pattern)) {
			return true
		}
		lo += at + 1
	}
	return s.negated && e.left > 0 && e.rest(i+1, before)
}

// hides tells whether a content may lie, by its offset and depth, where area does not reach.
func (e *evaluation) hides(s *step) bool {
	return !s.relative && (s.bounded || s.from > 0) && (e.joined || s.bounded && int64(s.from) < e.from)
}

// span is where in area a content may lie.
func (e *evaluation) span(s *step, before int) (lo, hi int) {
	hi = len(e.area)
	switch {
	case s.relative:
		lo = before + s.from
	case s.from == 0 && !s.bounded:
		return 0, hi
	case e.joined:
		return hi, 0 // nobody knows where offset 0 was
	default:
		// Offsets beyond what an int holds lie outside anyway.
		lo = int(max(int64(s.from)-e.from, math.MinInt32))
	}
	if s.bounded {
		hi = min(hi, lo+s.span)
	}
	return max(lo, 0), max(hi, 0)
}

func (e *evaluation) expression(s *step, i, before int) bool {
	lo := 0
	switch {
	case s.relative:
		lo = before
	case (s.fromStart || s.fromLine) && (e.from > 0 || e.joined):
		if s.fromStart {
			return false
		}
		// Before the first end of a line it is not known where a line began.
		newline := bytes.IndexByte(e.area, '\n')
		if newline < 0 {
			return false
		}
		lo = newline + 1
	}
	if e.left <= 0 {
		return false
	}
	e.left--
	found := s.expression.FindReaderIndex(&byteRunes{data: e.area[lo:]})
	return found != nil && e.rest(i+1, lo+found[1])
}

// indexFold is bytes.Index for a pattern in lower case, without regard to the
// case of ASCII letters in data. It goes from one first letter to the next, of
// either case, each of which is searched for once.
func indexFold(data, pattern []byte) int {
	if len(data) < len(pattern) {
		return -1
	}
	starts := data[:len(data)-len(pattern)+1]
	lower := cursor{data: starts, letter: pattern[0]}
	upper := cursor{data: starts, letter: pattern[0], at: len(starts)}
	if l := pattern[0]; l >= 'a' && l <= 'z' {
		upper = cursor{data: starts, letter: l - ('a' - 'A')}
		upper.seek(0)
	}
	for lower.seek(0); ; {
		at := min(lower.at, upper.at)
		if at == len(starts) {
			return -1
		}
		if equalFold(data[at:at+len(pattern)], pattern) {
			return at
		}
		if lower.at == at {
			lower.seek(at + 1)
		} else {
			upper.seek(at + 1)
		}
	}
}

// cursor goes from one occurrence of a letter to the next; behind the last it
// is at the end of data.
type cursor struct {
	data   []byte
	letter byte
	at     int
}

func (c *cursor) seek(from int) {
	if n := bytes.IndexByte(c.data[from:], c.letter); n >= 0 {
		c.at = from + n
	} else {
		c.at = len(c.data)
	}
}

func equalFold(data, pattern []byte) bool {
	for i, b := range data {
		if fold(b) != pattern[i] {
			return false
		}
	}
	return true
}
