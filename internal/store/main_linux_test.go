package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// helperEnv makes this program do one thing to the run in a folder, in a process
// that may be killed or be in a mount namespace of its own.
const helperEnv = "HOPBENCH_TEST_STORE"

var helpers = map[string]func(dir string) error{
	"write":        writeRun,
	"fill":         fillDisk,
	"read-only":    readOnly,
	"samples":      writeSamples,
	"fill-samples": fillSamples,
	"feed":         feedSamples,
	"watch":        keepRounds,
	"fill-watch":   fillWithRounds,
	"few-files":    fewFiles,
	"small-files":  smallFiles,
	"read-large":   readLarge,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		runtime.LockOSThread() // strace counts the calls of each thread
		if err := helpers[name](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper is this program as one of helpers.
func helper(t *testing.T, name, dir string, before ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	testutil.OK(t, err)
	words := append(before, binary, dir)
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Env = append(os.Environ(), helperEnv+"="+name)
	return c
}

// inMounts has c begin in a mount namespace of its own, where it may mount.
func inMounts(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return c
}

func needMounts(t *testing.T) {
	t.Helper()
	err := inMounts(exec.CommandContext(t.Context(), "true")).Run()
	testutil.Need(t, err == nil, fmt.Sprintf("user and mount namespaces (%v)", err))
}

const written = 3

// writeRun is a whole run, and a session more that does a trial again.
func writeRun(dir string) error {
	s, err := store.Create(dir, head())
	if err != nil {
		return err
	}
	for order := 1; order < written; order++ {
		if err := s.Put(background, trial(order)); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = store.Resume(dir); err != nil {
		return err
	}
	again := trial(written - 1)
	return errors.Join(s.SetAside(background, []string{again.ID}, head()), s.Put(background, again), s.Put(background, trial(written)), s.SetHead(head()), s.Close())
}

// TestKilledAtAnyStep kills a writer at each system call that changes what is on
// the disk (one of three, unless at length), in turn. What is left is a run with all of its first trials or none
// at all, and either way it can be gone on with.
func TestKilledAtAnyStep(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err == nil {
		err = exec.CommandContext(t.Context(), strace, "-o", os.DevNull, "true").Run()
	}
	testutil.Need(t, err == nil, fmt.Sprintf("strace that may trace (%v)", err))
	absent, partly := 0, 0
	for _, call := range []string{"fsync,fdatasync", "pwrite64", "ftruncate,unlink,unlinkat"} {
		for n := 1; ; n += testutil.Repeat(3, 1) {
			dir := filepath.Join(t.TempDir(), "run")
			c := helper(t, "write", dir, strace, "-f", "-o", os.DevNull, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
			out, err := c.CombinedOutput()
			if err == nil {
				if n == 1 {
					t.Errorf("a run is written without %s: this kills nothing", call)
				}
				break
			}
			if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
				t.Fatalf("%s %d: %v, want it killed: %s", call, n, err, out)
			}
			kept := stored(t, dir)
			switch {
			case kept < 0:
				absent++
			case kept < written:
				partly++
			}
			t.Logf("killed at %s %d: %d trials", call, n, kept)
			goOn(t, dir, kept)
		}
	}
	if absent == 0 || partly == 0 {
		t.Errorf("killed %d times before the run was there and %d times in the middle: the test misses one of them", absent, partly)
	}
}

// stored is how many trials of a killed writer there are, all of them its first
// ones, and -1 if there is no run.
func stored(t *testing.T, dir string) int {
	t.Helper()
	s, err := store.Open(dir)
	if errors.Is(err, store.ErrNoRun) {
		return -1
	}
	if err != nil {
		t.Fatalf("open what is left: %v", err)
	}
	defer s.Close()
	if got, err := s.Head(); err != nil || got.Name != head().Name {
		t.Fatalf("head of what is left: %+v, %v", got, err)
	}
	trials, err := s.Trials(t.Context())
	testutil.OK(t, err)
	for i, got := range trials {
		if got.ID != trial(i+1).ID {
			t.Fatalf("trial %d of what is left is %s", i+1, got.ID)
		}
	}
	return len(trials)
}

// goOn takes up a run where its writer was killed.
func goOn(t *testing.T, dir string, kept int) {
	t.Helper()
	take := func() (*store.Store, error) { return store.Resume(dir) }
	if kept < 0 {
		if _, err := take(); !errors.Is(err, store.ErrNoRun) {
			t.Fatalf("resume of no run: %v, want ErrNoRun", err)
		}
		take = func() (*store.Store, error) { return store.Create(dir, head()) }
		kept = 0
	}
	s, err := take()
	if err != nil {
		t.Fatalf("go on after %d trials: %v", kept, err)
	}
	testutil.OK(t, s.Put(t.Context(), trial(kept+1)))
	testutil.OK(t, s.Close())
	if n := stored(t, dir); n != kept+1 {
		t.Fatalf("%d trials after going on with %d", n, kept)
	}
}

// fillDisk makes runs on ever larger disks that are too small for them.
func fillDisk(dir string) error {
	begun := 0
	for pages := 1; pages <= 40; pages++ {
		if err := onDisk(dir, pages, func() error {
			kept, err := fillOne(filepath.Join(dir, "run"))
			if kept > 0 {
				begun++
			}
			return err
		}); err != nil {
			return err
		}
	}
	if begun == 0 {
		return errors.New("no disk was large enough for a trial")
	}
	return nil
}

// onDisk does something on a disk of so many pages.
func onDisk(dir string, pages int, do func() error) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", pages*4096)); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := do(); err != nil {
		return fmt.Errorf("on a disk of %d pages: %w", pages, err)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}

// enlarge makes a full disk larger.
func enlarge(disk string) error {
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		return fmt.Errorf("make the disk larger: %w", err)
	}
	return nil
}

// fillOne makes a run until the disk is full. Either it does not begin and
// nothing of it is there, or all that was stored can be read.
func fillOne(dir string) (kept int, err error) {
	s, err := store.Create(dir, head())
	if err != nil {
		if !strings.Contains(err.Error(), "full") {
			return 0, fmt.Errorf("create: %w, want it to say that the disk is full", err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("the folder of a run that did not begin is still there (%v)", err)
		}
		return 0, nil
	}
	for s.Put(background, trial(kept+1)) == nil {
		if kept++; kept > 1000 {
			return kept, errors.New("a small disk never gets full")
		}
	}
	if err := s.Close(); err != nil {
		return kept, fmt.Errorf("close: %w", err)
	}
	if again, err := store.Create(dir, head()); err == nil {
		return kept, errors.Join(errors.New("a run was begun over another"), again.Close())
	}
	return kept, holds(dir, kept)
}

// holds says that the run in dir can be read and has so many trials.
func holds(dir string, want int) error {
	s, err := store.Open(dir)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer s.Close()
	if s.Dir() != dir {
		return fmt.Errorf("the folder of the run is %s, want %s", s.Dir(), dir)
	}
	if _, err := s.Head(); err != nil {
		return err
	}
	trials, err := s.Trials(background)
	if err == nil && len(trials) != want {
		err = fmt.Errorf("%d trials can be read of %d", len(trials), want)
	}
	return err
}

func TestFullDisk(t *testing.T) {
	needMounts(t)
	for _, name := range []string{"fill", "fill-samples", "fill-watch"} {
		if out, err := inMounts(helper(t, name, t.TempDir())).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// readOnly reads every run below dir where nothing can be written.
func readOnly(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return err
	}
	// What the mount forbids already must stay forbidden in a user namespace.
	flags := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("mount read-only: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return errors.New("no run to read")
	}
	var wrong []error
	for _, entry := range entries {
		run := filepath.Join(dir, entry.Name())
		if err := os.WriteFile(filepath.Join(run, "x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("the folder can be written (%v)", err)
		}
		if again, err := store.Create(run, head()); err == nil {
			return errors.Join(errors.New("a run was begun over another"), again.Close())
		}
		again, err := store.Resume(run)
		if err == nil {
			err = errors.Join(again.SetHead(head()), again.Close())
		}
		if err == nil || strings.Contains(err.Error(), "disk full") {
			wrong = append(wrong, fmt.Errorf("%s is gone on with, or the disk is blamed: %w", entry.Name(), err))
		}
		if err := holds(run, written); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", entry.Name(), err))
		}
	}
	// What was finished is read as it is: nothing is copied for it.
	temporary := os.TempDir()
	if err := os.Setenv("TMPDIR", filepath.Join(temporary, "nowhere")); err != nil {
		return err
	}
	if err := holds(filepath.Join(dir, "finished"), written); err != nil {
		wrong = append(wrong, fmt.Errorf("without a folder for temporary files: %w", err))
	}
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	if len(left) > 0 {
		wrong = append(wrong, fmt.Errorf("left behind: %v", left))
	}
	return errors.Join(append(wrong, err)...)
}

// fewFiles begins runs where few files may be open: they begin, or the limit is named.
func fewFiles(dir string) error {
	// What the Go runtime cannot do without.
	from, to, err := os.Pipe()
	if err := errors.Join(err, from.Close(), to.Close()); err != nil {
		return err
	}
	began := 0
	for n := uint64(3); n < 30; n++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 30}); err != nil {
			return err
		}
		s, err := store.Create(filepath.Join(dir, fmt.Sprint(n)), head())
		if err == nil {
			began++
			err = s.Close()
		} else if strings.Contains(err.Error(), "open files") && !strings.Contains(err.Error(), "disk") {
			continue
		}
		if err != nil {
			return fmt.Errorf("with %d files: %w", n, err)
		}
	}
	if began == 0 || began == 27 {
		return fmt.Errorf("%d of 27 runs began", began)
	}
	return nil
}

