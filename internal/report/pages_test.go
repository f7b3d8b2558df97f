package report_test

import (
	"bytes"
	"testing"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
)

func htmlText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := html.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func BenchmarkHTML(b *testing.B) {
	r := reporttest.Run(b, 10)
	for b.Loop() {
		var w bytes.Buffer
		if err := html.Write(&w, r); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(w.Len()), "bytes")
	}
}
