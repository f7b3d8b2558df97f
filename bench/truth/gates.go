package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/neighbour"
)

// caught is what a gate must make of a trial with a planted fault.
type caught string

const (
	asBroken  caught = "broken"  // an outcome of the path
	asMissing caught = "missing" // the instrument's fault
	asWarned  caught = "warned"  // counts, with a finding
)

// of says whether a trial was caught so; one that counts needs a finding of these
// codes.
func (k caught) of(t measurement.Trial, codes []measurement.FindingCode) bool {
	switch k {
	case asBroken:
		return t.Gate.Broken
	case asMissing:
		return !t.Gate.Passed && !t.Gate.Broken
	default:
		return t.Gate.Passed && slices.ContainsFunc(t.Gate.Findings, func(f measurement.Finding) bool { return slices.Contains(codes, f.Code) })
	}
}

// fault is planted in every trial of a test on a path. Paths without any are the
// shams.
type fault struct {
	label, path, test string
	want              caught
	plant             planter
	codes             []measurement.FindingCode // of a warning
}

type faults struct {
	design design
	faults []fault
	// most is how many blocks a run can have, 0 for any number.
	most int
}

// sham is the path in each design that nothing is planted in.
const sham = "sound"

// perConnection marks the connections of a trial in turn with 0, 1, 2, 3.
const perConnection = "tcp flags & (syn | ack) == syn ct mark set numgen inc mod 4"

func allFaults() []faults {
	always := func(int) bool { return true }
	rules := func(label, path, test string, want caught, rules ...string) fault {
		return fault{label: label, path: path, test: test, want: want, plant: on(path, always, rules...)}
	}
	with := func(d design, hops string, names ...string) design {
		for _, name := range append([]string{sham}, names...) {
			d.paths = append(d.paths, path{name, hops})
		}
		return d
	}
	named := func(d design, names ...string) design {
		return with(d, "{type: link, delay: 200us}, {type: router, name: hop, rate: 50Mbit}", names...)
	}
	return []faults{
		{
			design: named(design{name: "gates-tcp", tests: []test{{"tcp", "kind: tcp, flows: 4, duration: 300ms, max_warmup: 50ms"}}},
				"resets", "resets-one", "starves-one", "goes-dark", "large-lost", "other-hops", "silent-hops", "other-ttl"),
			faults: []fault{
				rules("every connection is reset after 500 kB", "resets", "tcp", asBroken, resetAfter(500_000)),
				rules("one connection in four is reset after 50 kB", "resets-one", "tcp", asBroken, perConnection, "ct mark 1 quota over 50000 bytes reject with tcp reset"),
				rules("one connection in four gets no more than 30 kB", "starves-one", "tcp", asBroken, perConnection, "ct mark 1 quota over 30000 bytes drop"),
				rules("nothing passes any more after 500 kB", "goes-dark", "tcp", asBroken, "quota over 500000 bytes drop"),
				rules("packets above 1000 bytes are lost", "large-lost", "tcp", asBroken, "meta length > 1000 drop"),
				{label: "packets take another router", path: "other-hops", test: "tcp", want: asMissing, plant: detour("other-hops", sham, true)},
				{
					label: "packets take another router, which does not answer", path: "silent-hops", test: "tcp", want: asWarned,
					plant: detour("silent-hops", sham, false), codes: []measurement.FindingCode{"silent_hops"},
				},
				rules("packets cross more routers than planned", "other-ttl", "tcp", asMissing, "ip ttl > 40 ip ttl set 40"),
			},
		},
		{
			design: named(design{name: "gates-datagrams", tests: []test{
				{"udp", "kind: udp, rate: 20Mbit, duration: 300ms, max_warmup: 20ms"},
				{"rr", "kind: rr, protocol: udp, duration: 300ms, max_warmup: 20ms"},
				{"ping", "kind: ping, count: 20, interval: 5ms"},
				{"crr", "kind: crr, duration: 200ms, max_warmup: 20ms"},
				{"search", "kind: udp, rate: 20Mbit, loss_bound: 1%, duration: 100ms, max_warmup: 20ms"},
				{"mtu", "kind: mtu"},
			}}, "loses-all", "refuses"),
			faults: []fault{
				rules("all packets are lost", "loses-all", "udp", asBroken, "udp dport 5201 drop"),
				rules("no request is answered", "loses-all", "rr", asBroken, "udp dport 5201 drop"),
				rules("no echo comes back", "loses-all", "ping", asBroken, "icmp type echo-reply drop"),
				rules("three connections in four are refused", "refuses", "crr", asBroken, perConnection, "ct mark > 0 reject with tcp reset"),
				rules("no rate keeps to the bound of loss", "refuses", "search", asBroken, "udp dport 5201 numgen random mod 5 0 drop"),
				rules("no packet is small enough", "loses-all", "mtu", asBroken, "udp dport 5201 drop", "icmp type echo-reply drop"),
			},
		},
		{
			design: with(design{name: "gates-host", tests: []test{
				{"tcp", "kind: tcp, duration: 300ms, max_warmup: 50ms"},
				{"small-buffer", "kind: udp, rate: 200Mbit, gso: on, gro: off, duration: 200ms, max_warmup: 20ms, receive_buffer: 4kB"},
			}}, "{type: router, name: hop}", "burns", "watched"),
			faults: []fault{
				{
					label: "every CPU is busy with something else", path: "burns", test: "tcp", want: asWarned,
					plant: burn("burns", "tcp"), codes: []measurement.FindingCode{measurement.FoundBusyCPUs, measurement.FoundBusyCPU},
				},
				{
					label: "another run measures meanwhile", path: "watched", test: "tcp", want: asWarned,
					plant: another("watched"), codes: []measurement.FindingCode{measurement.FoundOtherRun},
				},
				{
					label: "the receiver's socket has no room", path: "burns", test: "small-buffer", want: asWarned,
					codes: []measurement.FindingCode{measurement.FoundDrops},
				},
			},
		},
		{
			design: named(design{name: "gates-pairs", pairs: 3, tests: []test{{"tcp", "kind: tcp, duration: 300ms, max_warmup: 50ms"}}}, "one-unreached"),
			faults: []fault{{label: "one of three hosts is not reached", path: "one-unreached", test: "tcp", want: asBroken, plant: unreached("one-unreached", 1)}},
		},
		{
			design: with(design{name: "gates-deaths", tests: []test{{"rr", "kind: rr, duration: 800ms, max_warmup: 20ms"}}}, "{type: router, name: hop, rate: 50Mbit}", "mortal"),
			faults: []fault{{label: "the process of a hop dies", path: "mortal", test: "rr", want: asBroken, plant: death("mortal")}},
			most:   3, // a run builds its lab again so often
		},
	}
}

