package soak

import (
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
	"testing"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// tally counts what became of clients, and keeps what a server must not do.
type tally struct {
	mu       sync.Mutex
	n        map[string]map[string]int // by the kind of client and what became of it
	examples map[string]error          // of outcomes that are to be looked at
	findings map[string]int
}

func newTally() tally {
	return tally{n: map[string]map[string]int{}, examples: map[string]error{}, findings: map[string]int{}}
}

func (c *tally) add(kind, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[kind] == nil {
		c.n[kind] = map[string]int{}
	}
	c.n[kind][outcome]++
}

func (c *tally) count(kind, outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind][outcome]
}

// example keeps an error that is neither a refusal nor an end.
func (c *tally) example(kind, outcome string, err error) {
	if outcome != failed && outcome != timedOut {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.examples[kind+", "+outcome] = err
}

// finding tells of what a server must not do.
func (c *tally) finding(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings[fmt.Sprintf(format, args...)]++
}

func (c *tally) report(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.n)) {
		all := 0
		var parts []string
		for _, outcome := range slices.Sorted(maps.Keys(c.n[kind])) {
			n := c.n[kind][outcome]
			all += n
			parts = append(parts, fmt.Sprintf("%s %d", outcome, n))
		}
		fmt.Fprintf(&out, "\n  %-24s %7d   %s", kind, all, strings.Join(parts, ", "))
	}
	t.Logf("clients:%s", out.String())
	for _, what := range slices.Sorted(maps.Keys(c.examples)) {
		t.Logf("one of %s: %.300v", what, c.examples[what])
	}
	for _, what := range slices.Sorted(maps.Keys(c.findings)) {
		t.Errorf("%d times: %s", c.findings[what], what)
	}
}

const (
	served   = "served"
	failed   = "failed"
	timedOut = string(probe.TimedOut)
)

// outcome is what an error of a client says of the server, in a few words.
func outcome(err error) string {
	network, _ := errors.AsType[net.Error](err)
	remote, refused := errors.AsType[*protocol.RemoteError](err)
	known, ours := errors.AsType[*probe.Error](err)
	switch {
	case err == nil:
		return served
	case refused:
		return "refused by " + remote.Reason
	case errors.Is(err, sockets.ErrUnsupported):
		return string(probe.Unsupported)
	case ours:
		return string(known.Reason)
	case errors.Is(err, os.ErrDeadlineExceeded), network != nil && network.Timeout():
		return timedOut
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closed by the server"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return failed
}
