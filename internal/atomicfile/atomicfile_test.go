package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A limit of open files is not blamed on the disk.
func TestFailedSaysWhy(t *testing.T) {
	for err, want := range map[error]string{syscall.ENOSPC: "disk full", syscall.EROFS: "read-only", syscall.EMFILE: "ulimit -n"} {
		if got := failed("f", &os.PathError{Op: "open", Path: "f", Err: err}).Error(); !strings.Contains(got, want) || want == "ulimit -n" && strings.Contains(got, "disk") {
			t.Error(got)
		}
	}
}

// Several programs may write one report at a time: a run that ends, and
// `hopbench report` at the same time.
func TestFilesAreReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for range 100 {
				if err := Write(path, func(w io.Writer) error {
					_, err := io.WriteString(w, strings.Repeat(fmt.Sprint(writer), 10_000*(writer+1)))
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				text, err := os.ReadFile(path)
				if err != nil || len(text) == 0 {
					t.Errorf("%d bytes, %v", len(text), err)
					return
				}
				if whole := strings.Repeat(string(text[0]), 10_000*(int(text[0]-'0')+1)); string(text) != whole {
					t.Errorf("%d bytes are not what one of them wrote", len(text))
					return
				}
			}
		})
	}
	writers.Wait()
	only(t, dir, "report.html")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o600 != 0o600 || info.Mode().Perm()&^0o644 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What cannot be written leaves what was there, and nothing else.
func TestFilesThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	failing := errors.New("no report today")
	if err := Write(filepath.Join(dir, "report.html"), func(io.Writer) error { return failing }); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
	only(t, dir)
	testutil.OK(t, os.MkdirAll(filepath.Join(dir, "report.md", "x"), 0o755))
	if err := Write(filepath.Join(dir, "report.md"), func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }); err == nil {
		t.Error("a folder was replaced by a file")
	}
	only(t, dir, "report.md")
}

// only holds that nothing but names is in a folder.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.OK(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the folder holds %v, want %v", got, names)
	}
}
