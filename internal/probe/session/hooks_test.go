package session

import (
	"testing"
)

func TestWithin(t *testing.T) {
	rtts, lost, unsent := Within([]Sample{{Intended: 0, RTT: 1}, {Intended: 9, Fate: Lost}, {Intended: 10, RTT: 2}, {Intended: 15, Fate: Lost},
		{Intended: 17, Fate: Unsent}, {Intended: 18, Fate: Unsent}, {Intended: 19, RTT: 3}, {Intended: 20, RTT: 4}}, 10, 20)
	if len(rtts) != 2 || rtts[0] != 2 || rtts[1] != 3 || lost != 1 || unsent != 2 {
		t.Errorf("%v, %d lost, %d unsent", rtts, lost, unsent)
	}
}
