package thread

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A short slice changes nothing else of a thread, and ends.
func TestShortSlice(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	read := func() unix.SchedAttr {
		t.Helper()
		a, err := unix.SchedGetAttr(0, 0)
		testutil.OK(t, err)
		return *a
	}
	before := read()
	restore, again := ShortSlice(), ShortSlice()
	again() // which had nothing to shorten, and nothing to restore
	want := before
	if before.Runtime > 0 { // Linux before 6.12 knows no slice of a thread
		want.Runtime = uint64(shortSlice)
	}
	if got := read(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	restore()
	if got := read(); got != before {
		t.Errorf("afterwards %+v, want %+v", got, before)
	}
}
