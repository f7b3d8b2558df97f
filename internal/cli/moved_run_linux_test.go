package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A run whose folder is moved or removed writes no trial where nobody finds it, and does not say
// that it can be continued or reported there. Put back, it goes on.
func TestFolderOfARunIsMoved(t *testing.T) {
	dir := begun(t, nil)
	st, err := store.Resume(dir)
	testutil.OK(t, err)
	defer st.Close()
	testutil.OK(t, st.Put(t.Context(), measurement.Trial{ID: "b02", Block: 2, Order: 2}))
	testutil.OK(t, os.Rename(dir, dir+"-moved"))
	next := measurement.Trial{ID: "b03", Block: 3, Order: 3}
	lost := st.Put(t.Context(), next)
	if lost == nil || !strings.Contains(lost.Error(), "Put it back where it was") {
		t.Errorf("store: %v", lost)
	}
	for _, why := range []error{lost, errors.Join(context.Canceled, lost)} {
		if got := interrupted(t.Context(), st, 4, 2, runFlags{}, why).Error(); got != "stopped after 2 of 4 trials\n"+lost.Error() {
			t.Errorf("interrupted: %s", got)
		}
	}
	if r, err := runs.Report(t.Context(), st, nil, nil); r == nil || !errors.Is(err, runs.ErrUnwritten) || strings.Contains(err.Error(), "later") {
		t.Errorf("report: %v", err)
	}
	testutil.OK(t, os.Rename(dir+"-moved", dir))
	testutil.OK(t, st.Put(t.Context(), next))
}
