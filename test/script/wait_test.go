package script_test

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waitUntilScript is a program that scripts find as wait-until: it runs a command again and
// again until that succeeds, for about a minute.
const waitUntilScript = `#!/bin/sh
n=0
until "$@" 2>/dev/null; do
	n=$((n + 1))
	if [ $n -gt 1200 ]; then
		echo "gave up waiting until: $*" >&2
		exit 1
	fi
	sleep 0.05
done
`

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
