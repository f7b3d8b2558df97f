package script_test

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waitUntil polls a condition that another process makes true.
func waitUntil(ts *testscript.TestScript, what string, done func() bool) {
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("gave up waiting until %s", what)
		}
	}
}
