package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"

	"github.com/hopbench/hopbench/internal/thread"
)

// placement is on which CPUs the programs of both ends run, the same for this
// module's and the peers': a round trip within a host takes several times as long if
// it wakes another CPU.
type placement struct {
	name  string
	title string // what it adds to a test's title
	cpu   map[string]int
}

// placements are free, in which each program and the kernel do as they like, and two
// in which every program is confined by sched_setaffinity(2).
func placements(wanted []string) (all []placement, err error) {
	cpus := thread.AllowedCPUs()
	for _, name := range wanted {
		p := placement{name: name}
		switch {
		case name == "free":
		case name == "one" && len(cpus) > 0:
			p.title = ", both ends on one CPU"
			p.cpu = map[string]int{source: cpus[0], destination: cpus[0]}
		case name == "split" && len(cpus) > 1:
			p.title = ", a CPU for each end"
			p.cpu = map[string]int{source: cpus[0], destination: cpus[1]}
		case name == "one" || name == "split":
			return nil, fmt.Errorf("placement %s needs more than the CPUs %v", name, cpus)
		default:
			return nil, fmt.Errorf("unknown placement %q: free, split or one", name)
		}
		all = append(all, p)
	}
	return all, nil
}

// of are the tests that differ by it: all where nobody is confined, else those of
// latency in which nobody polls, since whoever polls needs a CPU of its own.
func (p placement) of(tests []test) (out []test) {
	for _, t := range tests {
		if p.cpu == nil {
			out = append(out, t)
			continue
		}
		if slices.Contains([]string{"rr-tcp", "rr-udp", "crr"}, t.name) {
			t.name, t.title = t.name+"-"+p.name, t.title+p.title
			out = append(out, t)
		}
	}
	return out
}

// confine is a command line that runs argv on a node's CPU.
func (p placement) confine(node string, argv []string) []string {
	cpu, ok := p.cpu[node]
	if !ok {
		return argv
	}
	return append([]string{"taskset", "-c", strconv.Itoa(cpu)}, argv...)
}

// needs says what is missing to confine programs.
func (p placement) needs() error {
	if p.cpu == nil {
		return nil
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return fmt.Errorf("placement %s: %w (util-linux has it)", p.name, err)
	}
	return nil
}
