// Package typeset fits text to lines and columns, and makes the text of strangers
// harmless to print.
package typeset

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/hopbench/hopbench/internal/words"
)

// Lines cleans a list of sentences and drops empty ones.
func Lines(in []string) []string {
	var out []string
	for _, s := range in {
		if s = Sentence(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Flush writes text in one go and names it in an error.
func Flush(w io.Writer, text, what string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// Clean makes a text from outside harmless to print: invalid UTF-8, noncharacters (which
// XML has no way to write), control characters and the invisible characters that reorder
// text become U+FFFD.
// Newlines and tabs stay when keepLines is set, and are spaces otherwise.
func Clean(s string, keepLines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			if keepLines {
				return r
			}
			return ' '
		case r == '\r':
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), BidiControl(r), unicode.Is(unicode.Noncharacter_Code_Point, r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// Line is a text as one line without surrounding space.
func Line(s string) string {
	return strings.TrimSpace(Clean(s, false))
}

// unitBreak finds the space between a number and its unit.
var unitBreak = regexp.MustCompile(`([0-9]) (%|[GMTk]?bit/s|[GMk]?B|[mµnp]?s|[kM]|blocks?|flows?)([^\pL\pN]|$)`)

// Sentence is a text as one line in which no number parts from its unit.
func Sentence(s string) string {
	return unitBreak.ReplaceAllString(Line(s), "$1"+words.NBSP+"$2$3")
}

// UpperFirst starts a sentence with a capital.
func UpperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || r == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// BidiControl reports the explicit directional formatting characters of
// Unicode's UAX #9, which can make a text read other than it is.
func BidiControl(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// runeColumns is the number of terminal columns that r takes (UAX #11).
func runeColumns(r rune) int {
	if r == 0x200d || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Columns is the number of terminal columns that s takes.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// Pad fills s with spaces to n columns.
func Pad(s string, n int) string {
	if missing := n - Columns(s); missing > 0 {
		return s + strings.Repeat(" ", missing)
	}
	return s
}

// prefix is the longest start of s that fits n columns.
func prefix(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > n {
			return s[:i]
		}
	}
	return s
}

// Shorten cuts s to n columns, the last an ellipsis.
func Shorten(s string, n int) string {
	if Columns(s) <= n {
		return s
	}
	return prefix(s, n-1) + "…"
}

// Wrap breaks s at spaces into lines of at most n columns; a word longer than
// a line is broken inside.
func Wrap(s string, n int) []string {
	n = max(n, 8)
	var lines []string
	current := ""
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
		for Columns(word) > n {
			if current != "" {
				lines, current = append(lines, current), ""
			}
			head := prefix(word, n) // never empty: n is at least 8
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case current == "":
			current = word
		case Columns(current)+1+Columns(word) <= n:
			current += " " + word
		default:
			lines, current = append(lines, current), word
		}
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}

// Cell is a text as one line that a spreadsheet does not run as a formula: one that
// starts like a formula gets an apostrophe before it.
func Cell(s string) string {
	s = Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
