package supervisor

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"golang.org/x/sys/unix"
)

// childSet starts the supervisor's children and collects every process that
// ends in its pid namespace, orphans included, as process 1 must. Nothing else
// in the supervisor may wait for processes.
type childSet struct {
	// mu is held from fork until the child is entered, and while statuses are
	// collected, so that none is collected before it is known whose it is.
	mu       sync.Mutex
	children map[int]*child
	signals  chan os.Signal
}

// child is a process that the supervisor started.
type child struct {
	pid    int
	ended  chan struct{}      // closed when it has ended
	status syscall.WaitStatus // valid then
}

func newChildSet() *childSet {
	n := &childSet{children: make(map[int]*child), signals: make(chan os.Signal, 1)}
	signal.Notify(n.signals, unix.SIGCHLD)
	go n.collect() // for as long as the process lives
	return n
}

func (n *childSet) collect() {
	for range n.signals {
		n.mu.Lock()
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			if c := n.children[pid]; c != nil {
				delete(n.children, pid)
				c.status = status
				close(c.ended)
			}
		}
		n.mu.Unlock()
	}
}

// program is what to start.
type program struct {
	path  string
	argv  []string
	env   []string
	dir   string
	files []*os.File  // descriptors 0, 1, 2, …; nil is closed
	node  *apply.Node // whose namespace to run in; nil is the supervisor's
}

// start runs p in a session of its own. A node's program gets its own mount
// namespace with a /sys that shows the node's interfaces, where the kernel
// allows that.
func (n *childSet) start(p program) (*child, error) {
	type result struct {
		c   *child
		err error
	}
	results := make(chan result, 1)
	go func() {
		// Never unlocked: the thread has changed namespaces and must end here.
		runtime.LockOSThread()
		var r result
		if p.node != nil {
			r.err = p.node.Enter()
		}
		if r.err == nil {
			r.c, r.err = n.fork(p)
		}
		results <- r
	}()
	r := <-results
	return r.c, r.err
}

func (n *childSet) fork(p program) (*child, error) {
	fds := make([]uintptr, len(p.files))
	for i, f := range p.files {
		fds[i] = ^uintptr(0)
		if f != nil {
			fds[i] = f.Fd()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	pid, err := syscall.ForkExec(p.path, p.argv, &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: fds,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], apply.ExplainProcess(err))
	}
	c := &child{pid: pid, ended: make(chan struct{})}
	n.children[pid] = c
	return c, nil
}

// signal sends to the child's whole process group, unless the child has ended.
func (n *childSet) signal(c *child, s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.children[c.pid] != c {
		return nil
	}
	return syscall.Kill(-c.pid, s)
}

// Describe says how a process ended: "was killed by signal 9 (killed)".
func Describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%s)", int(status.Signal()), status.Signal())
	}
	return fmt.Sprintf("ended with status %d", status.ExitStatus())
}
