package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/cable"
)

// supervisor is process 1 of a lab.
type supervisor struct {
	wire     *wire
	build    build
	builder  *builder
	children *nursery
	null     *os.File

	mu       sync.Mutex
	commands map[uint64]*command // opExec requests that are not answered yet
	cables   map[int]*wire       // to the processes of cables, by link

	counting  sync.Mutex // one asks the cables at a time
	switching sync.Mutex // one changes routes at a time
	dividers  dividers
}

// command is a program that the caller asked for.
type command struct {
	child   *child        // nil until it runs
	pending []unix.Signal // that came before
}

// supervisorMain serves the caller until it goes away. Its exit ends the lab:
// the kernel kills what is left in the pid namespace.
func supervisorMain() int {
	// Nothing else may use the main thread: threads that end must not be it,
	// and /proc/self shows its namespaces.
	runtime.LockOSThread()
	conn, err := connOf(os.NewFile(controlDescriptor, "control"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v; the lab starts this process\n", supervisorRole, err)
		return 1
	}
	s := &supervisor{
		wire:     &wire{conn: conn},
		children: newNursery(),
		commands: make(map[uint64]*command),
		cables:   make(map[int]*wire),
		dividers: dividers{active: make(map[string]int), watched: make(map[string]bool)},
		builder:  &builder{nodes: make(map[string]*node), ports: make(map[int][2]*cable.Port)},
	}
	if err := s.serve(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", supervisorRole, err)
		return 1
	}
	return 0
}

// serve reads requests until the caller closes the socket.
func (s *supervisor) serve() error {
	for {
		m, files, err := s.wire.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the caller: %w", err)
		}
		switch m.Op {
		case opBuild:
			// In the background, so that a caller who goes away meanwhile is noticed.
			go s.answerBuild(m)
		case opExec:
			// Entered before the next message, which may be a signal for it.
			s.mu.Lock()
			s.commands[m.ID] = &command{}
			s.mu.Unlock()
			go s.exec(m, files)
			continue // exec owns the files
		case opSignal:
			s.signalCommand(m.ID, unix.Signal(m.Signal))
		case opMode, opAlerts:
			go s.passToInspector(m)
		case opCounters:
			go s.answerCounters(m)
		case opSwitch:
			go s.answerSwitch(m)
		case opProbe:
			go s.answerProbe(m)
		case opOuterPorts:
			go s.answerOuterPorts(m)
		case opScale:
			go s.answerScale(m)
		case opWatch:
			go s.answerWatch(m)
		default:
			s.reply(message{ID: m.ID, Error: fmt.Sprintf("the lab knows no operation %q", m.Op)})
		}
		closeAll(files)
	}
}

// reply sends a message of any kind; when that fails the caller is gone, which
// serve notices.
func (s *supervisor) reply(m message, files ...*os.File) {
	if m.Op == "" {
		m.Op = opReply
	}
	if err := s.wire.send(m, files...); err != nil {
		fmt.Fprintf(os.Stderr, "%s: answer the caller: %v\n", supervisorRole, err)
	}
}

func (s *supervisor) answerBuild(m message) {
	ready := message{Op: opReady}
	if m.Build == nil {
		ready.Error = "a build without a topology"
	} else {
		s.build = *m.Build
		if err := s.up(); err != nil {
			ready.Error = err.Error()
		} else {
			ready.Environment = s.environment()
		}
	}
	ready.Facts = s.facts()
	s.reply(ready)
}

// up builds the whole lab.
func (s *supervisor) up() error {
	plan, err := s.build.Topology.Plan()
	if err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	s.builder.topology = s.build.Topology
	if err := s.builder.network(plan); err != nil {
		return err
	}
	var cables, agents []Operation
	for _, o := range plan {
		switch o.Verb {
		case RunCable:
			cables = append(cables, o)
		case RunAgent:
			agents = append(agents, o)
		}
	}
	if err := parallel(len(cables), func(i int) error { return s.runCable(cables[i]) }); err != nil {
		return err
	}
	return parallel(len(agents), func(i int) error { return s.runAgent(agents[i]) })
}

// prepare makes the supervisor's own namespaces fit to live in.
func (s *supervisor) prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", explainNamespace(err))
	}
	// A fresh /proc shows the processes of the lab alone. In a container that
	// hides parts of /proc the kernel refuses one (mount_too_revealing in
	// fs/namespace.c); then the old one must do.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		s.addFact(fmt.Sprintf("programs in the lab see the host's /proc: mounting a fresh one was refused (%v)", err))
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the null device: %w", err)
	}
	s.null = null
	own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer own.Close()
	if err := own.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, Name: "lo"}}); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

func (s *supervisor) addFact(fact string) {
	s.builder.mu.Lock()
	defer s.builder.mu.Unlock()
	s.builder.facts = append(s.builder.facts, fact)
}

func (s *supervisor) facts() []string {
	s.builder.mu.Lock()
	defer s.builder.mu.Unlock()
	facts := append(slices.Clone(s.builder.facts), s.builder.topology.Notes...)
	for _, n := range s.builder.topology.Nodes {
		if made := s.builder.nodes[n.Name]; made != nil {
			facts = append(facts, made.refused...)
		}
	}
	return facts
}

