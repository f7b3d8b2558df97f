package experiment

import (
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPairs(t *testing.T) {
	text, err := os.ReadFile("testdata/good/pairs.yaml")
	testutil.OK(t, err)
	e, err := Load("pairs.yaml", text)
	testutil.OK(t, err)
	if scaled := e.Scaled(); e.Pairs != 30 || scaled.Pairs != 30 {
		t.Errorf("%d pairs, %d scaled", e.Pairs, scaled.Pairs)
	}
}
