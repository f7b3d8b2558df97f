package report_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.SeldomCollect()
	goleak.VerifyTestMain(m)
}
