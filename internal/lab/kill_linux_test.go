package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/supervisor"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// markName is in the environment of every process of a lab that these tests
// hold, so that they are told from all others on the machine.
const markName = "HOPBENCH_LAB_TEST_MARK="

// process is one of a lab, seen from the host.
type process struct {
	pid        int
	name       string // argv[0]
	namespaces []string
}

// marked finds the living processes that carry a mark. A zombie has no
// environment any more, and its parent collects it.
func marked(t *testing.T, mark string) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	testutil.OK(t, err)
	var found []process
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(environ, []byte(markName+mark+"\x00")) {
			continue // ended meanwhile, or another user's
		}
		p := process{}
		if p.pid, err = strconv.Atoi(filepath.Base(dir)); err != nil {
			t.Fatal(err)
		}
		if line, err := os.ReadFile(dir + "/cmdline"); err == nil {
			p.name, _, _ = strings.Cut(string(line), "\x00")
		}
		p.namespaces = namespacesOf(dir)
		found = append(found, p)
	}
	return found
}

// namespacesOf names the namespaces of the process or thread whose directory in
// /proc is dir: by their unique id where the kernel tells it (NS_GET_ID of
// linux/nsfs.h, Linux 6.18), else by inode number, which the kernel uses again
// for the namespaces of anything else that starts meanwhile.
func namespacesOf(dir string) []string {
	const nsGetID = 0x8008b70d // _IOR(0xb7, 13, __u64)
	var all []string
	for _, kind := range []string{"net", "mnt", "user", "pid", "ipc", "uts"} {
		f, err := os.Open(dir + "/ns/" + kind)
		if err != nil {
			continue // it ended meanwhile
		}
		var id uint64
		name, err := os.Readlink(dir + "/ns/" + kind)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), nsGetID, uintptr(unsafe.Pointer(&id))); errno == 0 {
			name, err = fmt.Sprintf("%s id %d", kind, id), nil
		}
		f.Close()
		if err == nil {
			all = append(all, name)
		}
	}
	return all
}

// onOwnHost runs a test with links and mounts of its own, which are then those
// of the host that a lab must not change, and which nothing else changes.
func onOwnHost(t *testing.T, body func(*testing.T)) {
	needLab(t)
	testutil.InNamespaces(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS, func(t *testing.T) {
		// Private to it, and shared with those that it starts, as on a real host.
		for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
			testutil.OK(t, unix.Mount("", "/", "", unix.MS_REC|propagation, ""))
		}
		body(t)
	})
}