// runCable starts the process of a cable and hands its ports over.
func (s *supervisor) runCable(o Operation) error {
	link := s.build.Topology.Links[o.Link]
	s.builder.mu.Lock()
	ports := s.builder.ports[o.Link]
	delete(s.builder.ports, o.Link)
	s.builder.mu.Unlock()
	job := cableJob{Link: link.name(), Config: *link.Cable, IDPS: link.IDPS}
	job.Config.MTU = link.mtu()
	mine, its, err := socketPair("cable")
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	defer its.Close()
	conn, err := connOf(mine)
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	s.mu.Lock()
	s.cables[o.Link] = &wire{conn: conn}
	s.mu.Unlock()
	files := []*os.File{s.null, s.null, os.Stderr, its}
	var errs []error
	for i, p := range ports {
		job.Kinds[i] = p.Kind()
		f, err := p.File()
		errs = append(errs, err, p.Close())
		if err == nil {
			defer f.Close()
			files = append(files, f)
		}
	}
	if link.IDPS != nil && link.IDPS.Rules != "" {
		rules, err := rulesFile(s.build.Topology.RuleFiles[link.IDPS.Rules])
		if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
		defer rules.Close()
		files = append(files, rules)
	}
	argument, err := json.Marshal(job)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("%s: hand over the ports: %w", o, err)
	}
	c, err := s.children.start(program{
		path: s.build.Executable, argv: []string{cableRole, string(argument)}, env: os.Environ(), files: files,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	go s.report(c, Death{Process: "cable " + job.Link, Node: link.A.Node, Interface: link.A.Interface, Address: link.A.Address.Addr()})
	return nil
}

// runAgent starts the program of a node and passes the other end of its control
// socket to the caller.
func (s *supervisor) runAgent(o Operation) error {
	mine, its, err := socketPair("control")
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	defer mine.Close()
	defer its.Close()
	c, err := s.children.start(program{
		path: s.build.Executable, argv: append([]string{"hopbench:" + o.Node}, s.build.NodeCommand...),
		env: os.Environ(), files: []*os.File{s.null, os.Stderr, os.Stderr, its}, node: s.builder.nodes[o.Node],
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	go s.report(c, Death{Process: "node " + o.Node, Node: o.Node})
	s.reply(message{Op: opControl, Node: o.Node}, mine)
	return nil
}

// report tells the caller when a process ends that should live as long as the lab.
func (s *supervisor) report(c *child, d Death) {
	<-c.ended
	d.Status = describe(c.status)
	s.reply(message{Op: opDied, Death: &d})
}

// exec runs a command and answers when it has ended.
func (s *supervisor) exec(m message, files []*os.File) {
	defer closeAll(files)
	c, err := s.startCommand(m, files)
	if err == nil {
		s.mu.Lock()
		entered := s.commands[m.ID]
		entered.child = c
		s.mu.Unlock()
		for _, signal := range entered.pending {
			s.signalChild(c, signal)
		}
		<-c.ended
	}
	s.mu.Lock()
	delete(s.commands, m.ID)
	s.mu.Unlock()
	if err != nil {
		s.reply(message{ID: m.ID, Error: err.Error()})
		return
	}
	e := &exit{Code: c.status.ExitStatus()}
	if c.status.Signaled() {
		e.Code, e.Signal = 128+int(c.status.Signal()), int(c.status.Signal())
	}
	s.reply(message{ID: m.ID, Exit: e})
}

func (s *supervisor) startCommand(m message, files []*os.File) (*child, error) {
	s.builder.mu.Lock()
	n := s.builder.nodes[m.Node]
	s.builder.mu.Unlock()
	if n == nil {
		return nil, fmt.Errorf("the lab has no node %q; it has %s", m.Node, strings.Join(nodeNames(s.build.Topology), ", "))
	}
	if m.Exec == nil || len(m.Exec.Argv) == 0 || len(files) != 3 {
		return nil, errors.New("a command needs a program and three descriptors")
	}
	path, err := lookPath(m.Exec.Argv[0], m.Exec.Env, m.Exec.Dir)
	if err != nil {
		return nil, err
	}
	return s.children.start(program{
		path: path, argv: m.Exec.Argv, env: m.Exec.Env, dir: m.Exec.Dir, files: files, node: n,
	})
}

func (s *supervisor) signalCommand(id uint64, signal unix.Signal) {
	s.mu.Lock()
	c := s.commands[id]
	if c == nil { // it has ended
		s.mu.Unlock()
		return
	}
	running := c.child
	if running == nil {
		c.pending = append(c.pending, signal)
	}
	s.mu.Unlock()
	if running != nil {
		s.signalChild(running, signal)
	}
}

func (s *supervisor) signalChild(c *child, signal unix.Signal) {
	if err := s.children.signal(c, signal); err != nil && !errors.Is(err, unix.ESRCH) {
		fmt.Fprintf(os.Stderr, "%s: send signal %d: %v\n", supervisorRole, signal, err)
	}
}

// lookPath finds a program as a shell would, in the PATH of env.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		if p, found := strings.CutPrefix(e, "PATH="); found && p != "" {
			// Tools of network administration are often outside the PATH of
			// an ordinary user, who is root in the node.
			path = p + ":/usr/local/sbin:/usr/sbin:/sbin"
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		candidate := filepath.Join(d, name)
		if unix.Access(candidate, unix.X_OK) == nil {
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
				return candidate, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w (looked in %s)", name, exec.ErrNotFound, path)
}
