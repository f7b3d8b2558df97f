package data

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/result"
)

// WriteComparison writes the comparison itself, indented.
func WriteComparison(w io.Writer, c *result.Comparison) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write the comparison as JSON: %w", err)
	}
	return nil
}

// Write writes the result itself, indented, in the order of its fields and
// with the keys of maps sorted, so that equal results are equal bytes. Values
// that are not finite, which JSON cannot carry, are left out with a note.
func Write(w io.Writer, r *result.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // sentences stay readable; nothing puts this file into a page
	if err := e.Encode(report.OnlyFinite(r)); err != nil {
		return fmt.Errorf("write result as JSON: %w", err)
	}
	return nil
}

// WriteIndex writes the index itself, indented.
func WriteIndex(w io.Writer, x *result.Index) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(x); err != nil {
		return fmt.Errorf("write the index as JSON: %w", err)
	}
	return nil
}
