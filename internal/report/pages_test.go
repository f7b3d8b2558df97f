package report_test

import (
	"bytes"
	"testing"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func htmlText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, html.Write(&b, r))
	return b.Bytes()
}

func BenchmarkHTML(b *testing.B) {
	r := reporttest.Run(b, 10)
	for b.Loop() {
		var w bytes.Buffer
		testutil.OK(b, html.Write(&w, r))
		b.ReportMetric(float64(w.Len()), "bytes")
	}
}
