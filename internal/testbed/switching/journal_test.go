package switching

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A journal of anybody's is read or refused, and what was read is written alike.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"format":"hopbench.found/2","values":{"idps":"off"},"may_act_until":{"idps":"2026-11-23T10:00:00Z"}}`))
	f.Add([]byte(`{"format":"hopbench.found/2","values":null}`))
	f.Add([]byte("\xff"))
	file := f.TempDir() + "/found"
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := decodeJournal(text)
		if err != nil {
			return
		}
		testutil.OK(t, writeJournal(file, j))
		again, err := readJournal(file)
		if err != nil || !maps.Equal(j.Values, again.Values) || !maps.EqualFunc(j.MayActUntil, again.MayActUntil, time.Time.Equal) {
			t.Errorf("%q is read again as %q: %v", j, again, err)
		}
		testutil.OK(t, os.Remove(file))
	})
}
