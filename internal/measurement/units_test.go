package measurement

import (
	"testing"
	"time"
)

// A duration in seconds is converted back to itself.
func TestSecondsOfADuration(t *testing.T) {
	for n := range 20_000 {
		if d := time.Duration(n) * time.Millisecond; SecondsOf(d).Duration() != d {
			t.Fatalf("%v became %v", d, SecondsOf(d).Duration())
		}
	}
}
