package idps

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// model is a reassembler without bounds that keeps every byte by itself: of
// bytes that come twice the first wins.
type model struct {
	start uint32
	bytes map[uint32]byte // by distance from start
	next  uint32          // likewise
}

func (m *model) add(sequence uint32, data []byte) (ready []byte) {
	for i, b := range data {
		at := sequence + uint32(i) - m.start
		if int32(at-m.next) < 0 {
			continue
		}
		if _, there := m.bytes[at]; !there {
			m.bytes[at] = b
		}
	}
	for {
		b, there := m.bytes[m.next]
		if !there {
			return ready
		}
		ready = append(ready, b)
		m.next++
	}
}

// add gives a reassembler a segment and returns what it makes ready.
func (r *reassembler) add(sequence uint32, data []byte, b *budget) (ready []byte, kept bool) {
	s := segment{sequence, data}
	for {
		some := r.ready(&s, b)
		if some == nil {
			break
		}
		ready = append(ready, some...)
	}
	if len(s.data) > 0 {
		return ready, r.keep(s, b)
	}
	return ready, true
}

// consistent checks what a reassembler promises about itself.
func (r *reassembler) consistent(t *testing.T, b *budget) {
	t.Helper()
	held := 0
	for i, e := range r.early {
		held += len(e.data) + pieceOverhead
		if len(e.data) == 0 || int32(e.sequence-r.next) <= 0 || i > 0 && int32(e.sequence-r.early[i-1].end()) < 0 {
			t.Fatalf("early segment %d of %d is empty, late or overlaps", i, len(r.early))
		}
	}
	if held != r.held || b.used.Load() != int64(held) || held > maxHeld || len(r.early) > maxPieces {
		t.Fatalf("%d bytes are held, %d charged to the flow and %d to all, in %d pieces", held, r.held, b.used.Load(), len(r.early))
	}
}

// Random cutting, order, repetition and overlap, also with other bytes than
// before, around the end of the numbers.
func TestReassemblesLikeModel(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		start := uint32(r.Uint64())
		if seed%2 == 0 {
			start = -uint32(r.IntN(300))
		}
		text := randomText(r, "abcdefgh", 50+r.IntN(400))
		var segments []segment
		at := 0
		for _, piece := range cut(r, text, 1+r.IntN(40)) {
			segments = append(segments, segment{start + uint32(at), piece})
			at += len(piece)
		}
		for range r.IntN(30) { // again, at other boundaries
			from := r.IntN(len(text))
			piece := text[from:min(len(text), from+1+r.IntN(60))]
			if r.IntN(3) == 0 {
				piece = randomText(r, "xyz", len(piece))
			}
			segments = append(segments, segment{start + uint32(from), piece})
		}
		// Some stay near their place, some do not.
		for range len(segments) {
			i := r.IntN(len(segments))
			j := min(len(segments)-1, i+r.IntN(1+r.IntN(20)))
			segments[i], segments[j] = segments[j], segments[i]
		}
		m := model{start: start, bytes: make(map[uint32]byte)}
		tested, b := reassembler{next: start}, budget{limit: 1 << 30}
		for i, s := range segments {
			want := m.add(s.sequence, s.data)
			got, kept := tested.add(s.sequence, bytes.Clone(s.data), &b)
			if !kept || !bytes.Equal(got, want) {
				t.Fatalf("seed %d, segment %d: %q ready, want %q", seed, i, got, want)
			}
			tested.consistent(t, &b)
		}
		if tested.next != start+uint32(len(text)) || len(tested.early) > 0 || b.used.Load() != 0 {
			t.Fatalf("seed %d: %d bytes are not ready, %d early segments are left", seed, start+uint32(len(text))-tested.next, len(tested.early))
		}
	}
}

func TestReassemblyIsBounded(t *testing.T) {
	b := budget{limit: 1 << 20}
	r := reassembler{}
	limited := 0
	for i := range uint32(20000) {
		_, kept := r.add(2+2*i, []byte{1}, &b)
		if !kept {
			limited++
		}
	}
	r.consistent(t, &b)
	if limited != 20000-maxPieces {
		t.Errorf("%d of 20000 pieces were not kept", limited)
	}
	large := make([]byte, 60000)
	for i := range uint32(100) {
		r.add(100000+i*60000, large, &b)
	}
	if b.used.Load() > b.limit {
		t.Errorf("%d bytes are used of %d", b.used.Load(), b.limit)
	}
	r.release(&b)
	if b.used.Load() != 0 || r.held != 0 {
		t.Errorf("%d bytes are left", b.used.Load())
	}
	if _, kept := r.add(maxAhead+1000, []byte{1}, &b); kept {
		t.Error("a byte that no window reaches is kept")
	}
}

func TestReassemblerSkips(t *testing.T) {
	b := budget{limit: 1 << 20}
	r := reassembler{next: 0xffff_fffe}
	r.add(2, []byte("cde"), &b)
	r.add(7, []byte("hij"), &b)
	r.skip(3, &b) // in the middle of what is kept
	if got, _ := r.add(5, []byte("fg"), &b); string(got) != "defghij" {
		t.Errorf("%q is ready", got)
	}
	if b.used.Load() != 0 {
		t.Errorf("%d bytes are left", b.used.Load())
	}
}
