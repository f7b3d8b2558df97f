package testutil

import (
	"strings"
	"testing"
	"unicode"
)

// Hostile is a name that a stranger may have chosen, to do harm to a terminal.
const Hostile = "a\x1b]0;owned\x07\r\nhopbench: all is well\u202e\u009b31m"

// OnlyPrintable holds that nothing of Hostile reaches a terminal.
func OnlyPrintable(t testing.TB, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != '\u00a0' }); i >= 0 {
		t.Errorf("what is no text is printed: %q", text[max(0, i-40):])
	}
	if strings.Contains(text, "\nhopbench: all is well") {
		t.Errorf("a line is forged:\n%s", text)
	}
}
