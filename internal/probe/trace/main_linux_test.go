package trace

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.Enter()
	goleak.VerifyTestMain(m)
}
