package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPublishedLab(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "sh", "cat")
	l := startLab(t, chain(0, nil))
	name := fmt.Sprintf("test-%d", os.Getpid())
	testutil.OK(t, l.Publish(name))
	folder, err := openPrivate(filepath.Dir(socketOf(l).Name)) // so an abstract socket is not
	testutil.OK(t, err)
	folder.Close()
	if err := l.Publish(name); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the same name again: %v", err)
	}
	if err := l.Publish("with space"); err == nil {
		t.Error("a name with a space was accepted")
	}
	names, err := Running()
	if err != nil || !slices.Contains(names, name) {
		t.Errorf("published are %q, %v", names, err)
	}
	nodes, err := NodesOf(t.Context(), name)
	if want := []string{"source", "destination"}; err != nil || !slices.Equal(nodes, want) {
		t.Errorf("nodes are %q, %v", nodes, err)
	}

	out, err := os.CreateTemp(t.TempDir(), "out")
	testutil.OK(t, err)
	defer out.Close()
	code, err := ExecIn(t.Context(), name, "source", Command{Argv: []string{"sh", "-c", "ls /sys/class/net; exit 3"}, Stdout: out})
	text, readErr := os.ReadFile(out.Name())
	if err != nil || readErr != nil || code != 3 || string(text) != "lo\nright\n" {
		t.Errorf("got %q, %d, %v, %v", text, code, err, readErr)
	}
	if _, err := ExecIn(t.Context(), name, "nowhere", Command{Argv: []string{"true"}}); err == nil || !strings.Contains(err.Error(), `no node "nowhere"`) {
		t.Errorf("an unknown node: %v", err)
	}

	checkCancelled(t, func(ctx context.Context, c Command) (int, error) { return ExecIn(ctx, name, "source", c) })

	// Garbage must not disturb the others.
	conn, err := net.DialUnix("unix", nil, socketOf(l))
	testutil.OK(t, err)
	if _, err := conn.Write([]byte("\x00\x00\x00\x04oops")); err != nil {
		t.Error(err)
	}
	conn.Close()
	if _, err := NodesOf(t.Context(), name); err != nil {
		t.Errorf("after garbage: %v", err)
	}
	testutil.OK(t, l.Close())
	if _, err := NodesOf(t.Context(), name); err == nil || !strings.Contains(err.Error(), "no lab") {
		t.Errorf("a lab that is down: %v", err)
	}
}

// socketOf is where a lab that was published listens.
func socketOf(l *Lab) *net.UnixAddr { return l.published[0].listener.Addr().(*net.UnixAddr) }

// intruder runs a client of its own at a socket of a lab, after change, and
// returns what the lab said and whether the client's program ran there.
func intruder(t *testing.T, l *Lab, socket *net.UnixAddr, change func(*exec.Cmd)) (said string, ran bool) {
	t.Helper()
	dir := t.TempDir()
	testutil.OK(t, errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755)))
	mark := filepath.Join(dir, "mark")
	cmd := exec.Command(readableSelf(t), "intrude", socket.Name, l.Nodes()[0], mark)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{}
	change(cmd)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	_, err = os.Stat(mark)
	return string(text), err == nil
}

// intrude runs touch in a node of a published lab, as a client that checks
// nothing.
func intrude(args []string) int {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0], Net: "unix"})
	if err != nil {
		fmt.Println(err)
		return 0
	}
	defer conn.Close()
	w := &message.Conn{UnixConn: conn}
	request := message.Command{Node: args[1], Argv: []string{"touch", args[2]}, Env: os.Environ(), Dir: "/"}
	_ = w.Send(message.Exec, 0, request, os.Stdin, os.Stdout, os.Stderr) // a lab that refuses has hung up
	answer, _, err := w.Receive()
	fmt.Println(answer.Error, err)
	return 0
}

func TestPublishedLabIsPrivate(t *testing.T) {
	testutil.Need(t, os.Geteuid() == 0, "root, to become someone else")
	l := startLab(t, Topology{Nodes: []Node{{Name: "a"}}})
	testutil.OK(t, l.Publish(fmt.Sprintf("private-%d", os.Getpid())))
	become := func(cmd *exec.Cmd) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	if said, ran := intruder(t, l, socketOf(l), become); ran || !strings.Contains(said, "permission denied") {
		t.Errorf("another user ran a program: %v, and was told %s", ran, said)
	}
	// Should the folder ever be open, there is still the peer's user.
	open, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join("/tmp", filepath.Base(socketOf(l).Name)), Net: "unix"})
	if err == nil {
		err = os.Chmod(open.Addr().String(), 0o777)
	}
	testutil.OK(t, err)
	testutil.OK(t, l.publish(open))
	if said, ran := intruder(t, l, open.Addr().(*net.UnixAddr), become); ran || !strings.Contains(said, "user 65534") {
		t.Errorf("another user ran a program: %v, and was told %s", ran, said)
	}
}

