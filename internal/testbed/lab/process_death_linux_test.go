package lab

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The longest path that an experiment may have is proved like any other: a
// trace sees all of it, and packets arrive with the last of their time to live.
func TestLongestPath(t *testing.T) {
	l := labOf(t, `
  - name: long
    hops:
      - {type: nat, name: far, silent_hops: 30}
      - {type: nat, name: further, silent_hops: 30}
      - {type: router, name: a}
      - {type: firewall, name: b, instances: 2, rules: 1}
      - {type: router, name: c}
`)
	out := l.measure(t, "long", measurement.Spec{Kind: measurement.RR, Duration: 0.1, MaxWarmup: 0.01})
	if out.Destination.ReceivedTTL != 1 {
		t.Errorf("packets arrived with a TTL of %d", out.Destination.ReceivedTTL)
	}
}

// An agent that ends before it listens is named, with what it said.
func TestAgentThatEndsAtOnce(t *testing.T) {
	e := onLabs(t, "  - name: routed\n    hops:\n      - {type: router, name: r}")
	works := AgentCommand
	defer func() { AgentCommand = works }()
	AgentCommand = []string{"-test.run=^$", "-no-such-flag"}
	l, err := New(t.Context(), e)
	if err == nil {
		l.Close()
		t.Fatal("it started")
	}
	for _, want := range []string{"ended with status 2", "no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q: %v", want, err)
		}
	}
}

// A link emulator that ends by itself says why: here its device was removed.
func TestLinkEmulatorThatGivesUp(t *testing.T) {
	l := labOf(t, "  - name: routed\n    hops:\n      - {type: router, name: r, delay: 1ms}")
	l.sh(t, "routed/r", "ip link del to-destination")
	<-l.lab.Done()
	for _, want := range []string{"hop r of path routed died", "ended with status 1: ", unix.EBADFD.Error()} {
		if err := l.Err(); !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q: %v", want, err)
		}
	}
}
