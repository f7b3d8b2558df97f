package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the server may have.
const (
	maxProcesses   = 200
	maxDescriptors = 512
	maxMemory      = 512 << 20
)

// launchEnv has this program become another one, under limits.
const launchEnv = "HOPBENCH_SOAK_LAUNCH"

// limits of a program, which is given as arguments.
type limits struct {
	Processes, Descriptors uint64 // no limit of processes if 0
	User                   int    // to become, unless 0
	Join                   string // the control group's cgroup.procs; may be empty
}

// launch becomes the program of the arguments. A program that reads its limits
// when it begins could not be given them any later.
func launch(text string) error {
	runtime.LockOSThread()
	var l limits
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	if l.Join != "" {
		if err := os.WriteFile(l.Join, []byte("0"), 0); err != nil { // 0 is the writer
			return err
		}
	}
	limit := func(resource int, n uint64) error {
		return unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n})
	}
	err := limit(unix.RLIMIT_NOFILE, l.Descriptors)
	if l.Processes > 0 {
		err = errors.Join(err, limit(unix.RLIMIT_NPROC, l.Processes))
	}
	if l.User != 0 {
		err = errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(l.User), syscall.Setuid(l.User))
	}
	// Becoming somebody else has cleared it.
	err = errors.Join(err, unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0), os.Unsetenv(launchEnv))
	if err != nil {
		return err
	}
	return fmt.Errorf("become %s: %w", os.Args[1], syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
}

// serverLimits are those that this user can set, and says which it cannot.
func serverLimits(t *testing.T, group *group) limits {
	l := limits{Descriptors: maxDescriptors}
	if group != nil {
		l.Join = filepath.Join(group.dir, "cgroup.procs")
	}
	if os.Getuid() != 0 || userNamespace() {
		t.Log("processes are not limited: only root can give the server a user of its own, and those of a user are counted together")
		return l
	}
	// A user of its own, since all processes of one count.
	l.Processes, l.User = maxProcesses, 1<<30+os.Getpid()
	return l
}

// userNamespace says whether root here is another user of the host.
func userNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(text))
	return err == nil && (len(fields) != 3 || fields[0] != fields[1])
}

// group is a control group for the server's memory.
type group struct {
	dir          string
	usage        string // the file with the bytes of all kinds
	events       string // the file that counts the processes that were killed
	cache, shmem *regexp.Regexp
}

const groupPrefix = "hopbench-soak-"

// newGroup makes a control group with a limit of memory, nil and why if it
// cannot, and removes those of soaks that were killed.
func newGroup(t *testing.T) (*group, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	parent, v2, err := parentGroup("/sys/fs/cgroup", string(text))
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(parent, groupPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(filepath.Base(dir), groupPrefix)); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(dir) // it stays while a process is in it
		}
	}
	g := &group{dir: filepath.Join(parent, groupPrefix+strconv.Itoa(os.Getpid()))}
	g.events = "memory.oom_control"
	g.usage, g.cache, g.shmem = "memory.usage_in_bytes", regexp.MustCompile(`(?m)^cache ([0-9]+)$`), regexp.MustCompile(`(?m)^shmem ([0-9]+)$`)
	limit, swap := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	swapped := strconv.Itoa(maxMemory) // memory included
	if v2 {
		g.events = "memory.events"
		g.usage, g.cache = "memory.current", regexp.MustCompile(`(?m)^file ([0-9]+)$`)
		limit, swap, swapped = "memory.max", "memory.swap.max", "0"
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	t.Cleanup(func() { g.remove(t) }) // after the server, which is started later, has ended
	if err := os.WriteFile(filepath.Join(g.dir, limit), []byte(strconv.Itoa(maxMemory)), 0); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(g.dir, swap), []byte(swapped), 0); err != nil {
		t.Logf("swap is not limited: %v", err)
	}
	return g, nil
}

// parentGroup finds, below root, where a control group for memory can be made: of
// version 1, in the one that this process is in; of version 2, where groups with
// processes have no children, in the nearest above it that divides memory. The
// text is that of /proc/self/cgroup.
func parentGroup(root, text string) (dir string, v2 bool, err error) {
	unified := ""
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[0] == "0" {
			unified = fields[2]
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller == "memory" {
				dir = filepath.Join(root, "memory", fields[2])
				_, err := os.Stat(filepath.Join(dir, "memory.limit_in_bytes"))
				return dir, false, err
			}
		}
	}
	for path := filepath.Clean("/" + unified); ; path = filepath.Dir(path) {
		dir = filepath.Join(root, path)
		divided, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err == nil && strings.Contains(" "+strings.TrimSpace(string(divided))+" ", " memory ") {
			return dir, true, nil
		}
		if path == "/" {
			return "", false, fmt.Errorf("no control group from %s up divides memory", unified)
		}
	}
}

func (g *group) remove(t *testing.T) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("remove the control group: %v", err)
			return
		}
	}
}

var killLine = regexp.MustCompile(`(?m)^oom_kill [1-9]`)

// killed says whether the kernel has ended a process for its memory.
func (g *group) killed() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, g.events))
	return err == nil && killLine.Match(text)
}

// used is the bytes that the group holds and the kernel cannot take back by
// dropping pages of files.
func (g *group) used() (float64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.usage))
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	if err != nil {
		return 0, err
	}
	number := func(line *regexp.Regexp) float64 {
		found := line.FindSubmatch(stat)
		if found == nil {
			return 0
		}
		n, _ := strconv.ParseFloat(string(found[1]), 64) // digits
		return n
	}
	return used - (number(g.cache) - number(g.shmem)), nil
}
