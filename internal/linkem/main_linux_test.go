package linkem_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

// TestMain runs everything in a user and a network namespace of its own, so that
// no test needs root. Where that is not possible the tests that need it say so.
func TestMain(m *testing.M) {
	testutil.Enter()
	goleak.VerifyTestMain(m)
}
