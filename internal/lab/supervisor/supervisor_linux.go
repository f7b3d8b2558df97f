// Package supervisor has the processes of a lab: process 1, which builds it and
// starts all others, and those that carry a link's frames or check back ends.
package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"golang.org/x/sys/unix"
)

// supervisor is process 1 of a lab.
type supervisor struct {
	conn     *message.Conn
	build    message.BuildRequest
	builder  *apply.Builder
	children *childSet
	null     *os.File

	mu       sync.Mutex
	commands map[uint64]*command  // commands that have not ended
	links    map[int]*linkProcess // by link
	watched  map[string]bool      // nodes whose back ends are

	counting  sync.Mutex // one asks the processes of links at a time
	switching sync.Mutex // one changes routes, or the ways of flows, at a time
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
	conn, err := message.Open(os.NewFile(controlDescriptor, "control"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v; the lab starts this process\n", Role, err)
		return 1
	}
	s := &supervisor{
		conn:     conn,
		children: newChildSet(),
		commands: make(map[uint64]*command),
		links:    make(map[int]*linkProcess),
		watched:  make(map[string]bool),
		builder:  apply.New(topology.Topology{}),
	}
	if err := s.serve(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Role, err)
		return 1
	}
	return 0
}

// serve reads requests until the caller closes the socket.
func (s *supervisor) serve() error {
	handlers := map[message.Verb]message.Handler{
		message.Probe:      message.Handle(s.probe),
		message.OuterPorts: message.Handle(s.outerPorts),
		message.Mode:       s.setMode,
		message.Alerts:     s.alerts,
		message.Scale:      message.Do(s.scale),
		message.Forget:     message.Do(s.forget),
		message.Watch:      message.Do(s.watch),
		message.Count:      message.Handle(s.counters),
		message.Switch:     message.Do(s.switchTo),
	}
	for {
		m, files, err := s.conn.Receive()
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the caller: %w", err)
		}
		switch m.Verb {
		case message.Build:
			// In the background, so that a caller who goes away meanwhile is noticed.
			go s.up(m)
		case message.Exec:
			// Entered before the next message, which may be a signal for it.
			s.mu.Lock()
			s.commands[m.ID] = &command{}
			s.mu.Unlock()
			go s.exec(m, files)
			continue // exec owns the files
		case message.Signal:
			if signal, err := message.Body[int](m); err == nil {
				s.signalCommand(m.ID, unix.Signal(signal))
			}
		default:
			go s.handle(handlers[m.Verb], m)
		}
		message.CloseAll(files)
	}
}

// handle answers one request.
func (s *supervisor) handle(do message.Handler, m message.Message) {
	var body any
	err := fmt.Errorf("the lab knows no operation %q", m.Verb)
	if do != nil {
		body, err = do(m)
	}
	s.said(s.conn.Answer(m.ID, body, err))
}

// said reports a message that could not be sent: the caller is gone, which serve
// notices.
func (s *supervisor) said(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: answer the caller: %v\n", Role, err)
	}
}

// up builds the whole lab and says that it stands, or why not.
func (s *supervisor) up(m message.Message) {
	request, err := message.Body[message.BuildRequest](m)
	var state message.State
	if err == nil {
		s.build, s.builder = request, apply.New(request.Topology)
		if err = s.start(); err == nil {
			state.Environment = s.environment()
		}
	}
	state.Facts = s.builder.Facts()
	s.said(s.conn.SendResult(message.Ready, 0, state, err))
}

// start makes the network and then the processes.
func (s *supervisor) start() error {
	p, err := plan.Of(s.build.Topology)
	if err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.builder.Network(p); err != nil {
		return err
	}
	if err := apply.Each(p, s.runLink); err != nil {
		return err
	}
	return apply.Each(p, s.runAgent)
}

// prepare makes the supervisor's own namespaces fit to live in.
func (s *supervisor) prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", apply.ExplainNamespace(err))
	}
	// A fresh /proc shows the processes of the lab alone. In a container that
	// hides parts of /proc the kernel refuses one (mount_too_revealing in
	// fs/namespace.c); then the old one must do.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		s.builder.AddFact("programs in the lab see the host's /proc: mounting a fresh one was refused (%v)", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the null device: %w", err)
	}
	s.null = null
	return apply.LoopbackUp()
}

