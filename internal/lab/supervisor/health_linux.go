package supervisor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/message"
)

// healthRole is the process in a load balancer's node that checks its back ends.
const healthRole = "hopbench-lab-health"

// The health check: a back end whose port did not accept a TCP connection
// within healthTimeout and a round trip, healthFailures times in a row, gets no more new
// flows until it accepts one. Checks are healthInterval apart.
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
	// RoundTrip is how long the way to a back end and back takes.
	RoundTrip time.Duration `json:"round_trip_nanoseconds,omitempty"`
}

// run watches the back ends until ctx ends, and tells of every change.
func (j healthJob) run(ctx context.Context, w *message.Conn) error {
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
			if err := j.without(now).SetRules(); err != nil {
				return err
			}
		}
		if first || !slices.Equal(now, down) {
			if err := w.Send(message.Health, 0, message.HealthReport{Node: j.Node, Down: now}); err != nil {
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
	dialer := net.Dialer{Timeout: healthTimeout + j.RoundTrip}
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

// watch starts the health checks of a load balancer. Their first finding, like all
// others, goes to the caller as message.Health.
func (s *supervisor) watch(r message.WatchRequest) error {
	n, err := s.builder.Node(r.Node)
	if err != nil || n.Spec().Functions.Balance == nil {
		return fmt.Errorf("node %q balances no flows", r.Node)
	}
	s.mu.Lock()
	twice := s.watched[r.Node]
	s.watched[r.Node] = true
	s.mu.Unlock()
	if twice {
		return fmt.Errorf("the back ends of node %s are watched already", r.Node)
	}
	job := healthJob{Node: r.Node, Balance: *n.Spec().Functions.Balance, Port: r.Port, RoundTrip: r.RoundTrip}
	conn, err := s.startRole(healthRole, job, n, nil, message.Death{Process: "health check of node " + r.Node, Node: r.Node})
	if err != nil {
		return err
	}
	go s.passHealth(conn)
	return nil
}

// passHealth passes findings on to the caller until the process ends.
func (s *supervisor) passHealth(conn *message.Conn) {
	defer conn.Close()
	for {
		m, files, err := conn.Receive()
		message.CloseAll(files)
		if err != nil {
			return
		}
		if m.Verb == message.Health {
			s.said(s.conn.Forward(m))
		}
	}
}
