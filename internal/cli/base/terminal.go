package base

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/hopbench/hopbench/internal/printable"
)

// IsTerminal says whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := FileOf(stream)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// TakesEscapes says whether a stream is a terminal that obeys escape sequences. One that is called
// dumb, as the shell of an editor, shows them.
func TakesEscapes(stream any) bool { return IsTerminal(stream) && os.Getenv("TERM") != "dumb" }

// Over is a writer in front of another.
type Over interface{ Under() io.Writer }

// FileOf is the file that a stream writes to.
func FileOf(stream any) (*os.File, bool) {
	for over, ok := stream.(Over); ok; over, ok = stream.(Over) {
		stream = over.Under()
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// TerminalWidth is the number of columns of w, 100 when it is no terminal.
func TerminalWidth(w io.Writer) int {
	if f, ok := FileOf(w); ok && IsTerminal(w) {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 100
}

// maxShown bounds, in characters, a text that somebody else wrote.
const maxShown = 1000

// Shown is a line that may come from a file of a stranger, a peer or a lab,
// made safe for a terminal.
func Shown(text string) string { return printable.Line(text, maxShown) }

// ShownLines is Shown of a text of several lines. What follows the first begins
// with indent, so that a line of somebody else's does not look like one of ours.
func ShownLines(text, indent string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = Shown(lines[i])
	}
	return strings.Join(lines, "\n"+indent)
}
