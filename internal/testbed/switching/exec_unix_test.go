//go:build unix

package switching_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
	"github.com/hopbench/hopbench/internal/testutil"
)

func sh(script string) switching.Command {
	return switching.Command{Argv: []string{"sh", "-c", script}, Env: []string{"HOPBENCH_SWITCH=idps"}}
}

func TestExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testutil.OK(t, os.WriteFile(dir+"/fw.sh", []byte("#!/bin/sh\necho \"$1 in $(basename \"$PWD\") for $HOPBENCH_SWITCH\"\n"), 0o700))
	out, err := switching.Exec(t.Context(), switching.Command{Argv: []string{"./fw.sh", "a b"}, Dir: dir, Env: []string{"HOPBENCH_SWITCH=idps"}})
	if want := "a b in " + filepath.Base(dir) + " for idps\n"; err != nil || out != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	for _, test := range []struct {
		c    switching.Command
		says string
	}{
		{sh("echo no such rule >&2; exit 3"), "exit status 3: no such rule"},
		{sh("kill -SEGV $$"), "segmentation fault"},
		{sh("yes | head -c 70000"), "more than 64 KiB"},
		{switching.Command{Argv: []string{"./fw.sh"}, Dir: dir + "/none"}, "no such file"},
		{switching.Command{Argv: []string{"hopbench-there-is-none"}}, "not found"},
		{switching.Command{}, "no command"},
		{sh("read x </dev/tty"), "/dev/tty"}, // nobody can be asked for a password
	} {
		_, err := switching.Exec(t.Context(), test.c)
		contains(t, err, test.says)
	}
	// What ended well may leave something running that holds its output.
	out, err = switching.Exec(t.Context(), sh("sleep 60 & echo $!"))
	testutil.OK(t, err)
	var left int
	_, err = fmt.Sscan(out, &left)
	testutil.OK(t, err)
	p, err := os.FindProcess(left)
	testutil.OK(t, err)
	testutil.OK(t, p.Kill())
}

// A command whose time is over ends with all that it has started, also with what does
// not want to.
func TestExecEndsAll(t *testing.T) {
	t.Parallel()
	fifo := t.TempDir() + "/fifo"
	testutil.OK(t, exec.Command("mkfifo", fifo).Run())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan *os.File, 1)
	go func() {
		// All are under way once something can be read.
		f, err := os.Open(fifo)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
		}
		if err != nil {
			t.Error(err)
		}
		cancel()
		opened <- f
	}()
	const loop = "while :; do sleep 60; done"
	_, err := switching.Exec(ctx, sh("trap '' TERM; exec 9>"+fifo+"; (trap '' TERM; echo x >&9; "+loop+") & "+loop))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	f := <-opened
	defer f.Close()
	// The fifo ends with the last process that holds it.
	if _, err := io.ReadAll(f); err != nil {
		t.Error(err)
	}
}

// coordinatorEnv names the folder of a test's coordinator, a process that is killed.
const coordinatorEnv = "HOPBENCH_TEST_SWITCHING"

// realBed is a device of files and a script that takes its time.
func realBed(dir string) switching.Options {
	w := inventory.Switch{
		Name: "fw", Values: map[string][]string{"off": {"./fw.sh", "off"}, "on": {"./fw.sh", "on"}},
		Read: []string{"cat", "says"}, Verify: []string{"./fw.sh", "verify"}, Proof: inventory.ProofCommand, Timeout: time.Minute,
	}
	return switching.Options{
		Switches: []inventory.Switch{w}, Dir: dir, Journal: switching.JournalOf(dir + "/bed.yaml"),
		Paths: []inventory.Path{pathOf("plain", "192.0.2.1", map[string]string{"fw": "off"}), pathOf("inspected", "192.0.2.1", map[string]string{"fw": "on"})},
	}
}

const script = `#!/bin/sh
if [ "$1" = verify ]; then exec grep -qx "$2" is; fi
echo changing >is.new; mv is.new is
sleep 0.0$(($$ % 10))
echo "$1" >is.new; mv is.new is
echo "$1" >says.new; mv says.new says
`

func newRealBed(t *testing.T) (dir string) {
	dir = t.TempDir()
	testutil.OK(t, os.WriteFile(dir+"/fw.sh", []byte(script), 0o700))
	for _, file := range []string{"is", "says"} {
		testutil.OK(t, os.WriteFile(dir+"/"+file, []byte("off\n"), 0o600))
	}
	return dir
}

func isAt(t *testing.T, dir, want string) {
	t.Helper()
	for _, file := range []string{"is", "says"} {
		text, err := os.ReadFile(dir + "/" + file)
		if err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s is %q, %v; want %s", file, text, err, want)
		}
	}
}

// coordinator switches to and fro until it is killed, or interrupted: then it restores
// what it found, as a run does.
func coordinator(dir string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := switching.New(realBed(dir))
	for k := 0; ctx.Err() == nil; k++ {
		path := []string{"inspected", "plain"}[k%2]
		_, err := s.Switch(ctx, path)
		if err == nil {
			err = s.Confirm(ctx, path)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
	if _, err := s.Restore(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Commands of a real device, whose coordinator is killed or interrupted at any moment: what
// it found is restored, by itself or by another program.
func TestKilledWhileSwitching(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	for k := range testutil.Repeat(2, 60) {
		dir := newRealBed(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), coordinatorEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		testutil.OK(t, err)
		// The commands of the coordinator hold the pipe, too, since it does not know of it.
		left, held, err := os.Pipe()
		testutil.OK(t, err)
		cmd.ExtraFiles = []*os.File{held}
		testutil.OK(t, cmd.Start())
		testutil.OK(t, held.Close())
		// Its first line says that it has begun.
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(3) {
			if !lines.Scan() {
				t.Errorf("the coordinator ended: %v", lines.Err())
			}
		}
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond) // anywhere
		killed := k%2 == 0
		if killed {
			testutil.OK(t, cmd.Process.Kill())
		} else {
			testutil.OK(t, cmd.Process.Signal(os.Interrupt))
		}
		for lines.Scan() {
			if s := lines.Text(); s != "plain" && s != "inspected" {
				t.Errorf("the coordinator says %s", s)
			}
		}
		if err := cmd.Wait(); killed != (err != nil) {
			t.Errorf("the coordinator ended with %v", err)
		}
		_, err = io.ReadAll(left) // until the command under way has ended
		testutil.OK(t, errors.Join(err, left.Close()))
		restored, err := switching.New(realBed(dir)).Restore(t.Context())
		testutil.OK(t, err)
		if killed != (restored["fw"] == "off") {
			t.Errorf("killed %v, and restored %v", killed, restored)
		}
		isAt(t, dir, "off")
	}
}
