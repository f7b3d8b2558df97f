package data

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/result"
)

// WriteComparison writes the comparison itself.
func WriteComparison(w io.Writer, c *result.Comparison) error { return write(w, c, "the comparison") }

// Write writes the result itself. Values that are not finite, which JSON cannot carry, are left
// out with a note.
func Write(w io.Writer, r *result.Result) error { return write(w, report.OnlyFinite(r), "result") }

// WriteIndex writes the index itself.
func WriteIndex(w io.Writer, x *result.Index) error { return write(w, x, "the index") }

// write writes a document indented, in the order of its fields and with the keys of maps sorted,
// so that equal documents are equal bytes.
func write(w io.Writer, document any, what string) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // sentences stay readable; nothing puts this file into a page
	if err := e.Encode(document); err != nil {
		return fmt.Errorf("write %s as JSON: %w", what, err)
	}
	return nil
}
