package cli

import (
	"strings"

	"github.com/hopbench/hopbench/internal/printable"
)

// maxShown bounds, in characters, a text that somebody else wrote.
const maxShown = 1000

// shown is a line that may come from a file of a stranger, a peer or a lab,
// made safe for a terminal.
func shown(text string) string { return printable.Line(text, maxShown) }

// shownLines is shown of a text of several lines. What follows the first begins
// with indent, so that a line of somebody else's does not look like one of ours.
func shownLines(text, indent string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = shown(lines[i])
	}
	return strings.Join(lines, "\n"+indent)
}