// A container with the host's network, or with the folder of the sockets mounted,
// has root's uid too: the lab is for processes in the namespaces of who holds it.
func TestPublishedLabIsForItsNamespaces(t *testing.T) {
	needProgram(t, "touch")
	l := startLab(t, Topology{Nodes: []Node{{Name: "a"}}})
	testutil.OK(t, l.Publish(fmt.Sprintf("enclosed-%d", os.Getpid())))
	const container = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	for _, c := range []struct {
		what    string
		flags   uintptr // of clone(2)
		refused string
	}{
		{"at home", 0, ""},
		{"container", container, "namespace"},
		{"container without root", container | syscall.CLONE_NEWUSER, "namespace"},
		{"own mounts", syscall.CLONE_NEWNS, "another mnt namespace"},
		{"own processes", syscall.CLONE_NEWPID, "another pid namespace"},
		{"own users", syscall.CLONE_NEWUSER, "another user namespace"},
	} {
		if c.flags != 0 && os.Geteuid() != 0 && c.flags&syscall.CLONE_NEWUSER == 0 {
			continue // root's alone; without root there are those with users
		}
		t.Run(c.what, func(t *testing.T) {
			said, ran := intruder(t, l, socketOf(l), func(cmd *exec.Cmd) {
				cmd.SysProcAttr.Cloneflags = c.flags
				if c.flags&syscall.CLONE_NEWUSER != 0 {
					cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
					cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
				}
			})
			if ran != (c.refused == "") || !strings.Contains(said, c.refused) {
				t.Errorf("the program ran: %v, and the lab said %s, want %q", ran, said, c.refused)
			}
		})
	}
}

// What a lab that was killed left is found out, removed, and in nobody's way.
func TestStaleSockets(t *testing.T) {
	folder := t.TempDir()
	if names, err := living(folder); err != nil || len(names) > 0 {
		t.Fatalf("in an empty folder: %q, %v", names, err)
	}
	stale, err := net.ListenUnix("unix", socketIn(folder, "stale"))
	testutil.OK(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	up, err := net.ListenUnix("unix", socketIn(folder, "up"))
	testutil.OK(t, err)
	defer up.Close()
	testutil.OK(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	names, err := living(folder)
	if err != nil || !slices.Equal(names, []string{"up"}) {
		t.Errorf("listening are %q, %v", names, err)
	}
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if want := []string{folder + "/file", folder + "/up"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q, %v, want %q", left, err, want)
	}
}

// A killed owner's name is free at once.
func TestNameOfKilledLab(t *testing.T) {
	name := fmt.Sprintf("killed-%d", os.Getpid())
	listener, err := listen(name)
	testutil.OK(t, err)
	listener.SetUnlinkOnClose(false) // as SIGKILL does not
	listener.Close()
	if names, err := Running(); err != nil || slices.Contains(names, name) {
		t.Errorf("published are %q, %v", names, err)
	}
	for range 2 {
		listener, err = listen(name)
		testutil.OK(t, err)
		listener.Close()
	}
}

func TestPrivateFolders(t *testing.T) {
	dir := t.TempDir()
	for what, path := range map[string]func(string) error{
		"":                           func(p string) error { return os.Mkdir(p, 0o700) },
		"closed to others":           func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o750)) },
		"not a directory":            func(p string) error { return os.WriteFile(p, nil, 0o700) },
		"too many levels of symboli": func(p string) error { return os.Symlink(dir, p) },
	} {
		p := filepath.Join(dir, "f"+what)
		testutil.OK(t, path(p))
		f, err := openPrivate(p)
		if (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
		if err == nil {
			f.Close()
		}
	}
	if os.Geteuid() == 0 {
		p := filepath.Join(dir, "theirs")
		testutil.OK(t, errors.Join(os.Mkdir(p, 0o700), os.Chown(p, 65534, 65534)))
		if f, err := openPrivate(p); err == nil || !strings.Contains(err.Error(), "is of user 65534") {
			f.Close()
			t.Errorf("another's folder: %v", err)
		}
	}
}
