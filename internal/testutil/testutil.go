// Package testutil holds what tests of several packages share.
package testutil

import (
	"os"
	"testing"
)

// NoSkipEnv makes every unmet need a failure: continuous integration installs
// what tests need, and must notice when an install step is missing.
const NoSkipEnv = "HOPBENCH_TEST_NO_SKIP"

// Need skips t with reason unless ok. With HOPBENCH_TEST_NO_SKIP=1 in the
// environment it fails instead.
func Need(t testing.TB, ok bool, reason string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv(NoSkipEnv) == "1" {
		t.Fatalf("skips are forbidden (%s=1), and this test needs: %s", NoSkipEnv, reason)
	}
	t.Skipf("needs %s", reason)
}
