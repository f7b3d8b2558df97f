package switching

import (
	"maps"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A journal of anybody's is read or refused, and what was read is written alike.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"format":"hopbench.found/1","values":{"idps":"off"}}`))
	f.Add([]byte(`{"format":"hopbench.found/1","values":null}`))
	f.Add([]byte("\xff"))
	file := f.TempDir() + "/found"
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := decodeJournal(text)
		if err != nil {
			return
		}
		testutil.OK(t, writeJournal(file, values))
		again, err := readJournal(file)
		if err != nil || !maps.Equal(values, again) {
			t.Errorf("%q is read again as %q: %v", values, again, err)
		}
		testutil.OK(t, os.Remove(file))
	})
}
