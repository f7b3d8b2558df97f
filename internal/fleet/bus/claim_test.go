package bus

import (
	"bytes"
	"testing"
)

// However questions and decisions of two that claim a fleet are interleaved, one of them gets it,
// if at least one of the two hears of the other.
func TestClaims(t *testing.T) {
	number := func(n byte) []byte { return append(make([]byte, claimID-1), n) }
	low := func() *claim { return &claim{id: number(1), who: []byte("process 1")} }
	high := func() *claim { return &claim{id: number(2), who: []byte("process 2")} }

	l, h := low(), high()
	if got := h.answer(l.id); !bytes.Equal(got, h.id) || h.take() {
		t.Error("the higher number heard of the lower, and gets the fleet")
	}
	if got := l.answer(h.id); !bytes.Equal(got, l.id) || !l.take() {
		t.Error("the lower number does not get the fleet")
	}
	h = high()
	if !h.take() {
		t.Error("one that heard of nobody does not get the fleet")
	}
	if got := h.answer(number(1)); string(got) != "process 2" {
		t.Errorf("who claims a fleet that is held is answered %q", got)
	}
	for _, question := range [][]byte{nil, []byte("0123456789abcdef")} {
		if got := low().answer(question); string(got) != "process 1" {
			t.Errorf("who asks who has the fleet is answered %q", got)
		}
	}
	l = low()
	if got := l.answer(l.id); got != nil || !l.take() {
		t.Errorf("a question of its own is answered %q", got)
	}
}
