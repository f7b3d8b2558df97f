package idps

import (
	"errors"
	"fmt"
)

// automaton finds every occurrence of many patterns in one pass, without regard
// to case (Aho and Corasick: Efficient String Matching, CACM 18(6), 1975, with
// its table of next moves, section 6). Where it stands is one number, so a
// search goes on from one piece of a stream to the next.
//
// A state is the index of its row in the table. Rows are as wide as there are
// classes of bytes that the patterns tell apart, and the states at which a
// pattern ends come last, so that one comparison finds them.
type automaton struct {
	class [256]uint8
	table []uint32
	// ends is the first state at which patterns end; found are those patterns
	// of each state from there on, indexed by (state - ends) / width.
	ends  uint32
	width uint32
	found [][]int32
}

// maxTableEntries bounds the table to 128 MiB.
const maxTableEntries = 32 << 20

func fold(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// folded is a copy in lower case; only ASCII has case here.
func folded(b []byte) []byte {
	lower := make([]byte, len(b))
	for i := range b {
		lower[i] = fold(b[i])
	}
	return lower
}

// newAutomaton makes one for patterns, none of which is empty. They are told by
// their index.
func newAutomaton(patterns [][]byte) (*automaton, error) {
	a := &automaton{}
	a.classify(patterns)
	t := newTrie(int(a.width))
	for i, p := range patterns {
		if err := t.add(a, p, int32(i)); err != nil {
			return nil, err
		}
	}
	t.complete()
	a.arrange(t)
	return a, nil
}

// classify numbers the bytes that patterns hold; all others are class 0.
func (a *automaton) classify(patterns [][]byte) {
	a.width = 1
	for _, p := range patterns {
		for _, b := range p {
			if b = fold(b); a.class[b] == 0 && a.width < 256 {
				a.class[b] = uint8(a.width)
				a.width++
			}
		}
	}
	for b := 'A'; b <= 'Z'; b++ {
		a.class[b] = a.class[fold(byte(b))]
	}
}

// trie is an automaton in the making: states are counted from 0.
type trie struct {
	width int
	next  []int32 // by state and class; 0 is the root, or none yet
	fail  []int32
	found [][]int32
	order []int32 // states by depth
}

func newTrie(width int) *trie {
	return &trie{width: width, next: make([]int32, width), fail: make([]int32, 1), found: make([][]int32, 1)}
}

func (t *trie) add(a *automaton, pattern []byte, index int32) error {
	if len(pattern) == 0 {
		return errors.New("an empty pattern")
	}
	state := int32(0)
	for _, b := range pattern {
		at := int(state)*t.width + int(a.class[b])
		if t.next[at] == 0 {
			if len(t.next)+t.width > maxTableEntries {
				return fmt.Errorf("the contents of the rules need a table of more than %d MiB; leave some rules out", maxTableEntries*4>>20)
			}
			t.next[at] = int32(len(t.fail))
			t.next = append(t.next, make([]int32, t.width)...)
			t.fail = append(t.fail, 0)
			t.found = append(t.found, nil)
		}
		state = t.next[at]
	}
	t.found[state] = append(t.found[state], index)
	return nil
}

// complete turns the trie into an automaton: every state has a next one for
// every class, and reports the patterns of its suffixes too.
func (t *trie) complete() {
	for c := range t.width {
		if s := t.next[c]; s != 0 {
			t.order = append(t.order, s)
		}
	}
	for i := 0; i < len(t.order); i++ {
		state := t.order[i]
		fail := t.fail[state]
		if shorter := t.found[fail]; len(shorter) > 0 {
			t.found[state] = append(t.found[state], shorter...)
		}
		for c := range t.width {
			at, fallback := int(state)*t.width+c, t.next[int(fail)*t.width+c]
			if s := t.next[at]; s != 0 {
				t.fail[s] = fallback
				t.order = append(t.order, s)
			} else {
				t.next[at] = fallback
			}
		}
	}
}

// arrange lays the states out: first those at which nothing ends, nearest to
// the root first, since that is where a search spends its time.
func (a *automaton) arrange(t *trie) {
	order := append([]int32{0}, t.order...)
	row := make([]uint32, len(order))
	at := uint32(0)
	for _, ending := range []bool{false, true} {
		if ending {
			a.ends = at
		}
		for _, s := range order {
			if (len(t.found[s]) > 0) != ending {
				continue
			}
			row[s] = at
			at += a.width
			if ending {
				a.found = append(a.found, t.found[s])
			}
		}
	}
	a.table = make([]uint32, len(t.next))
	for s := range order {
		for c := range t.width {
			a.table[int(row[s])+c] = row[t.next[s*t.width+c]]
		}
	}
}

// search goes on at state with data and stops behind the first byte at which a
// pattern ends: n is how many bytes it read, and found the patterns, nil when
// none ends within data.
func (a *automaton) search(state uint32, data []byte) (next uint32, n int, found []int32) {
	table, ends := a.table, a.ends
	for i, b := range data {
		state = table[state+uint32(a.class[b])]
		if state >= ends {
			return state, i + 1, a.found[(state-ends)/a.width]
		}
	}
	return state, len(data), nil
}
