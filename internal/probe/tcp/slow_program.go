package tcp

import (
	"time"
)

// slowness is what a program does after each slowBytes, if it is to be slow: it waits,
// or works.
type slowness struct{ pause, burn time.Duration }

const slowBytes = 64 << 10

// piece is how many of left bytes one call may move.
func (s slowness) piece(left int) int {
	if s == (slowness{}) {
		return left
	}
	return min(left, slowBytes)
}

func (s slowness) rest() {
	if s.burn > 0 {
		for until := time.Now().Add(s.burn); time.Now().Before(until); {
		}
	}
	if s.pause > 0 {
		time.Sleep(s.pause)
	}
}
