// Package browsertest is a headless Chromium for tests.
package browsertest

import (
	"bytes"
	"image/png"
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

// Colours counts the colours of every second row of a picture: one that is empty has few.
func Colours(t testing.TB, picture []byte) int {
	t.Helper()
	im, err := png.Decode(bytes.NewReader(picture))
	testutil.OK(t, err)
	seen := map[[3]uint32]bool{}
	for y := im.Bounds().Min.Y; y < im.Bounds().Max.Y; y += 2 {
		for x := im.Bounds().Min.X; x < im.Bounds().Max.X; x++ {
			r, g, b, _ := im.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}
