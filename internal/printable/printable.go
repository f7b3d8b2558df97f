// Package printable makes text that somebody else wrote safe to show: a peer's
// error, a result file's title, a name in a listing. What reaches a terminal
// must not move its cursor, set its title or forge a line of a log, and what
// reaches a reader must not run from right to left to look like something else.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is text as one line of at most most runes: every control character, line
// break, invisible format character (of which those that turn the direction of
// text are some, CVE-2021-42574) and byte that is no UTF-8 becomes a space. What
// is longer ends with an ellipsis.
func Line(text string, most int) string {
	return Cut(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), most)
}

// Cut is text of at most most runes; what is longer ends with an ellipsis.
func Cut(text string, most int) string {
	if len(text) <= most { // in bytes, which are at least as many
		return text
	}
	n := 0
	for i := range text {
		if n++; n == most {
			if rest := text[i:]; utf8.RuneCountInString(rest) > 1 {
				return text[:i] + "…"
			}
			break
		}
	}
	return text
}

// ShellWord is text as one word of a POSIX shell, in quotes where it needs them.
func ShellWord(text string) string {
	if text != "" && strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%=,", r))
	}) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
