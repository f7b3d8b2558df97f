//go:build unix

package switching_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(coordinatorEnv); dir != "" {
		coordinator(dir)
	}
	goleak.VerifyTestMain(m)
}
