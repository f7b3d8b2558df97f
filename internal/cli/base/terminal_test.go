//go:build unix

package base

import (
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A terminal without escape sequences, which a character device stands for here, is sent none.
func TestDumbTerminal(t *testing.T) {
	terminal, err := os.Open("/dev/zero")
	testutil.OK(t, err)
	defer terminal.Close()
	for name, want := range map[string]bool{"dumb": false, "xterm-256color": true, "": true} {
		t.Setenv("TERM", name)
		if got := TakesEscapes(NewOutput(terminal)); got != want {
			t.Errorf("TERM=%s: %v", name, got)
		}
	}
}
