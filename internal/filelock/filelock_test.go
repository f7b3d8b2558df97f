package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// folder is one in which nothing may be left. Wine cannot remove that of [testing.T.TempDir].
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "filelock")
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestMade(t *testing.T) {
	name := filepath.Join(folder(t), "lock")
	testutil.OK(t, os.WriteFile(name, []byte("one that was killed, with a longer name"), 0o600))
	held, _, err := Made(name, "first")
	testutil.OK(t, err)
	if _, holder, err := Made(name, "second"); !errors.Is(err, ErrHeld) || holder != "first" {
		t.Errorf("held by %q: %v", holder, err)
	}
	testutil.OK(t, held.Close())
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if _, _, err := Made(filepath.Join(name, "below"), ""); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a lock in no folder: %v", err)
	}
}

// No two hold a lock at a time, although each removes its file.
func TestMadeByMany(t *testing.T) {
	name := filepath.Join(folder(t), "lock")
	var inside, most, got int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				held, _, err := Made(name, "x")
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside, got = inside+1, got+1
				most = max(most, inside)
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				if err := held.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most != 1 || got == 0 {
		t.Errorf("%d at a time, %d in all", most, got)
	}
}

func TestExisting(t *testing.T) {
	dir := folder(t)
	held, err := Existing(dir)
	testutil.OK(t, err)
	if _, err := Existing(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("locked twice: %v", err)
	}
	testutil.OK(t, held.Close())
	again, err := Existing(dir)
	testutil.OK(t, err)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
