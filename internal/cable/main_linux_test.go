package cable_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/cable/cabletest"
)

// TestMain runs everything in a user and a network namespace of its own, so that
// no test needs root. Where that is not possible the tests that need it say so.
func TestMain(m *testing.M) {
	if !cabletest.Inside() && !fuzzing() {
		status, err := cabletest.Reexec()
		if err == nil {
			os.Exit(status)
		}
		fmt.Fprintln(os.Stderr, "no namespaces:", err)
	}
	goleak.VerifyTestMain(m)
}

// fuzzing tells whether this is a fuzzing process, which talks to the go
// command and its workers by inherited descriptors and needs no namespace.
func fuzzing() bool {
	for _, argument := range os.Args[1:] {
		if strings.HasPrefix(argument, "-test.fuzz=") || strings.HasPrefix(argument, "-test.fuzzworker") {
			return true
		}
	}
	return false
}
