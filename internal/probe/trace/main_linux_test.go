package trace

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
)

func TestMain(m *testing.M) {
	chaintest.Enter()
	goleak.VerifyTestMain(m)
}
