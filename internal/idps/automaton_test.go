package idps

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// occurrence is where a pattern ends.
type occurrence struct {
	pattern int32
	end     int
}

func occurrences(a *automaton, state uint32, pieces ...[]byte) map[occurrence]bool {
	all := make(map[occurrence]bool)
	begin := 0
	for _, data := range pieces {
		for at := 0; at < len(data); {
			next, n, found := a.search(state, data[at:])
			state, at = next, at+n
			for _, p := range found {
				all[occurrence{p, begin + at}] = true
			}
		}
		begin += len(data)
	}
	return all
}

// few letters, so that patterns overlap, hold each other and come often.
func randomText(r *rand.Rand, letters string, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return text
}

// cut divides data at random places.
func cut(r *rand.Rand, data []byte, longest int) [][]byte {
	var pieces [][]byte
	for len(data) > 0 {
		n := min(1+r.IntN(longest), len(data))
		pieces = append(pieces, data[:n])
		data = data[n:]
	}
	return pieces
}

func TestAutomatonFindsWhatIsThere(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		letters := []string{"ab", "aBc\x00", "abcdefghijklmnopqrstuvwxyzÄ", "\x00\xff\x7f\x80"}[seed%4]
		var patterns [][]byte
		for range 1 + r.IntN(60) {
			patterns = append(patterns, randomText(r, letters, 1+r.IntN(6)))
		}
		a, err := newAutomaton(patterns)
		testutil.OK(t, err)
		text := randomText(r, letters, 400)
		want := make(map[occurrence]bool)
		for i, p := range patterns {
			for at := 0; at+len(p) <= len(text); at++ {
				if bytes.Equal(folded(text[at:at+len(p)]), folded(p)) {
					want[occurrence{int32(i), at + len(p)}] = true
				}
			}
		}
		if got := occurrences(a, 0, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: found %d occurrences, there are %d", seed, len(got), len(want))
		}
		if got := occurrences(a, 0, cut(r, text, 5)...); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: in pieces, found %d occurrences, there are %d", seed, len(got), len(want))
		}
	}
}

func TestAutomatonOfNothing(t *testing.T) {
	a, err := newAutomaton(nil)
	testutil.OK(t, err)
	if got := occurrences(a, 0, []byte("anything")); len(got) > 0 {
		t.Error(got)
	}
	if _, err := newAutomaton([][]byte{{}}); err == nil {
		t.Error("an empty pattern is everywhere")
	}
}

func TestAutomatonIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var patterns [][]byte
	for range 2000 {
		patterns = append(patterns, randomText(r, string(all), maxContent))
	}
	if _, err := newAutomaton(patterns); err == nil {
		t.Error("a table of any size is made")
	} else {
		t.Log(err)
	}
}

func TestIndexFold(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		letters := []string{"aAb", "aAbBcC.", ".,-\x80\xe4", "zZ{[@`"}[seed%4]
		data, pattern := randomText(r, letters, r.IntN(40)), folded(randomText(r, letters, 1+r.IntN(4)))
		if got, want := indexFold(data, pattern), bytes.Index(folded(data), pattern); got != want {
			t.Fatalf("%q in %q: at %d, want %d", pattern, data, got, want)
		}
	}
}
