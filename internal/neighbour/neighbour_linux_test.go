package neighbour

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// helperEnv makes this program a run of that name that prints which others it has seen
// when its standard input has a line, and ends with its standard input.
const helperEnv = "HOPBENCH_TEST_NEIGHBOUR"

var began = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	p, err := Join(Run{Experiment: name, Started: began})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("joined")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(names(p.Others()))
	}
	if err := p.Leave(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func names(runs []Run) string {
	var out []string
	for _, run := range runs {
		out = append(out, fmt.Sprintf("%q %s", run.Experiment, run.Started.Format(time.DateTime)))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// other is a run in a process of its own.
type other struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, name string, change func(*exec.Cmd)) *other {
	t.Helper()
	binary, err := os.Executable()
	testutil.OK(t, err)
	o := &other{Cmd: exec.CommandContext(t.Context(), binary)}
	o.Env = append(os.Environ(), helperEnv+"="+name)
	if change != nil {
		change(o.Cmd)
	}
	var stderr bytes.Buffer
	o.Stderr = &stderr
	if o.in, err = o.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.StdoutPipe()
	testutil.OK(t, err)
	o.out = bufio.NewScanner(out)
	testutil.OK(t, o.Start())
	t.Cleanup(func() {
		o.in.Close()
		_ = o.Process.Kill()
		_ = o.Wait()
	})
	if got := o.line(); got != "joined" {
		t.Fatalf("%s: %s%s", name, got, stderr.String())
	}
	return o
}

func (o *other) line() string {
	if !o.out.Scan() {
		return fmt.Sprint("it has ended: ", o.out.Err())
	}
	return o.out.Text()
}

// seen is which runs it has seen.
func (o *other) seen() string {
	if _, err := io.WriteString(o.in, "\n"); err != nil {
		return err.Error()
	}
	return o.line()
}

// eventually polls what another goroutine or process makes true.
func eventually(t *testing.T, want string, get func() string) {
	t.Helper()
	got := get()
	for deadline := time.Now().Add(20 * time.Second); got != want; got = get() {
		if time.Now().After(deadline) {
			t.Fatalf("saw %s, want %s", got, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func join(t *testing.T, name string) *Presence {
	t.Helper()
	p, err := Join(Run{Experiment: name, Started: began})
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := p.Leave(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

// Two runs know of each other, whichever began first and however soon one ends;
// a run that is alone has seen none, also where others were killed.
func TestRunsKnowOfEachOther(t *testing.T) {
	// A folder whose path is longer than a socket's address.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	testutil.OK(t, os.MkdirAll(dir, 0o755))
	t.Setenv("TMPDIR", dir)
	first := start(t, "first", nil)
	if got := first.seen(); got != "" {
		t.Errorf("alone: saw %s", got)
	}
	second := join(t, "second")
	if got, want := names(second.Others()), `"first" 2026-11-21 09:30:00`; got != want {
		t.Errorf("the second saw %s, want %s", got, want)
	}
	if got := second.Alive(); got != 1 {
		t.Errorf("%d others are there, want the first", got)
	}
	testutil.OK(t, second.Leave())
	eventually(t, `"second" 2026-11-21 09:30:00`, first.seen) // although it has ended

	testutil.OK(t, first.Process.Kill())
	_ = first.Wait() // killed
	third := join(t, "third")
	if got := names(third.Others()); got != "" {
		t.Errorf("after the others have ended: saw %s", got)
	}
	if got := third.Alive(); got != 0 {
		t.Errorf("after the others have ended, %d are there", got)
	}
	testutil.OK(t, third.Leave())

	// What was killed leaves its socket behind, until that is old enough.
	folder := filepath.Join(dir, folderName)
	left := entries(t, folder)
	if len(left) != 1 {
		t.Fatalf("%q are left of one that was killed and two that left", left)
	}
	old := time.Now().Add(-2 * staleAfter)
	testutil.OK(t, os.Chtimes(filepath.Join(folder, left[0]), old, old))
	fourth := join(t, "fourth")
	if got := entries(t, folder); len(got) != 1 || got[0] == left[0] {
		t.Errorf("the folder has %q, want the fourth alone", got)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode()&(fs.ModeSticky|fs.ModePerm) != fs.ModeSticky|0o777 {
		t.Errorf("the folder is %v (%v), which is not for everybody", info.Mode(), err)
	}
	if got := names(fourth.Others()); got != "" {
		t.Errorf("saw %s", got)
	}
}

func entries(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	testutil.OK(t, err)
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// All that begin in the same moment know of each other.
func TestRunsThatBeginTogether(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const runs = 8
	all := make([]*Presence, runs)
	var together sync.WaitGroup
	for i := range all {
		together.Go(func() {
			var err error
			if all[i], err = Join(Run{Experiment: fmt.Sprint(i), Started: began}); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	for _, p := range all {
		if p != nil {
			eventually(t, fmt.Sprint(runs-1), func() string { return fmt.Sprint(len(p.Others())) })
			defer p.Leave()
		}
	}
}

// Runs of several users know of each other, whoever was first.
func TestRunsOfOtherUsers(t *testing.T) {
	testutil.Need(t, os.Geteuid() == 0, "root, to be two users")
	binary, err := os.ReadFile("/proc/self/exe")
	testutil.OK(t, err)
	nobody := func(c *exec.Cmd) {
		c.Path = filepath.Join(os.TempDir(), "copy") // this one lies where only root may look
		testutil.OK(t, os.WriteFile(c.Path, binary, 0o755))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	for name, change := range map[string][2]func(*exec.Cmd){"root first": {nil, nobody}, "root second": {nobody, nil}} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "neighbour") // below a folder that all may enter
			testutil.OK(t, err)
			defer os.RemoveAll(dir)
			testutil.OK(t, os.Chmod(dir, fs.ModeSticky|0o777))
			t.Setenv("TMPDIR", dir)
			first := start(t, "first", change[0])
			second := start(t, "second", change[1])
			eventually(t, `"second" 2026-11-21 09:30:00`, first.seen)
			eventually(t, `"first" 2026-11-21 09:30:00`, second.seen)
		})
	}
}

// Whatever others put into the folder, a run joins and leaves.
func TestHostileFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	folder := filepath.Join(dir, folderName)
	testutil.OK(t, os.Mkdir(folder, 0o755))
	testutil.OK(t, unix.Mkfifo(filepath.Join(folder, "fifo"), 0o666))
	for name, text := range map[string]string{"file": "{}", "\x1b[31m": ""} {
		testutil.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666))
	}
	outside := serve(t, filepath.Join(dir, "outside"), func(net.Conn) { t.Error("a socket outside of the folder was called") })
	testutil.OK(t, os.Symlink(outside, filepath.Join(folder, "link")))
	serve(t, filepath.Join(folder, "silent"), func(c net.Conn) { _, _ = io.Copy(io.Discard, c); <-t.Context().Done() })
	serve(t, filepath.Join(folder, "nonsense"), func(c net.Conn) { _, _ = io.WriteString(c, "\x00{]") })
	serve(t, filepath.Join(folder, "endless"), func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, strings.Repeat("[", 1<<16)); err != nil {
				return
			}
		}
	})
	p := join(t, "honest")
	// The silent one may be a run that was stopped.
	if got, want := names(p.Others()), `"" 0001-01-01 00:00:00`; got != want {
		t.Errorf("saw %s, want %s", got, want)
	}
	// Callers are heard one after the other, and only so many.
	for i := range maxOthers + 10 {
		conn, err := net.Dial("unix", p.path(p.name))
		testutil.OK(t, err)
		fmt.Fprintf(conn, `{"experiment": "%d"}`, i)
		// Who closes before it has heard resets the connection, and what it said is lost.
		testutil.OK(t, conn.(*net.UnixConn).CloseWrite())
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	eventually(t, fmt.Sprint(maxOthers), func() string { return fmt.Sprint(len(p.Others())) })

	for name, make := range map[string]func(string) error{
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"a link": func(path string) error { return os.Symlink(folder, path) },
	} {
		t.Setenv("TMPDIR", t.TempDir())
		testutil.OK(t, make(filepath.Join(os.TempDir(), folderName)))
		if p, err := Join(Run{}); err == nil {
			t.Errorf("joined where the folder is %s", name)
			p.Leave()
		}
	}
}

// serve answers at a socket until the test ends.
func serve(t *testing.T, path string, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("unix", path)
	testutil.OK(t, err)
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answering.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		answering.Wait()
	})
	return path
}
