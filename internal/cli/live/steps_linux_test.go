package live

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/testutil"
)

// screen is a terminal whose other end reads all that is written to it.
type screen struct {
	tty   *os.File
	mu    sync.Mutex
	text  bytes.Buffer
	grown *sync.Cond
	read  chan struct{}
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	testutil.OK(t, err)
	connection, err := master.SyscallConn()
	testutil.OK(t, err)
	var number int
	testutil.OK(t, connection.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	testutil.OK(t, err)
	s := &screen{read: make(chan struct{})}
	s.grown = sync.NewCond(&s.mu)
	s.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	testutil.OK(t, err)
	go func() {
		defer close(s.read)
		_, _ = io.Copy(s, master) // EIO once the terminal is closed
		master.Close()
	}()
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.grown.Broadcast()
	return s.text.Write(p)
}

// waitFor returns once a text is on the terminal.
func (s *screen) waitFor(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.text.String(), text) {
		s.grown.Wait()
	}
}

// all is what was written to the terminal, which it closes.
func (s *screen) all() string {
	s.tty.Close()
	<-s.read
	return s.text.String()
}

// A terminal shows a step at once and nothing of it stays; what the command prints is as it
// is without.
func TestStepsOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *base.Streams) error
		left string // after the line was removed
	}{
		{"output", func(s *base.Streams) error {
			fmt.Fprintf(s.Out, "width %d\n", base.TerminalWidth(s.Out))
			return nil
		}, "width 100\r\n"},
		{"remark", func(s *base.Streams) error {
			fmt.Fprintln(s.Err, "report: x")
			return nil
		}, "report: x\r\n"},
		{"failure", func(*base.Streams) error { return errors.New("no such run") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := newScreen(t)
			s := &base.Streams{Out: at.tty, Err: at.tty}
			_ = Flags{}.Follow(t.Context(), s, false, "report\x1b[2J of x", func(tell Steps) error {
				at.waitFor("of x")
				if !base.IsTerminal(s.Out) {
					t.Error("the output is no terminal any more")
				}
				err := c.do(s)
				tell.working.line.drawn = tell.working.line.drawn.Add(-redrawEvery)
				tell.Note("a later step")
				return err
			})
			text := at.all()
			_, left, found := strings.Cut(text, "  report")
			_, left, removed := strings.Cut(left, "\r\x1b[J")
			if !found || !removed || strings.Contains(text, "\x1b[2J") {
				t.Errorf("%q", text)
			}
			if c.name == "failure" { // the step is shown, as nothing was printed before it
				_, left, _ = strings.Cut(left, "\r\x1b[J")
			}
			if left != c.left {
				t.Errorf("%q, and of it stays %q", text, left)
			}
		})
	}
}

// Without a terminal there are no steps to be seen.
func TestStepsInAPipe(t *testing.T) {
	var out, told bytes.Buffer
	s := &base.Streams{Out: &out, Err: &told}
	testutil.OK(t, Flags{}.Follow(t.Context(), s, false, "report of x", func(tell Steps) error {
		tell.Note("a step")
		_, err := io.WriteString(s.Out, "done\n")
		return err
	}))
	if out.String() != "done\n" || told.Len() > 0 {
		t.Errorf("%q, %q", out.String(), told.String())
	}
	Steps{}.Note("to nobody")
}
