package reach

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// FuzzDialog: whatever a far host says, the dialog with it ends, in a sentence.
func FuzzDialog(f *testing.F) {
	for _, said := range []string{
		"", "welcome\n", "hopbench: here Linux x86_64 gzip\n", "hopbench: here Windows_NT AMD64 plain\n",
		"motd\r\n$ hopbench: here Linux aarch64 plain\nhopbench: no full /tmp\nhopbench: none\n",
		"hopbench: here Linux x86_64 gzip\nhopbench: go\nhopbench: run\n\xf0hopbnc\x01",
		"hopbench: here Linux x86_64 gzip\nhopbench: go\nhopbench: failed write /tmp\x1b[2J\n",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		d := &dialog{in: bufio.NewReader(bytes.NewReader(said)), out: io.Discard}
		err := d.start(func(goos, goarch string) (*program, error) {
			return &program{path: "hopbench", plain: []byte("x"), packed: []byte("y"), digest: "z"}, nil
		})
		if err == nil {
			return
		}
		wantError(t, err)
		wantError(t, explainSSH(inventory.Reach{Host: "h"}, string(said), d.babble, err))
	})
}

// Of the programs next to this one for another system the slim one is copied.
func TestProgramsBesideThisOne(t *testing.T) {
	self, err := os.Executable()
	testutil.OK(t, err)
	if _, err := findProgram(inventory.Endpoint{}, "plan9", "mips"); err == nil || !strings.Contains(err.Error(), "hopbench-agent-plan9-mips") {
		t.Errorf("without any: %v", err)
	}
	for _, name := range []string{"hopbench-plan9-mips", "hopbench-agent-plan9-mips"} {
		beside := filepath.Join(filepath.Dir(self), name)
		testutil.OK(t, os.WriteFile(beside, []byte(name), 0o700))
		t.Cleanup(func() { testutil.OK(t, os.Remove(beside)) })
		p, err := findProgram(inventory.Endpoint{}, "plan9", "mips")
		testutil.OK(t, err)
		if string(p.plain) != name {
			t.Errorf("%s is copied in place of %s", p.plain, name)
		}
	}
}

// Login shells of all kinds pass the script on as it is, and the tools of busybox do
// for it. Ssh is a shell here.
func TestScript(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "Linux, whose programs can be removed while they run")
	for _, shell := range []string{"bash", "tcsh", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			testutil.Need(t, err == nil, shell)
			dir, home := t.TempDir(), t.TempDir()
			search := os.Getenv("PATH")
			if shell == "busybox" {
				out, err := exec.Command(path, "--install", "-s", dir).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				search, path = dir, filepath.Join(dir, "ash")
			}
			t.Setenv("PATH", search)
			t.Setenv("TMPDIR", home)
			// The last argument is the command.
			fake := "#!/bin/sh\nfor command; do :; done\nexec " + path + " -c \"$command\"\n"
			bin := t.TempDir()
			testutil.OK(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(fake), 0o755))
			t.Setenv("PATH", bin+string(os.PathListSeparator)+search)
			c, err := Dial(t.Context(), sshEnd(22), "")
			testutil.OK(t, err)
			works(t, c)
			left, err := os.ReadDir(home)
			if err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
