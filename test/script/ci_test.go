package script_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// The script of docs/ci.md passes where nothing is worse, fails where a comparison cannot
// show it, with the status of compare, and tells a broken measurement apart.
func TestGateOfPipeline(t *testing.T) {
	ok, err := have("lab")
	testutil.Need(t, ok && err == nil, fmt.Sprintf("a machine on which labs can be made (%v)", err))
	page, err := os.ReadFile("../../docs/ci.md")
	testutil.OK(t, err)
	_, script, found := strings.Cut(string(page), "```sh\n")
	script, _, closed := strings.Cut(script, "```")
	if !found || !closed {
		t.Fatal("docs/ci.md has no script")
	}
	folder := t.TempDir()
	bin := filepath.Join(folder, "bin")
	testutil.OK(t, os.Mkdir(bin, 0o755))
	program, err := filepath.Abs(build(t))
	testutil.OK(t, err)
	testutil.OK(t, os.Symlink(program, filepath.Join(bin, "hopbench")))
	testutil.OK(t, os.WriteFile(filepath.Join(folder, "gate.sh"), []byte(script), 0o644))
	gate := func(failOn string, args ...string) (int, string) {
		c := exec.Command("sh", append([]string{"gate.sh"}, args...)...)
		c.Dir = folder
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FAIL_ON="+failOn, "RUN_FLAGS=--blocks 1 -t 0.2")
		text, err := c.CombinedOutput()
		var status *exec.ExitError
		if err != nil && !errors.As(err, &status) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), string(text)
	}
	reference := exec.Command(program, "run", "aa-null", "--blocks", "1", "-t", "0.2", "--out", filepath.Join(folder, "reference"))
	if text, err := reference.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		failOn string
		args   []string
		status int
	}{
		{"cost", []string{"aa-null", "reference"}, 0},
		{"not-shown-equal", []string{"aa-null", "reference"}, 3},
		{"cost", []string{"aa-null", "nowhere"}, 2},
		{"cost", []string{"no-such-experiment", "reference"}, 2},
	} {
		status, text := gate(c.failOn, c.args...)
		if status != c.status {
			t.Errorf("gate.sh %s, failing on %s: status %d, want %d\n%s", strings.Join(c.args, " "), c.failOn, status, c.status, text)
		}
		if _, err := os.Stat(filepath.Join(folder, "gate", "comparison.md")); c.status == 3 && err != nil {
			t.Errorf("nothing was kept: %v", err)
		}
	}
}
