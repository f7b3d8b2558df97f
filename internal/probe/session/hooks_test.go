package session

import (
	"testing"
)

func TestWithin(t *testing.T) {
	rtts, lost := Within([]Sample{{Intended: 0, RTT: 1}, {Intended: 10, RTT: 2}, {Intended: 15, RTT: -1}, {Intended: 19, RTT: 3}, {Intended: 20, RTT: 4}}, 10, 20)
	if len(rtts) != 2 || rtts[0] != 2 || rtts[1] != 3 || lost != 1 {
		t.Errorf("%v, %d lost", rtts, lost)
	}
}
