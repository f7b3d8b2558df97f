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
	"sync"
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
	s, err := switching.New(realBed(dir))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
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
// it found is restored, by itself or by another program. All of them mostly wait, so that
// several go on at a time.
func TestKilledWhileSwitching(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	const atATime = 6
	rounds := make(chan struct{}, atATime)
	var all sync.WaitGroup
	defer all.Wait()
	for k := range testutil.Repeat(2, 60) {
		dir, lines, wait := newRealBed(t), 1+r.IntN(3), time.Duration(r.IntN(300))*time.Millisecond
		killed := k%2 == 0
		rounds <- struct{}{}
		all.Go(func() {
			err := endCoordinator(dir, lines, wait, killed)
			<-rounds
			if err == nil {
				err = restoreAfter(t.Context(), dir, killed)
			}
			if err != nil {
				t.Errorf("round %d, killed %v: %v", k, killed, err)
			}
			isAt(t, dir, "off")
		})
	}
}

// endCoordinator starts a coordinator and kills or interrupts it a while after it has said so
// many lines. It returns when the command under way has ended.
func endCoordinator(dir string, lines int, wait time.Duration, killed bool) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), coordinatorEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The commands of the coordinator hold the pipe, too, since it does not know of it.
	left, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer left.Close()
	cmd.ExtraFiles = []*os.File{held}
	if err := errors.Join(cmd.Start(), held.Close()); err != nil {
		return err
	}
	var wrong error
	said := bufio.NewScanner(out)
	for range lines { // the first line says that it has begun
		if !said.Scan() {
			wrong = fmt.Errorf("the coordinator ended: %v", said.Err())
		}
	}
	time.Sleep(wait) // anywhere
	if killed {
		wrong = errors.Join(wrong, cmd.Process.Kill())
	} else {
		wrong = errors.Join(wrong, cmd.Process.Signal(os.Interrupt))
	}
	for said.Scan() {
		if s := said.Text(); s != "plain" && s != "inspected" {
			wrong = errors.Join(wrong, fmt.Errorf("the coordinator says %s", s))
		}
	}
	if err := cmd.Wait(); killed != (err != nil) {
		wrong = errors.Join(wrong, fmt.Errorf("the coordinator ended with %v", err))
	}
	_, err = io.ReadAll(left) // until the command under way has ended
	return errors.Join(wrong, err)
}

// restoreAfter is a later program's restoration, which has something to do only after a kill.
func restoreAfter(ctx context.Context, dir string, killed bool) error {
	later := realBed(dir)
	later.Switches[0].Timeout = 5 * time.Second // it waits for two of them, after a kill in a command
	s, err := switching.New(later)
	if err != nil {
		return err
	}
	restored, err := s.Restore(ctx)
	if err != nil || killed != (restored["fw"] == "off") {
		return fmt.Errorf("restored %v: %v", restored, err)
	}
	return nil
}