// machine is the state of the host that a lab must not change.
func machine(t *testing.T) string {
	t.Helper()
	links, err := apply.UntilComplete(netlink.LinkList)
	testutil.OK(t, err)
	var b strings.Builder
	for _, l := range links {
		fmt.Fprintf(&b, "link %d %s\n", l.Attrs().Index, l.Attrs().Name)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	testutil.OK(t, err)
	b.Write(mounts)
	return b.String()
}

// alive are the namespaces that any process of the machine is in.
func alive(t *testing.T) map[string]bool {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	testutil.OK(t, err)
	all := make(map[string]bool)
	for _, dir := range processes {
		for _, name := range namespacesOf(dir) {
			all[name] = true
		}
	}
	return all
}

// holder is a child process that holds a lab.
type holder struct {
	mark  string
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string // what it prints
	seen  map[string]bool
}

func startHolder(t *testing.T, mark string) *holder {
	t.Helper()
	h := &holder{mark: mark, lines: make(chan string, 16), seen: make(map[string]bool)}
	h.cmd = exec.Command(selfExecutable, "hold-lab")
	h.cmd.Env = append(os.Environ(), markName+mark)
	stdout, err := h.cmd.StdoutPipe()
	testutil.OK(t, err)
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	testutil.OK(t, h.cmd.Start())
	t.Cleanup(func() {
		if h.cmd.ProcessState == nil { // nobody waited for it: the test fails already
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	})
	// Start waits until execve has closed its descriptors, which the kernel does
	// before it gives the process its new environment (begin_new_exec of
	// fs/exec.c, create_elf_tables of fs/binfmt_elf.c).
	poll(t, func() bool {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", h.cmd.Process.Pid))
		return err != nil || bytes.Contains(environ, []byte(markName+mark+"\x00"))
	}, func() string { return "the holder has no environment" })
	go func() {
		defer close(h.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	return h
}

// look notes the namespaces that the lab has now in addition to the host's.
func (h *holder) look(t *testing.T) []process {
	t.Helper()
	host := namespacesOf("/proc/self")
	all := marked(t, h.mark)
	for _, p := range all {
		for _, name := range p.namespaces {
			if !slices.Contains(host, name) {
				h.seen[name] = true
			}
		}
	}
	return all
}

// end waits for the holder and returns what else it printed.
func (h *holder) end(t *testing.T) []string {
	t.Helper()
	var lines []string
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line, open := <-h.lines:
			if open {
				lines = append(lines, line)
				continue
			}
			var failed *exec.ExitError
			if err := h.cmd.Wait(); err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			return lines
		case <-deadline:
			_ = h.cmd.Process.Kill() // the test fails already
			t.Fatalf("the holder of the lab did not end; it printed %q", lines)
		}
	}
}

// vanished polls until nothing of the lab is left.
func (h *holder) vanished(t *testing.T, before string) {
	t.Helper()
	var left string
	poll(t, func() bool {
		left = ""
		for _, p := range marked(t, h.mark) {
			left += fmt.Sprintf("process %d %s\n", p.pid, p.name)
		}
		now := alive(t)
		for name := range h.seen {
			if now[name] {
				left += "namespace " + name + "\n"
			}
		}
		if after := machine(t); after != before {
			left += "links or mounts:\n" + after + "before:\n" + before
		}
		return left == ""
	}, func() string { return "left of the lab:\n" + left })
}

// poll waits until done says so.
func poll(t *testing.T, done func() bool, what func() string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for pause := time.Millisecond; !done(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
		time.Sleep(pause)
	}
}

func TestKilledAnywhereLeavesNothing(t *testing.T) { onOwnHost(t, killAnywhere) }

func killAnywhere(t *testing.T) {
	rounds := testutil.Repeat(6, 60)
	random := rand.New(rand.NewPCG(20, 26))
	victims := make(map[string]int)
	window := 30 * time.Millisecond // at least as long as a lab takes to come up
	for round := range rounds {
		before := machine(t)
		start := time.Now()
		h := startHolder(t, fmt.Sprintf("%d-%d", os.Getpid(), round))
		// Every other round strikes while the lab comes up, the others after.
		ready := round%2 == 1
		if ready {
			if line := <-h.lines; line != "ready" {
				t.Fatalf("round %d: the holder says %q", round, line)
			}
			window = max(window, time.Since(start))
		}
		wait := time.Duration(random.Int64N(int64(window)))
		<-time.After(wait) // the random moment
		all := h.look(t)
		if len(all) == 0 {
			t.Fatalf("round %d: the holder is not among the processes", round)
		}
		all = slices.DeleteFunc(all, func(p process) bool { return isProbe(p, h.cmd.Process.Pid, all) })
		victim := all[random.IntN(len(all))]
		if err := unix.Kill(victim.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		lines := h.end(t)
		h.vanished(t, before)
		victims[filepath.Base(victim.name)]++
		t.Logf("round %d: after %s killed %s of %d processes: %q", round, wait, victim.name, len(all), lines)
		if want := obituary(victim.name); ready && want != "" {
			if len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("round %d: %s was killed, the lab says %q, not %q", round, victim.name, lines, want)
			}
		}
	}
	t.Logf("killed: %v", slices.Sorted(maps.Keys(victims)))
}

// isProbe says that a process is the child with which Go's runtime tries whether
// there are pidfds (checkClonePidfd in syscall/exec_linux.go) when the holder
// starts its first: it ends at once, in the holder's own namespaces, and the lab
// is none the worse for it. A lab's supervisor has namespaces of its own from
// its clone on. Of a process that ended while it was looked at some may be missing.
func isProbe(p process, holder int, all []process) bool {
	i := slices.IndexFunc(all, func(other process) bool { return other.pid == holder })
	own := func(name string) bool { return !slices.Contains(all[i].namespaces, name) }
	return i >= 0 && p.pid != holder && !slices.ContainsFunc(p.namespaces, own)
}

// obituary is what the lab must say of a killed process.
func obituary(name string) string {
	node, isNode := strings.CutPrefix(name, "hopbench:")
	switch {
	case isNode:
		return "ended: node " + node + " was killed by signal 9 (killed)"
	case name == supervisor.Role:
		return "ended: the lab's supervisor was killed by signal 9 (killed)"
	case name == supervisor.LinkRole:
		return "ended: link emulator source:right--router-1:left was killed by signal 9 (killed)"
	}
	return ""
}

// A stopped supervisor cannot notice that its caller is gone; the kernel does.
func TestStoppedSupervisorDiesWithItsCaller(t *testing.T) { onOwnHost(t, stopSupervisor) }

func stopSupervisor(t *testing.T) {
	before := machine(t)
	h := startHolder(t, fmt.Sprintf("%d-stopped", os.Getpid()))
	if line := <-h.lines; line != "ready" {
		t.Fatalf("the holder says %q", line)
	}
	for _, p := range h.look(t) {
		if p.name == supervisor.Role {
			testutil.OK(t, unix.Kill(p.pid, unix.SIGSTOP))
		}
	}
	testutil.OK(t, h.cmd.Process.Kill())
	h.end(t)
	h.vanished(t, before)
}

func TestCloseLeavesNothing(t *testing.T) { onOwnHost(t, closeLab) }

func closeLab(t *testing.T) {
	before := machine(t)
	h := startHolder(t, fmt.Sprintf("%d-close", os.Getpid()))
	if line := <-h.lines; line != "ready" {
		t.Fatalf("the holder says %q", line)
	}
	// An agent that gives itself its name has no environment to be known by meanwhile.
	var all []process
	poll(t, func() bool {
		all = h.look(t)
		return len(all) == 5
	}, func() string {
		return fmt.Sprintf("holder, supervisor, two agents and a link emulator are 5 processes, not %v", all)
	})
	testutil.OK(t, h.stdin.Close())
	if lines := h.end(t); len(lines) != 0 {
		t.Errorf("the holder says %q", lines)
	}
	h.vanished(t, before)
}

func TestCancelledStartLeavesNothing(t *testing.T) { onOwnHost(t, cancelStart) }

func cancelStart(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	before := machine(t)
	start := time.Now()
	testutil.OK(t, startLab(t, chain(4, nil)).Close())
	window := max(40*time.Millisecond, time.Since(start)) // longer than a start takes
	cancelled, rounds := 0, testutil.Repeat(10, 60)
	for round := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(window))))
		l, err := Start(ctx, chain(4, nil), Options{NodeCommand: []string{"echo-agent"}})
		cancel()
		switch {
		case err == nil:
			testutil.OK(t, l.Close())
		case errors.Is(err, context.DeadlineExceeded):
			cancelled++
		default:
			t.Fatalf("round %d: %v", round, err)
		}
		if children := childrenOfSelf(t); len(children) > 0 {
			t.Fatalf("round %d: Start returned, but these run: %v", round, children)
		}
	}
	if after := machine(t); after != before {
		t.Errorf("links or mounts were\n%s\nand are\n%s", before, after)
	}
	t.Logf("%d of %d were cancelled while they came up", cancelled, rounds)
}

func childrenOfSelf(t *testing.T) []string {
	t.Helper()
	var found []string
	files, err := filepath.Glob("/proc/self/task/*/children")
	testutil.OK(t, err)
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(b)) > 0 { // a thread may have ended
			found = append(found, strings.TrimSpace(string(b)))
		}
	}
	return found
}