func TestFewFiles(t *testing.T) {
	if out, err := helper(t, "few-files", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// smallFiles keeps trials until the limit of file sizes is reached; those before are there.
func smallFiles(dir string) error {
	s, err := store.Create(dir, head())
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 256 << 10, Max: 256 << 10}); err != nil {
		return err
	}
	kept := 0
	for ; err == nil && kept < 1000; kept++ {
		err = s.Put(background, trial(kept+1))
	}
	if err == nil || !strings.Contains(err.Error(), "ulimit -f") {
		return fmt.Errorf("after %d trials: %w", kept, err)
	}
	trials, err := s.Trials(background)
	if err == nil && len(trials) != kept-1 {
		err = fmt.Errorf("%d trials of %d", len(trials), kept-1)
	}
	return errors.Join(err, s.Close())
}

func TestSmallFiles(t *testing.T) {
	if out, err := helper(t, "small-files", t.TempDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReadOnlyFolder reads runs in all the states that they are copied in.
func TestReadOnlyFolder(t *testing.T) {
	needMounts(t)
	dir := t.TempDir()
	testutil.OK(t, writeRun(filepath.Join(dir, "finished")))
	// A writer that is killed leaves its files as they are.
	alive := filepath.Join(t.TempDir(), "alive")
	s, err := store.Create(alive, head())
	testutil.OK(t, err)
	defer s.Close()
	for order := 1; order <= written; order++ {
		testutil.OK(t, s.Put(t.Context(), trial(order)))
	}
	take(t, alive, filepath.Join(dir, "killed"), "", "-wal", "-shm")
	take(t, alive, filepath.Join(dir, "killed-and-half-copied"), "", "-wal")
	// One that an earlier hopbench finished, or that a reader was the last to
	// close, is in the mode that wants more files, and has none.
	reader, err := store.Open(alive)
	testutil.OK(t, err)
	testutil.OK(t, s.Close())
	testutil.OK(t, reader.Close())
	take(t, alive, filepath.Join(dir, "finished-with-a-reader"), "")

	c := inMounts(helper(t, "read-only", dir))
	c.Env = append(c.Env, "TMPDIR="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// take copies files of a run.
func take(t *testing.T, from, to string, suffixes ...string) {
	t.Helper()
	testutil.OK(t, os.Mkdir(to, 0o755))
	for _, suffix := range suffixes {
		text, err := os.ReadFile(filepath.Join(from, store.FileName+suffix))
		testutil.OK(t, err)
		testutil.OK(t, os.WriteFile(filepath.Join(to, store.FileName+suffix), text, 0o600))
	}
}

// A pipe in the place of a run's or a watch's file is not waited for.
func TestPipeInPlaceOfAFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{store.FileName, store.WatchFileName} {
		testutil.OK(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	for what, open := range map[string]func() error{
		"create": func() error { _, err := store.Create(dir, head()); return err },
		"resume": func() error { _, err := store.Resume(dir); return err },
		"open":   func() error { _, err := store.Open(dir); return err },
		"watch":  func() error { _, _, err := store.OpenWatch(dir); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "is no file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// readLarge reads a run where next to nothing can be written into temporary files.
func readLarge(dir string) error {
	return onDisk(os.TempDir(), 16, func() error {
		s, err := store.Open(dir)
		if err != nil {
			return err
		}
		trials, err := s.Trials(background)
		if err == nil && len(trials) != large {
			err = fmt.Errorf("%d trials", len(trials))
		}
		return errors.Join(err, s.Close())
	})
}

const large = 20

// A run that is larger than what SQLite holds in memory is read without temporary files.
func TestLargeRunWithoutTemporaryFiles(t *testing.T) {
	needMounts(t)
	dir := t.TempDir()
	s, err := store.Create(dir, head())
	testutil.OK(t, err)
	for order := range large {
		one := trial(order)
		one.Throughput.Bytes = make([]float64, 250_000)
		testutil.OK(t, s.Put(t.Context(), one))
	}
	testutil.OK(t, s.Close())
	c := inMounts(helper(t, "read-large", dir))
	c.Env = append(c.Env, "TMPDIR="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
