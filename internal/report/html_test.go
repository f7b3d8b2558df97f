package report

import (
	"bytes"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

func htmlText(t testing.TB, r *measurement.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHTMLSize writes the page where HOPBENCH_REPORT_OUT says, to be looked
// at, and holds its size under the target.
func TestHTMLSize(t *testing.T) {
	page := htmlText(t, fixture(t, 10))
	if out := os.Getenv("HOPBENCH_REPORT_OUT"); out != "" {
		if err := os.WriteFile(out, page, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 3 << 20
	t.Logf("%d bytes", len(page))
	if len(page) > limit {
		t.Errorf("the page has %d bytes, more than %d", len(page), limit)
	}
}
