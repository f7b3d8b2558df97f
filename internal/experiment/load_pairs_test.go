package experiment

import (
	"os"
	"testing"
)

func TestPairs(t *testing.T) {
	text, err := os.ReadFile("testdata/good/pairs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load("pairs.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if scaled := e.Scaled(); e.Pairs != 30 || scaled.Pairs != 30 {
		t.Errorf("%d pairs, %d scaled", e.Pairs, scaled.Pairs)
	}
}
