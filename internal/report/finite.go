package report

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// OnlyFinite returns r without its values that are no finite numbers, and with
// a note that counts them. r itself is never changed.
func OnlyFinite(r *result.Result) *result.Result {
	if r == nil {
		return &result.Result{Format: result.Format}
	}
	out, n := measurement.OnlyFinite(*r)
	if n == 0 {
		return r
	}
	out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)], result.Note{Code: result.NoteNotFinite, Count: n})
	return &out
}
