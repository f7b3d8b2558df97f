package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/neighbour"
)

// midway does something once in the middle of a trial; undo says how that went.
func midway(after time.Duration, act func() error) (undo func() error) {
	done := make(chan error, 1)
	time.AfterFunc(after, func() { done <- act() })
	return func() error { return <-done }
}

// death kills the process of a lab whose command line matches a pattern.
func death(pattern string) planter {
	return func(context.Context, *bed, experiment.PlannedTrial) (func() error, error) {
		return midway(400*time.Millisecond, func() error { return kill(pattern) }), nil
	}
}

// standstill stops the process of a lab whose command line matches a pattern for a while.
func standstill(pattern string) planter {
	return func(context.Context, *bed, experiment.PlannedTrial) (func() error, error) {
		return midway(500*time.Millisecond, func() error { return stop(pattern, 200*time.Millisecond) }), nil
	}
}

// showsStandstill says that the rate shows the fifth of the time in which a hop of 50 Mbit/s
// let nothing through.
func showsStandstill(t measurement.Trial) bool { return t.Metrics["goodput_bits_per_second"] < 45e6 }

// toDestination is a command on the interface of a node by which packets of a path leave for
// its destination, in the place of %s.
func (b *bed) toDestination(ctx context.Context, node string, own lab.Path, command string) error {
	route, err := b.exec(ctx, node, "ip", "-o", "route", "get", own.Destination.String())
	if err != nil {
		return err
	}
	found := leavesBy.FindStringSubmatch(route)
	if found == nil {
		return fmt.Errorf("%s has no way to %v: %s", node, own.Destination, route)
	}
	_, err = b.exec(ctx, node, strings.Fields(fmt.Sprintf(command, found[1]))...)
	return err
}

var leavesBy = regexp.MustCompile(` dev (\S+)`)

// atSource runs a command on the interface of the source by which packets leave for the
// destination, once and for all: what it changes is that path's alone.
func atSource(command string) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		own := b.laid(t.Path)
		return nil, b.toDestination(ctx, own.SourceNode, own, command)
	}
}

// narrower has the last link carry smaller packets than a testbed file declares of the path.
func narrower(ctx context.Context, b *bed, t experiment.PlannedTrial) (undo func() error, err error) {
	own := b.laid(t.Path)
	router, err := b.node(t.Path)
	if err != nil {
		return nil, err
	}
	b.tampering = tampering{path: t.Path, pathMTU: 1500}
	set := func(ctx context.Context, mtu int) error {
		return b.toDestination(ctx, router, own, fmt.Sprintf("ip link set dev %%s mtu %d", mtu))
	}
	return func() error {
		b.tampering = tampering{}
		return set(context.WithoutCancel(ctx), 1500)
	}, set(ctx, 1300)
}

// both plants two faults at once.
func both(first, second planter) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		undoFirst, err := first(ctx, b, t)
		if err != nil {
			return undoFirst, err
		}
		undoSecond, err := second(ctx, b, t)
		return func() (err error) {
			for _, undo := range []func() error{undoSecond, undoFirst} {
				if undo != nil {
					err = errors.Join(err, undo())
				}
			}
			return err
		}, err
	}
}

// passing takes a fault away again while the trial waits for its end.
func passing(after time.Duration, plant planter) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		undo, err := plant(ctx, b, t)
		if err != nil {
			return undo, err
		}
		return midway(after, undo), nil
	}
}

// unreached drops what is for the destination of one pair of hosts.
func unreached(pair int) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		return b.nftables(ctx, t.Path, "inet", fmt.Sprintf("ip daddr %v tcp dport 5201 drop", b.laid(t.Path).Of(pair).Destination))
	}
}

// backTTL has what comes back look as if it had crossed more routers.
func backTTL(ctx context.Context, b *bed, t experiment.PlannedTrial) (undo func() error, err error) {
	return b.nftables(ctx, t.Path, "inet", fmt.Sprintf("ip saddr %v ip ttl set 40", b.laid(t.Path).Destination))
}

// twice has the router of the path send every packet of a test over UDP once more.
func twice(ctx context.Context, b *bed, t experiment.PlannedTrial) (undo func() error, err error) {
	to := b.laid(t.Path).Destination
	// Tables of both families of addresses know no dup.
	return b.nftables(ctx, t.Path, "ip", fmt.Sprintf("ip daddr %v udp dport 5201 dup to %v", to, to))
}

// showsTwice says that copies were counted as such and not as goodput, of which the test
// offers 20 Mbit/s.
func showsTwice(t measurement.Trial) bool {
	return t.Metrics["duplicated_fraction"] > 0.5 && t.Metrics["goodput_bits_per_second"] < 20.4e6
}

// another is a run of somebody else on this machine.
func another(context.Context, *bed, experiment.PlannedTrial) (undo func() error, err error) {
	other, err := neighbour.Join(neighbour.Run{Experiment: "another", Started: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("be another run: %w", err)
	}
	return other.Leave, nil
}

// detour sends what is for the destination through the router of another path,
// which answers a trace if it knows the way back.
func detour(other string, answers bool) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		own, through := b.laid(t.Path), b.laid(other)
		router, err := b.node(other)
		if err != nil {
			return nil, err
		}
		from, to := own.Source.String(), own.Destination.String()
		steps := [][]string{
			{router, "ip", "route", "add", to, "via", through.Destination.String()},
			// With the congestion control of the lab's own routes.
			{own.SourceNode, "ip", "route", "add", to, "via", through.Hops[0].String(), "table", "77", "congctl", "cubic"},
			{own.SourceNode, "ip", "rule", "add", "pref", "1", "to", to, "lookup", "77"},
		}
		if answers {
			steps = append(steps, []string{router, "ip", "route", "add", from, "via", through.Source.String()})
		}
		for _, step := range steps {
			if _, err := b.exec(ctx, step[0], step[1:]...); err != nil {
				return nil, err
			}
		}
		return func() (err error) {
			ctx := context.WithoutCancel(ctx)
			for _, step := range slices.Backward(steps) {
				undo := slices.Clone(step)
				undo[slices.Index(undo, "add")] = "del"
				_, failed := b.exec(ctx, undo[0], undo[1:]...)
				err = errors.Join(err, failed)
			}
			return err
		}, nil
	}
}

// burn keeps every CPU of this machine busy.
func burn(ctx context.Context, _ *bed, _ experiment.PlannedTrial) (undo func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var burning []*exec.Cmd
	undo = func() error {
		cancel()
		for _, c := range burning {
			_ = c.Wait() // killed
		}
		return nil
	}
	for range 4 * runtime.NumCPU() {
		c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("start a program that burns a CPU: %w", err), undo())
		}
		burning = append(burning, c)
	}
	return undo, nil
}
