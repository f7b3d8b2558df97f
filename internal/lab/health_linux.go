package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

// healthRole is the process in a load balancer's node that checks its back ends.
const healthRole = "hopbench-lab-health"

// The health check: a back end whose port did not accept a TCP connection
// within healthTimeout, healthFailures times in a row, gets no more new flows
// until it accepts one. Checks are healthInterval apart.
const (
	healthInterval = time.Second
	healthTimeout  = 500 * time.Millisecond
	healthFailures = 2
)

// healthJob is what the process is told, as its first argument. Its control
// socket is descriptor 3.
type healthJob struct {
	Node    string         `json:"node"`
	Balance filter.Balance `json:"balance"`
	Port    uint16         `json:"port"`
}

func healthMain(args []string) int {
	if err := runHealth(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", healthRole, err)
		return 1
	}
	return 0
}

func runHealth(args []string) error {
	if len(args) != 2 {
		return errors.New("started without its job; the lab starts this process")
	}
	var job healthJob
	if err := json.Unmarshal([]byte(args[1]), &job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	conn, err := connOf(os.NewFile(controlDescriptor, "control"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return job.check(ctx, &wire{conn: conn})
}

// check watches the back ends until ctx ends, and tells of every change.
func (j healthJob) check(ctx context.Context, w *wire) error {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	failures := make([]int, len(j.Balance.Backends))
	var down []netip.Addr
	for first := true; ; first = false {
		j.tryAll(ctx, failures)
		if ctx.Err() != nil {
			return nil
		}
		now := j.down(failures)
		if !slices.Equal(now, down) {
			if err := j.without(now).Apply(); err != nil {
				return err
			}
		}
		if first || !slices.Equal(now, down) {
			if err := w.send(message{Op: opHealth, Health: &health{Node: j.Node, Down: now}}); err != nil {
				return fmt.Errorf("tell the supervisor: %w", err)
			}
		}
		down = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryAll connects to every back end at the same time and counts failures in a row.
func (j healthJob) tryAll(ctx context.Context, failures []int) {
	dialer := net.Dialer{Timeout: healthTimeout}
	var wg sync.WaitGroup
	for i, a := range j.Balance.Backends {
		wg.Go(func() {
			c, err := dialer.DialContext(ctx, "tcp4", netip.AddrPortFrom(a, j.Port).String())
			if err != nil {
				failures[i]++
				return
			}
			failures[i] = 0
			_ = c.Close() // that it came about is all that counts
		})
	}
	wg.Wait()
}

func (j healthJob) down(failures []int) []netip.Addr {
	var down []netip.Addr
	for i, n := range failures {
		if n >= healthFailures {
			down = append(down, j.Balance.Backends[i])
		}
	}
	return down
}

// without is the balance among the other back ends.
func (j healthJob) without(down []netip.Addr) filter.Balance {
	b := filter.Balance{Address: j.Balance.Address}
	for _, a := range j.Balance.Backends {
		if !slices.Contains(down, a) {
			b.Backends = append(b.Backends, a)
		}
	}
	return b
}

// answerWatch starts the health checks of a load balancer. Its first finding,
// like all others, goes to the caller as opHealth.
func (s *supervisor) answerWatch(m message) {
	answer := message{ID: m.ID}
	if m.Watch == nil {
		answer.Error = "a request to watch that says nothing"
	} else if err := s.watch(*m.Watch); err != nil {
		answer.Error = err.Error()
	}
	s.reply(answer)
}

func (s *supervisor) watch(request watch) error {
	s.builder.mu.Lock()
	n := s.builder.nodes[request.Node]
	s.builder.mu.Unlock()
	if n == nil || n.spec.Balance == nil {
		return fmt.Errorf("node %q balances no flows", request.Node)
	}
	s.dividers.mu.Lock()
	twice := s.dividers.watched[request.Node]
	s.dividers.watched[request.Node] = true
	s.dividers.mu.Unlock()
	if twice {
		return fmt.Errorf("the back ends of node %s are watched already", request.Node)
	}
	argument, err := json.Marshal(healthJob{Node: request.Node, Balance: *n.spec.Balance, Port: request.Port})
	if err != nil {
		return err
	}
	mine, its, err := socketPair("health")
	if err != nil {
		return err
	}
	defer its.Close()
	conn, err := connOf(mine)
	if err != nil {
		return err
	}
	c, err := s.children.start(program{
		path: s.build.Executable, argv: []string{healthRole, string(argument)}, env: os.Environ(),
		files: []*os.File{s.null, s.null, os.Stderr, its}, node: n,
	})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	go s.report(c, Death{Process: "health check of node " + request.Node, Node: request.Node})
	go s.passHealth(&wire{conn: conn})
	return nil
}

// passHealth passes findings on to the caller until the process ends.
func (s *supervisor) passHealth(w *wire) {
	defer w.conn.Close()
	for {
		m, files, err := w.receive()
		closeAll(files)
		if err != nil {
			return
		}
		if m.Op == opHealth && m.Health != nil {
			s.reply(message{Op: opHealth, Health: m.Health})
		}
	}
}

// WatchBackends starts the health checks of a path's load balancer: it returns
// when every back end was tried once. From then on, one whose port does not
// accept TCP connections gets no new flows. Before, all do.
func (l *Lab) WatchBackends(ctx context.Context, p Path, port uint16) error {
	fail := func(err error) error {
		return fmt.Errorf("watch the back ends of path %s: %w", p.Name, err)
	}
	if p.Balancer == "" {
		return fail(errors.New("it has no load balancer"))
	}
	known := l.healthChanged(p.Balancer)
	if _, err := l.request(ctx, message{Op: opWatch, Watch: &watch{Node: p.Balancer, Port: port}}, nil, nil); err != nil {
		return fail(err)
	}
	select {
	case <-known:
		return nil
	case <-l.Done():
		return fail(l.Err())
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// BackendsDown are the back ends of a path that get no new flows because their
// health check fails.
func (l *Lab) BackendsDown(p Path) []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.health[p.Balancer].down)
}

// backendHealth is what is known of a load balancer.
type backendHealth struct {
	down    []netip.Addr
	changed chan struct{} // closed with the next finding; nil when nobody waits
}

// healthChanged is closed when the load balancer of a node has found out more.
func (l *Lab) healthChanged(node string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.health == nil {
		l.health = make(map[string]backendHealth)
	}
	h := l.health[node]
	if h.changed == nil {
		h.changed = make(chan struct{})
		l.health[node] = h
	}
	return h.changed
}

// tookHealth notes a finding.
func (l *Lab) tookHealth(found *health) {
	if found == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.health == nil {
		l.health = make(map[string]backendHealth)
	}
	if waiting := l.health[found.Node].changed; waiting != nil {
		close(waiting)
	}
	l.health[found.Node] = backendHealth{down: found.Down}
}
