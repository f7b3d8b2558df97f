// Package browsertest is a headless Chromium for tests.
package browsertest

import (
	"os/exec"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Program finds Chromium, or skips.
func Program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testutil.Need(t, false, "chromium in PATH (Debian package chromium) to look at the page in a browser")
	return ""
}
