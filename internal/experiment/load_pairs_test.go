package experiment

import (
	"os"
	"strings"
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

// A search by several pairs, which bad files have, never gave a rate; what other tests of a
// stored run gave can still be read.
func TestStoredSearchOfPairs(t *testing.T) {
	text, err := os.ReadFile("testdata/good/pairs.yaml")
	testutil.OK(t, err)
	text = []byte(strings.Replace(string(text), "kind: tcp, flows: 64", "kind: udp, loss_bound: 1%", 1))
	if _, err := Load("pairs.yaml", text); err == nil {
		t.Error("it is accepted")
	}
	_, err = LoadStored("pairs.yaml", text)
	testutil.OK(t, err)
}