// death kills what carries the frames of a path's hop, in the middle of its trials.
func death(path string) planter {
	return func(_ context.Context, _ *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path {
			return nil, nil
		}
		killed := make(chan error, 1)
		time.AfterFunc(400*time.Millisecond, func() { killed <- kill("^hopbench-lab-cable .*" + path + "/hop") })
		return func() error { return <-killed }, nil
	}
}

// unreached drops what is for one destination of a path of several pairs of hosts.
func unreached(path string, pair int) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path {
			return nil, nil
		}
		laid := b.lab.Laid()
		own := laid[slices.IndexFunc(laid, func(p lab.Path) bool { return p.Name == path })]
		return b.nftables(ctx, path, fmt.Sprintf("ip daddr %v tcp dport 5201 drop", own.Of(pair).Destination))
	}
}

// another is a run of somebody else on this machine during the trials of a path.
func another(path string) planter {
	return func(_ context.Context, _ *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path {
			return nil, nil
		}
		other, err := neighbour.Join(neighbour.Run{Experiment: "another", Started: time.Now()})
		if err != nil {
			return nil, fmt.Errorf("be another run: %w", err)
		}
		return other.Leave, nil
	}
}

// detour sends what is for the destination of a path through the router of another,
// which answers a trace if it knows the way back.
func detour(path, other string, answers bool) planter {
	return func(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path {
			return nil, nil
		}
		laid := b.lab.Laid()
		own := laid[slices.IndexFunc(laid, func(p lab.Path) bool { return p.Name == path })]
		through := laid[slices.IndexFunc(laid, func(p lab.Path) bool { return p.Name == other })]
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

// burn keeps every CPU of this machine busy during the trials of a cell.
func burn(path, test string) planter {
	return func(ctx context.Context, _ *bed, t experiment.PlannedTrial) (func() error, error) {
		if t.Path != path || t.Test != test {
			return nil, nil
		}
		ctx, cancel := context.WithCancel(ctx)
		var burning []*exec.Cmd
		for range 4 * runtime.NumCPU() {
			c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
			if err := c.Start(); err != nil {
				cancel()
				return nil, fmt.Errorf("start a program that burns a CPU: %w", err)
			}
			burning = append(burning, c)
		}
		return func() error {
			cancel()
			for _, c := range burning {
				_ = c.Wait() // killed
			}
			return nil
		}, nil
	}
}

// sighting is what became of the trials with one fault.
type sighting struct {
	caught, asWanted proportion
	codes            map[string]int
}

func gates(ctx context.Context, o options, c *campaign) (report, error) {
	blocks := o.pick(2, 10)
	type turn struct {
		of     faults
		number int
	}
	var all []turn
	for _, f := range allFaults() {
		f.design.blocks = blocks
		runs := 1
		if f.most > 0 {
			f.design.blocks = min(blocks, f.most)
			runs = (blocks + f.most - 1) / f.most
		}
		for number := range runs {
			all = append(all, turn{f, number})
		}
	}
	c.planned = len(all)
	found := map[string]*sighting{}
	var shams proportion
	reasons := map[string]int{}
	_, err := c.repeat(ctx, func(number int) error {
		f, number := all[number].of, all[number].number
		k, err := c.run(ctx, f.design, number, f.plant)
		if err != nil {
			return err
		}
		for _, t := range k.trials {
			if t.Path == sham && t.Test != "small-buffer" {
				shams.count(!t.Gate.Passed)
				if !t.Gate.Passed {
					reasons[fatal(t)]++
				}
			}
			for _, one := range f.faults {
				if t.Path == one.path && t.Test == one.test {
					if found[one.label] == nil {
						found[one.label] = &sighting{codes: map[string]int{}}
					}
					found[one.label].add(t, one)
				}
			}
		}
		return nil
	})
	out := table{head: []string{"planted", "caught", "wanted", "as wanted", "found"}}
	every := true
	for _, f := range allFaults() {
		for _, one := range f.faults {
			if s := found[one.label]; s != nil {
				out.add(one.label, fmt.Sprintf("%d of %d", s.caught.k, s.caught.n), string(one.want), fmt.Sprintf("%d of %d", s.asWanted.k, s.asWanted.n), counts(s.codes))
				every = every && s.asWanted.k == s.asWanted.n
			}
		}
	}
	text := []string{
		"Faults are planted in every trial of a path: with nftables and routes in its router, with programs that burn every CPU, with a socket that has no room, with another run on the machine, and by killing what carries its frames. *Broken* is an outcome of the path, *missing* a fault of the instrument, *warned* a trial that counts with a finding.",
		fmt.Sprintf("Every planted fault must be caught as what it is: %s. Trials beside them without a fault that were excluded: %s: %s.", reached(every), shams, reached(shams.k == 0)),
	}
	if shams.k > 0 {
		text = append(text, "They were excluded for: "+counts(reasons)+".")
	}
	return report{text: text, tables: []table{out}}, err
}

// plant plants all faults of a design.
func (f faults) plant(ctx context.Context, b *bed, t experiment.PlannedTrial) (func() error, error) {
	for _, one := range f.faults {
		if one.plant == nil || t.Path != one.path || t.Test != one.test {
			continue
		}
		return one.plant(ctx, b, t)
	}
	return nil, nil
}

func (s *sighting) add(t measurement.Trial, planted fault) {
	s.caught.count(!t.Gate.Passed || len(t.Gate.Findings) > 0)
	s.asWanted.count(planted.want.of(t, planted.codes))
	var codes []string
	for _, f := range t.Gate.Findings {
		if f.Fatal || slices.Contains(planted.codes, f.Code) {
			codes = append(codes, string(f.Code))
		}
	}
	slices.Sort(codes)
	if len(codes) > 0 {
		s.codes[strings.Join(slices.Compact(codes), " and ")]++
	}
}
