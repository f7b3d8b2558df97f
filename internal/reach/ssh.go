package reach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

const (
	// greetTime bounds how long ssh and the login shell there take until the script
	// runs, copyTime how long the copy of the program takes.
	greetTime = 30 * time.Second
	copyTime  = 5 * time.Minute
	// endTime is how long an agent may take to end what it does, once its standard
	// input has ended, before ssh is killed.
	endTime = 5 * time.Second
)

// sshArgs has the system's ssh run a command, by the user's own configuration but for
// what would make it ask, hang, or do more than that.
func sshArgs(r inventory.Reach, command string) []string {
	args := []string{"-T"}
	for _, o := range []string{
		"BatchMode=yes", // a password is refused, not asked for
		"ConnectTimeout=10",
		"ServerAliveInterval=5", "ServerAliveCountMax=3", // a network that is gone is noticed
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no",
		"RemoteCommand=none", "RequestTTY=no", "EscapeChar=none",
	} {
		args = append(args, "-o", o)
	}
	if r.User != "" {
		args = append(args, "-l", r.User)
	}
	if r.Port != 0 {
		args = append(args, "-p", strconv.Itoa(int(r.Port)))
	}
	return append(args, "--", r.Host, command)
}

// session is the connection to an agent on the far side of an ssh.
type session struct {
	pipes
	host  string
	cmd   *exec.Cmd
	said  *tail
	ended chan struct{} // closed when ssh has ended
	close func() error
}

// dialSSH copies hopbench to a host that has nothing but sshd, and runs it there as an
// agent on standard input and output.
func dialSSH(ctx context.Context, e inventory.Endpoint) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(greetTime, func() {
		cancel(fmt.Errorf("ssh to %s: the login shell there has not run a command in %v; see what it does: %s true", e.Reach.Host, greetTime, login(e.Reach)))
	})
	defer func() { late.Stop() }()
	s, err := startSSH(e.Reach)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, s.kill)
	d := &dialog{in: bufio.NewReader(s.in), out: s.out}
	s.from = d.in
	err = d.start(func(goos, goarch string) (*program, error) {
		late.Stop()
		late = time.AfterFunc(copyTime, func() {
			cancel(fmt.Errorf("ssh to %s: the program was not copied there in %v", e.Reach.Host, copyTime))
		})
		return findProgram(e, goos, goarch)
	})
	if stopped := stop(); !stopped || err != nil {
		// An error of a pipe says only that ssh has ended: what it said itself says why.
		gone := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isBroken(err)
		closed := s.Close()
		silent, ran := errors.AsType[*notRunning](err)
		switch {
		case !stopped:
			return nil, context.Cause(ctx)
		case ran:
			silent.said = lastLine(s.said.String())
		case gone:
			return nil, explainSSH(e.Reach, s.said.String(), d.babble, err)
		}
		return nil, fmt.Errorf("%s by ssh: %w", e.Reach.Host, errors.Join(err, closed))
	}
	return s, nil
}

// startSSH starts ssh with the script.
func startSSH(r inventory.Reach) (*session, error) {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fmt.Errorf("%w: install OpenSSH's client, or reach %s by tls://", err, r.Host)
	}
	// Own pipes, since those of exec.Cmd are closed before all was read.
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to ssh: %w", err)
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe to ssh: %w", err), theirIn.Close(), out.Close())
	}
	s := &session{said: new(tail), ended: make(chan struct{}), host: r.Host, pipes: pipes{from: in, in: in, out: out}}
	s.close = sync.OnceValue(s.end)
	s.cmd = exec.Command(path, sshArgs(r, "exec sh -c '"+script+"'")...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirIn, theirOut, s.said
	// No jump host asks for anything either, with a window or on the terminal.
	s.cmd.Env = append(os.Environ(), "SSH_ASKPASS_REQUIRE=never")
	s.cmd.SysProcAttr = apart()
	// A connection that ssh shares (ControlPersist) outlives it with its standard error.
	s.cmd.WaitDelay = time.Second
	err = s.cmd.Start()
	closed := errors.Join(theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start ssh: %w", err), closed, s.pipes.Close())
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // what it said tells more than its status
	}()
	return s, nil
}

// Read says why ssh ended, where it did.
func (s *session) Read(b []byte) (int, error) {
	n, err := s.pipes.Read(b)
	if err == io.EOF {
		select {
		case <-s.ended:
		case <-time.After(endTime):
		}
		if text := s.said.String(); text != "" {
			return n, fmt.Errorf("ssh to %s ended: %s", s.host, lastLine(text))
		}
	}
	return n, err
}

// Close ends the agent by the end of its standard input, and returns when ssh has
// ended: in endTime, or it is killed.
func (s *session) Close() error { return s.close() }

func (s *session) end() error {
	closed := s.out.Close()
	// ssh ends only when all was read.
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, s.in)
	}()
	late := time.AfterFunc(endTime, s.kill)
	<-s.ended
	late.Stop()
	err := s.in.Close()
	<-drained
	return asClosed(errors.Join(closed, err))
}

// kill ends ssh, and what it started, at once.
func (s *session) kill() {
	select {
	case <-s.ended: // the number may be another's by now
	default:
		killAll(s.cmd.Process)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is more than ssh's longest complaint, that of a changed host key.
const tailBytes = 8 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(len(p)-tailBytes, 0):]...)
	t.text = t.text[max(len(t.text)-tailBytes, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lastLine is the last line of a text that says something, made safe to show.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(printable.Line(lines[len(lines)-1], maxSaid), ".")
}

// complaints are what ssh and login shells say when something is wrong, and what to do
// about it; in place of %s comes the command that logs in there.
var complaints = []struct{ says, means string }{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key is not the one that is known: the host was set up anew, or somebody is in between; compare the key's fingerprint with the host's, remove the old one with ssh-keygen -R, and log in once with: %s"},
	{"Host key verification failed", "its host key is not known yet: log in once and compare its fingerprint, with: %s"},
	{"Permission denied (", "it accepts no key of yours, and hopbench asks for no password: give it a key with ssh-copy-id, unlock the key with ssh-add, and try: %s"},
	{"is not recognized as", errWindows.Error()},
}

// login is the command by which a person logs in there.
func login(r inventory.Reach) string {
	command := "ssh"
	if r.Port != 0 {
		command += fmt.Sprintf(" -p %d", r.Port)
	}
	if r.User != "" {
		command += " -l " + printable.ShellWord(r.User)
	}
	return command + " " + printable.ShellWord(r.Host)
}

// explainSSH is one sentence on an ssh that ended: what it complained about, what a
// login shell said instead, or what became of the connection.
func explainSSH(r inventory.Reach, stderr, babble string, err error) error {
	flat := strings.Join(strings.Fields(stderr), " ")
	for _, c := range complaints {
		if strings.Contains(flat, c.says) {
			means := strings.ReplaceAll(c.means, "%s", login(r))
			return fmt.Errorf("ssh to %s: %s", r.Host, means)
		}
	}
	switch {
	case strings.TrimSpace(stderr) != "":
		return fmt.Errorf("ssh to %s: %s; see what it says: %s true", r.Host, lastLine(stderr), login(r))
	case babble != "":
		return fmt.Errorf("ssh to %s: the host says %q and runs no command; see what it says: %s true", r.Host, babble, login(r))
	}
	return fmt.Errorf("ssh to %s ended without a word (%w); see what it says: %s true", r.Host, err, login(r))
}