// runLink starts the process that carries a link's frames and hands its devices over.
func (s *supervisor) runLink(o plan.RunLink) error {
	link := o.Link
	job := linkJob{Link: link.Name(), Config: *link.Emulation, IDPS: link.IDPS}
	job.Config.MTU = link.EffectiveMTU()
	var files []*os.File
	var errs []error
	for i, p := range s.builder.TakePorts(o.Index) {
		job.Kinds[i] = p.Kind()
		f, err := p.File()
		errs = append(errs, err, p.Close())
		files = append(files, f)
	}
	if link.IDPS != nil && link.IDPS.Rules != "" {
		rules, err := rulesFile(s.build.Topology.RuleFiles[link.IDPS.Rules])
		errs, files = append(errs, err), append(files, rules)
	}
	defer message.CloseAll(files)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("hand over the ports: %w", err)
	}
	conn, err := s.startRole(LinkRole, job, nil, files,
		message.Death{Process: "link emulator " + job.Link, Node: link.A.Node, Interface: link.A.Interface, Address: link.A.Address.Addr()})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[o.Index] = newLinkProcess(conn)
	return nil
}

// startRole starts the own program in a role, with its job as the first argument,
// its end of a control socket as descriptor 3 and files behind that. A nil node is
// the supervisor's own namespace; death is reported when the process ends.
func (s *supervisor) startRole(role string, job any, node *apply.Node, files []*os.File, death message.Death) (*message.Conn, error) {
	argument, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	mine, its, err := message.SocketPair("control")
	if err != nil {
		return nil, err
	}
	defer its.Close()
	conn, err := message.Open(mine)
	if err != nil {
		return nil, err
	}
	said, stderr, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer stderr.Close()
	c, err := s.children.start(program{
		path: s.build.Executable, argv: []string{role, string(argument)}, env: os.Environ(),
		files: append([]*os.File{s.null, s.null, stderr, its}, files...), node: node,
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close(), said.Close())
	}
	go s.report(c, death, said)
	return conn, nil
}

// runAgent starts the program of a node and passes the other end of its control
// socket to the caller.
func (s *supervisor) runAgent(o plan.RunAgent) error {
	mine, its, err := message.SocketPair("control")
	if err != nil {
		return err
	}
	defer mine.Close()
	defer its.Close()
	n, err := s.builder.Node(o.Node)
	if err != nil {
		return err
	}
	c, err := s.children.start(program{
		path: s.build.Executable, argv: append([]string{"hopbench:" + o.Node}, s.build.NodeCommand...),
		env: os.Environ(), files: []*os.File{s.null, os.Stderr, os.Stderr, its}, node: n,
	})
	if err != nil {
		return err
	}
	go s.report(c, message.Death{Process: "node " + o.Node, Node: o.Node}, nil)
	s.said(s.conn.Send(message.Control, 0, o.Node, mine))
	return nil
}

// report tells the caller when a process ends that should live as long as the lab, with the
// first line of what it said on its standard error, if that comes through here.
func (s *supervisor) report(c *child, d message.Death, said *os.File) {
	var line string
	if said != nil {
		r := bufio.NewReader(io.TeeReader(said, os.Stderr))
		line, _ = r.ReadString('\n')
		_, _ = io.Copy(io.Discard, r) // until its end, for standard error
		said.Close()
	}
	<-c.ended
	d.Status = Describe(c.status)
	if line = strings.TrimSpace(line); line != "" {
		d.Status += ": " + line
	}
	s.said(s.conn.Send(message.Died, 0, d))
}

// exec runs a command and answers when it has ended.
func (s *supervisor) exec(m message.Message, files []*os.File) {
	defer message.CloseAll(files)
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
		s.said(s.conn.Answer(m.ID, nil, err))
		return
	}
	code := c.status.ExitStatus()
	if c.status.Signaled() {
		code = 128 + int(c.status.Signal())
	}
	s.said(s.conn.Answer(m.ID, message.Exit{Code: code}, nil))
}

func (s *supervisor) startCommand(m message.Message, files []*os.File) (*child, error) {
	command, err := message.Body[message.Command](m)
	if err != nil {
		return nil, err
	}
	n, err := s.builder.Node(command.Node)
	if err != nil {
		return nil, err
	}
	if len(command.Argv) == 0 || len(files) != 3 {
		return nil, errors.New("a command needs a program and three descriptors")
	}
	path, err := lookPath(command.Argv[0], command.Env, command.Dir)
	if err != nil {
		return nil, err
	}
	return s.children.start(program{path: path, argv: command.Argv, env: command.Env, dir: command.Dir, files: files, node: n})
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
		fmt.Fprintf(os.Stderr, "%s: send signal %d: %v\n", Role, signal, err)
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
