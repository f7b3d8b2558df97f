package typeset

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/words"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{quantity.Number(-0.0001, 2), "0.00"}, {quantity.Number(1.5, 1), "1.5"}, {quantity.Signed(0.0001, 1), "0.0"}, {quantity.Signed(2.25, 2), "+2.25"}, {quantity.Signed(-3, 0), "−3"},
		{quantity.Number(3e12, 0), "3e+12"},
		{Sentence("adds 2.2 ms to it"), "adds 2.2" + words.NBSP + "ms to it"}, {Sentence("2 makes"), "2 makes"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestWrapKeepsWidthAndWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab cdé 東京ü\u0301😀,"))).Draw(t, "text")
		n := rapid.IntRange(8, 40).Draw(t, "width")
		lines := Wrap(text, n)
		for _, l := range lines {
			if Columns(l) > n {
				t.Fatalf("%q takes %d columns, more than %d", l, Columns(l), n)
			}
		}
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := squeeze(strings.Join(lines, "")); got != squeeze(text) {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"abc": 3, "東京": 4, "e\u0301": 1, "µs": 2, "": 0} {
		if got := Columns(s); got != want {
			t.Errorf("columns(%q) = %d, want %d", s, got, want)
		}
	}
	if got := Shorten("東京のルーター", 6); got != "東京…" {
		t.Errorf("shorten = %q", got)
	}
}
