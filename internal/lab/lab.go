package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hopbench/hopbench/internal/lab/message"
)

// ErrClosed is what a lab's methods return after Close.
var ErrClosed = errors.New("the lab is closed")

// Lab is a running lab. Its methods may be used by several goroutines.
type Lab struct {
	topology Topology
	conn     *message.Conn
	ready    chan message.Message
	exited   chan struct{} // closed when the supervisor has ended, and with it every process of the lab
	readDone chan struct{} // closed when no more messages are read
	done     chan struct{} // see Done

	mu          sync.Mutex
	err         error
	closing     bool
	process     *os.Process
	controls    map[string]net.Conn
	pending     map[uint64]chan message.Message
	last        uint64 // id of the last request
	environment map[string]string
	facts       []string
	stderr      *tail
	published   []*publication
	health      map[string]backendHealth // of load balancers, by node
	inForce     map[string]string        // path in force, by the one that has the nodes

	switching sync.Mutex // one Switch at a time
}

// Start builds t and returns when every node is routed and every agent's
// process runs. When ctx ends before, or anything fails, nothing is left. The
// lab lives until Close, or until the calling process ends.
func Start(ctx context.Context, t Topology, o Options) (*Lab, error) {
	l, err := start(ctx, t, o)
	if err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	return l, nil
}

func start(ctx context.Context, t Topology, o Options) (*Lab, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if len(o.NodeCommand) == 0 && slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Agent }) {
		return nil, errors.New("the topology has agents, but Options.NodeCommand does not say what to run")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &Lab{
		topology: t,
		ready:    make(chan message.Message, 1),
		exited:   make(chan struct{}), readDone: make(chan struct{}), done: make(chan struct{}),
		controls: make(map[string]net.Conn), pending: make(map[uint64]chan message.Message),
		health: make(map[string]backendHealth), inForce: make(map[string]string),
	}
	if err := l.launch(o.Executable); err != nil {
		return nil, err
	}
	if err := l.await(ctx, message.BuildRequest{Topology: t, Executable: cmp.Or(o.Executable, selfExecutable), NodeCommand: o.NodeCommand}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// read handles what the supervisor sends until it ends.
func (l *Lab) read() {
	defer close(l.readDone)
	for {
		m, files, err := l.conn.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
				l.fail(fmt.Errorf("read from the lab's supervisor: %w", err))
			}
			// Whatever it still does, it cannot be talked to any more.
			l.kill()
			return
		}
		l.handle(m, files)
	}
}

func (l *Lab) handle(m message.Message, files []*os.File) {
	switch m.Verb {
	case message.Control:
		if len(files) == 1 {
			node, err := message.Body[string](m)
			if err == nil {
				var conn *message.Conn
				if conn, err = message.Open(files[0]); err == nil {
					l.mu.Lock()
					l.controls[node] = conn
					l.mu.Unlock()
				}
			}
			if err != nil {
				l.fail(fmt.Errorf("control socket of node %s: %w", node, err))
			}
			return
		}
	case message.Ready:
		select {
		case l.ready <- m:
		default: // said twice
		}
	case message.Died:
		if death, err := message.Body[Death](m); err == nil {
			l.fail(&death)
		}
	case message.Health:
		if found, err := message.Body[message.HealthReport](m); err == nil {
			l.tookHealth(found)
		}
	case message.Reply:
		l.mu.Lock()
		answer := l.pending[m.ID]
		delete(l.pending, m.ID)
		l.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
	message.CloseAll(files)
}

// fail records the first failure and closes Done.
func (l *Lab) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if l.closing {
		err = ErrClosed
	}
	l.err = err
	close(l.done)
}

// await asks for the topology and waits until it stands.
func (l *Lab) await(ctx context.Context, b message.BuildRequest) error {
	if err := l.conn.Send(message.Build, 0, b); err != nil {
		return fmt.Errorf("tell the supervisor what to build: %w", err)
	}
	select {
	case m := <-l.ready:
		state, err := message.Body[message.State](m)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.environment, l.facts = state.Environment, state.Facts
		l.mu.Unlock()
		if m.Error != "" {
			return errors.New(m.Error)
		}
		return nil
	case <-l.done:
		return l.WithStderr(l.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithStderr adds what the lab's processes said, once all of it is read.
func (l *Lab) WithStderr(err error) error {
	l.kill()
	<-l.exited
	if said := strings.TrimSpace(l.stderr.String()); said != "" {
		return fmt.Errorf("%w; its processes said: %s", err, said)
	}
	return err
}

func (l *Lab) kill() {
	// It may have ended by itself; os.Process knows and does not signal another.
	if err := l.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		l.fail(fmt.Errorf("kill the lab's supervisor: %w", err))
	}
}

// Close ends every process of the lab and returns when all of them are gone;
// the kernel removes what they held. It may be called more than once.
func (l *Lab) Close() error {
	l.mu.Lock()
	l.closing = true
	published := l.published
	l.published = nil
	l.mu.Unlock()
	for _, p := range published {
		p.close()
	}
	l.kill()
	<-l.exited
	err := l.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	<-l.stderr.done
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, conn := range l.controls {
		conn.Close() // the caller may have closed it already
		delete(l.controls, name)
	}
	return err
}

// Control is the connection to the agent of a node: the other end of the
// socket that the agent has as file descriptor 3. It is the same at every call,
// and Close closes it.
func (l *Lab) Control(node string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.controls[node]
	if conn == nil {
		return nil, fmt.Errorf("the lab has no agent at node %q", node)
	}
	return conn, nil
}

// Done is closed when the supervisor, an agent or a link emulator ends, and after Close.
func (l *Lab) Done() <-chan struct{} { return l.done }

// Err says why Done is closed: which process ended and how, or ErrClosed. It is
// nil while the lab is well.
func (l *Lab) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Nodes lists the names of the nodes in the order of the topology.
func (l *Lab) Nodes() []string { return l.topology.NodeNames() }

// Environment are the settings in force in the nodes with agents, by sysctl
// name; "name@node" where nodes differ.
func (l *Lab) Environment() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.environment)
}

// Facts are sentences on what this machine did not allow as wished.
func (l *Lab) Facts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.facts)
}

// Counters are those of every interface of every node, and of every link emulator. With
// names of nodes they are those of these nodes alone, and of the link emulators whose
// A end is at one of them; with "node:interface" of the node, and of the link emulator
// whose A end is that interface.
func (l *Lab) Counters(ctx context.Context, nodes ...string) (Counters, error) {
	counters, err := call[Counters](ctx, l, message.Count, nodes)
	if err != nil {
		return Counters{}, fmt.Errorf("read the lab's counters: %w", err)
	}
	return counters, nil
}
