package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/spelling"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`              // counted from 1
	Column  int    `json:"column"`            // in characters, counted from 1
	Message string `json:"message"`           // what is wrong
	Remedy  string `json:"remedy,omitempty"`  // what would be right, may be empty
	Snippet string `json:"snippet,omitempty"` // the line itself and a caret beneath the column, may be empty
}

func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", printable.Line(p.File, 1000), p.Line, p.Column, p.Message)
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	if p.Snippet != "" {
		text += "\n" + p.Snippet
	}
	return text
}

// Errors is everything that is wrong with a file, in the order of
// the file.
type Errors []Problem

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, p := range e {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// maxProblems bounds what is reported of a file that is wrong all over.
const maxProblems = 50

// enough reports whether so much is wrong that looking for more is a waste.
func (p *problems) enough() bool { return len(p.found) > 20*maxProblems }

// problems collects what is wrong with one file.
type problems struct {
	file  string
	lines []string
	found Errors
}

func newProblems(file string, text []byte) *problems {
	return &problems{file: file, lines: splitLines(text)}
}

// splitLines splits text where YAML counts a new line: besides \n that is \r,
// next line, line separator and paragraph separator. A byte-order mark is no
// character of the first line.
func splitLines(text []byte) []string {
	whole := strings.TrimPrefix(string(text), "\ufeff")
	whole = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(whole)
	return strings.Split(whole, "\n")
}

func (p *problems) add(line, column int, message, remedy string) {
	line, column = max(line, 1), max(column, 1)
	if last := len(p.lines); last > 0 && line > last {
		// YAML counts the end of an unfinished last line as one more line.
		line, column = last, utf8.RuneCountInString(p.lines[last-1])+1
	}
	p.found = append(p.found, Problem{File: p.file, Line: line, Column: column, Message: message, Remedy: remedy})
}

// Err is nil when nothing was found.
func (p *problems) Err() error {
	if len(p.found) == 0 {
		return nil
	}
	slices.SortStableFunc(p.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	more := len(p.found) - maxProblems
	for i := range p.found[:min(len(p.found), maxProblems)] { // only now: a line may be as long as a file
		p.found[i].Snippet = p.snippet(p.found[i].Line, p.found[i].Column)
	}
	if more > 0 {
		last := p.found[maxProblems]
		p.found = append(p.found[:maxProblems:maxProblems], Problem{
			File: p.file, Line: last.Line, Column: last.Column,
			Message: fmt.Sprintf("and at least %d more mistakes", more),
		})
	}
	return p.found
}

// snippet shows the line with a caret beneath the column. A long line is cut
// to what surrounds the column. What a terminal would act on is replaced.
func (p *problems) snippet(line, column int) string {
	if line > len(p.lines) {
		return ""
	}
	const before, longest = 60, 100
	text := []rune(strings.ToValidUTF8(p.lines[line-1], string(utf8.RuneError)))
	if strings.TrimSpace(string(text)) == "" || column > len(text)+1 {
		return ""
	}
	start := 0
	if len(text) > longest {
		start = max(0, column-1-before)
	}
	end := min(len(text), start+longest)
	for i := start; i < end; i++ {
		if text[i] == '\t' {
			text[i] = ' '
		}
		if !showable(text[i]) {
			text[i] = utf8.RuneError
		}
	}
	return "  " + string(text[start:end]) + "\n" + strings.Repeat(" ", 2+column-1-start) + "^"
}

// OneOf lists words for a remedy: "link or router".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// mostListed is how many words a message lists: of more, a reader finds the right one in the
// JSON Schema, which also says what each means.
const mostListed = 20

// tooMany is what is said of more.
const tooMany = "the JSON Schema of such files lists all that can stand here"

// Instead suggests a word in place of a wrong one.
func Instead(wrong string, candidates []string) string {
	if right := spelling.Nearest(wrong, candidates); right != "" {
		return fmt.Sprintf("did you mean %q?", right)
	}
	switch {
	case len(candidates) == 0:
		return ""
	case len(candidates) > mostListed:
		return tooMany
	}
	return "write " + OneOf(candidates)
}

// article puts the right article before a noun.
func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// Clip shortens text that is quoted in a message.
func Clip(text string) string { return printable.Cut(text, 60) }
