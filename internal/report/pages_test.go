package report_test

import (
	"bytes"
	"testing"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func htmlText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, html.Write(&b, r))
	return b.Bytes()
}
