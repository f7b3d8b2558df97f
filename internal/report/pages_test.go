package report_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// written is a document as a function writes it.
func written[T any](t testing.TB, write func(io.Writer, T) error, document T) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, write(&b, document))
	return b.Bytes()
}

func htmlText(t testing.TB, r *result.Result) []byte {
	t.Helper()
	return written(t, html.Write, r)
}
