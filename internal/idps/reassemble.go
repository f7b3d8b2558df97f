package idps

import (
	"slices"
	"sync/atomic"
)

const (
	// maxAhead is the largest window of TCP in bytes (RFC 7323, section 2.3);
	// what is further ahead of its stream is not of it.
	maxAhead = 1 << 30
	// maxHeld bounds what one direction of a flow keeps that came early, and
	// maxPieces in how many pieces.
	maxHeld   = 4 << 20
	maxPieces = 4096
	// pieceOverhead is what keeping a piece costs beyond its bytes.
	pieceOverhead = 64
)

// budget is the memory for early segments that all flows share, in bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) > b.limit {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// segment is a run of bytes at a sequence number.
type segment struct {
	sequence uint32
	data     []byte
}

// trim drops what lies before a sequence number.
func (s *segment) trim(sequence uint32) {
	if behind := int32(sequence - s.sequence); behind > 0 {
		n := min(int(behind), len(s.data))
		s.data = s.data[n:]
		s.sequence += uint32(n)
	}
}

func (s *segment) end() uint32 { return s.sequence + uint32(len(s.data)) }

// reassembler puts the bytes of one direction of a TCP connection in order. Of
// bytes that come twice the first win, whether they were passed on or are kept.
type reassembler struct {
	next uint32 // sequence number of the next byte in order
	// early are segments ahead of next: in order, apart from each other, and
	// within maxAhead.
	early []segment
	held  int // bytes charged to the budget
}

// ready returns the next run of bytes in order, of s or of what was kept, and
// moves on; nil when there is none. What is left in s then lies ahead.
func (r *reassembler) ready(s *segment, b *budget) []byte {
	for {
		if len(r.early) == 0 { // nearly always
			s.trim(r.next)
			if len(s.data) == 0 || s.sequence != r.next {
				return nil
			}
			data := s.data
			r.next += uint32(len(data))
			s.data = nil
			return data
		}
		first := &r.early[0]
		if int32(first.sequence-r.next) <= 0 {
			kept := *first
			r.forget(b)
			kept.trim(r.next)
			if len(kept.data) == 0 {
				continue
			}
			r.next = kept.end()
			return kept.data
		}
		s.trim(r.next)
		if len(s.data) == 0 || s.sequence != r.next {
			return nil
		}
		n := min(len(s.data), int(first.sequence-r.next))
		data := s.data[:n]
		s.trim(s.sequence + uint32(n))
		r.next += uint32(n)
		return data
	}
}

// forget drops the first early segment.
func (r *reassembler) forget(b *budget) {
	cost := len(r.early[0].data) + pieceOverhead
	r.early[0] = segment{}
	r.early = r.early[1:]
	r.held -= cost
	b.give(cost)
}

// release drops all early segments.
func (r *reassembler) release(b *budget) {
	b.give(r.held)
	r.held, r.early = 0, nil
}

// keep copies the part of s that is not kept yet, s being ahead of next. It reports
// whether all of it could be.
func (r *reassembler) keep(s segment, b *budget) bool {
	if ahead := s.sequence - r.next; ahead > maxAhead {
		return false
	}
	distance := func(q uint32) uint32 { return q - r.next }
	i, _ := slices.BinarySearchFunc(r.early, s.sequence, func(e segment, q uint32) int {
		if distance(e.sequence) <= distance(q) {
			return -1
		}
		return 1
	})
	if i > 0 {
		s.trim(r.early[i-1].end())
	}
	for len(s.data) > 0 {
		n := len(s.data)
		if i < len(r.early) {
			n = min(n, int(r.early[i].sequence-s.sequence))
		}
		if n > 0 {
			cost := n + pieceOverhead
			if r.held+cost > maxHeld || len(r.early) >= maxPieces || !b.take(cost) {
				return false
			}
			r.held += cost
			r.early = slices.Insert(r.early, i, segment{s.sequence, slices.Clone(s.data[:n])})
			s.trim(s.sequence + uint32(n))
			i++
		}
		if i < len(r.early) {
			s.trim(r.early[i].end())
			i++
		}
	}
	return true
}

// skip gives up on what is missing before a sequence number, which lies ahead.
func (r *reassembler) skip(to uint32, b *budget) {
	for len(r.early) > 0 && int32(r.early[0].end()-to) <= 0 {
		r.forget(b)
	}
	r.next = to
}
