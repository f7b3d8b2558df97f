// Package testutil holds what tests of several packages share.
package testutil

import (
	"os"
	"runtime/debug"
	"testing"
)

// NoSkipEnv makes every unmet need a failure: continuous integration installs
// what tests need, and must notice when an install step is missing.
const NoSkipEnv = "HOPBENCH_TEST_NO_SKIP"

// longEnv makes tests that repeat themselves do so at length: kill loops,
// simulations, in targets of their own.
const longEnv = "HOPBENCH_TEST_LONG"

// AtLength says whether tests are run at length.
func AtLength() bool { return os.Getenv(longEnv) == "1" }

// Repeat is how often a test repeats itself: usually, or where it is run at length.
func Repeat(usually, atLength int) int {
	if AtLength() {
		return atLength
	}
	return usually
}

// SeldomCollect is for tests that allocate much and keep little: with more room between
// collections of garbage they take two thirds of the CPU time.
func SeldomCollect() { debug.SetGCPercent(400) }

// Longer makes a measurement over its time, then over 4 and 16 times that while
// something is lacking: what a busy machine does not bring in a short time, it
// brings in a longer one. Without all of it t ends.
func Longer(t testing.TB, measure func(factor float64) (lacking string)) {
	t.Helper()
	for _, factor := range []float64{1, 4, 16} {
		lacking := measure(factor)
		if lacking == "" {
			return
		}
		t.Logf("in %v times the usual time: %s", factor, lacking)
	}
	t.FailNow()
}

// OK ends t if there is an error.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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

// Always gives a value each time that it is asked for.
func Always[T any](value T) func() (T, error) { return func() (T, error) { return value, nil } }
