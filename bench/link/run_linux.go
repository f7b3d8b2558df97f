package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/linkem/linktest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// options are the command line.
type options struct {
	kinds   []linkem.Kind
	only    string
	repeats int
	seconds time.Duration
	carry   string
}

func run(arguments []string) (int, error) {
	var o options
	flags := flag.NewFlagSet("link", flag.ContinueOnError)
	kind := flags.String("ports", "both", "kind of port: tap, packet or both")
	flags.StringVar(&o.only, "only", "", "run only delay, loss, rate or goodput")
	flags.IntVar(&o.repeats, "repeats", 5, "runs of each rate and goodput row; the best counts, the spread is shown")
	flags.DurationVar(&o.seconds, "duration", 2*time.Second, "length of one rate or goodput run")
	flags.StringVar(&o.carry, "carry", "", "internal: run a link emulator of this configuration on inherited descriptors")
	if err := flags.Parse(arguments); err != nil {
		return 0, err
	}
	if o.carry != "" {
		return 0, carry(o.carry)
	}
	switch *kind {
	case "both":
		o.kinds = []linkem.Kind{linkem.TAP, linkem.Packet}
	case string(linkem.TAP), string(linkem.Packet):
		o.kinds = []linkem.Kind{linkem.Kind(*kind)}
	default:
		return 0, fmt.Errorf("-ports is %q, not tap, packet or both", *kind)
	}
	if o.repeats < 1 || o.seconds < 100*time.Millisecond {
		return 0, errors.New("-repeats must be at least 1 and -duration at least 100ms")
	}
	if testutil.Enter(); !testutil.Entered() {
		return 0, errors.New("this needs root or unprivileged user namespaces")
	}
	return o.measure(os.Stdout)
}

// row is a line of the table. An empty verdict is for information only.
type row struct {
	what, planted, measured, bound string
	verdict                        string
}

func verdict(ok bool) string {
	if ok {
		return "pass"
	}
	return "FAIL"
}

func (o options) measure(w io.Writer) (int, error) {
	fmt.Fprintf(w, "%d CPUs, %s\n", runtime.NumCPU(), kernel())
	failed := 0
	for _, kind := range o.kinds {
		fmt.Fprintf(w, "\nports: %s\n", kind)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "what\tplanted\tmeasured\tbound\t")
		for _, part := range []struct {
			name string
			rows func(linkem.Kind, func(row)) error
		}{
			{"delay", o.delays}, {"loss", o.losses}, {"rate", o.rates}, {"goodput", o.goodputs},
		} {
			if o.only != "" && o.only != part.name {
				continue
			}
			err := part.rows(kind, func(r row) {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.what, r.planted, r.measured, r.bound, r.verdict)
				if r.verdict == "FAIL" {
					failed++
				}
			})
			if err != nil {
				return 0, errors.Join(fmt.Errorf("%s with %s ports: %w", part.name, kind, err), table.Flush())
			}
		}
		if err := table.Flush(); err != nil {
			return 0, err
		}
	}
	if failed > 0 {
		fmt.Fprintf(w, "\n%d values missed their bounds\n", failed)
		return 1, nil
	}
	return 0, nil
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown kernel"
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// carry is the process that carries frames: descriptors 3 and 4 are the ports,
// standard input ends it, the counters go to standard output.
func carry(text string) error {
	var job struct {
		Kind   linkem.Kind
		Config linkem.Config
	}
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return fmt.Errorf("read the link emulator's configuration: %w", err)
	}
	if err := linkem.TuneProcess(1); err != nil {
		return err
	}
	var ports [2]*linkem.Port
	for i := range ports {
		var err error
		ports[i], err = linkem.PortFromFile(os.NewFile(uintptr(3+i), "port"), job.Kind, fmt.Sprintf("wire0 of end %d", i))
		if err != nil {
			return err
		}
	}
	c, err := linkem.New(ports[0], ports[1], job.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		if err != nil {
			fmt.Fprintln(os.Stderr, "link: wait for the end:", err)
		}
		cancel()
	}()
	if err := c.Run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c.Counters())
}

// bed is a pair of namespaces whose link emulator runs in a process of its own, as in a
// lab, so that the traffic and the link emulator do not share a Go scheduler.
type bed struct {
	*linktest.Pair
	command *exec.Cmd
	end     io.Closer
	result  *strings.Builder
}

func newBed(kind linkem.Kind, cfg linkem.Config) (b *bed, err error) {
	pair, err := linktest.NewPair(kind, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pair.Close())
		}
	}()
	var files []*os.File
	for _, port := range pair.Ports {
		f, err := port.File()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files = append(files, f)
	}
	job, err := json.Marshal(map[string]any{"Kind": kind, "Config": cfg})
	if err != nil {
		return nil, err
	}
	b = &bed{Pair: pair, result: &strings.Builder{}}
	b.command = exec.Command("/proc/self/exe", "-carry", string(job))
	b.command.ExtraFiles = files
	b.command.Stdout, b.command.Stderr = b.result, os.Stderr
	b.command.SysProcAttr = &syscall.SysProcAttr{}
	if b.end, err = b.command.StdinPipe(); err != nil {
		return nil, err
	}
	return b, b.command.Start()
}

// close ends the link emulator and returns its counters.
func (b *bed) close() (counters linkem.Counters, err error) {
	err = errors.Join(b.end.Close(), b.command.Wait(), b.Pair.Close())
	if err != nil {
		return counters, err
	}
	return counters, json.Unmarshal([]byte(b.result.String()), &counters)
}

// with measures on a bed, which it takes down afterwards.
func with(kind linkem.Kind, cfg linkem.Config, measure func(*bed) error) (linkem.Counters, error) {
	b, err := newBed(kind, cfg)
	if err != nil {
		return linkem.Counters{}, err
	}
	measureErr := measure(b)
	counters, err := b.close()
	return counters, errors.Join(measureErr, err)
}

func both(d linkem.Direction) linkem.Config { return linkem.Config{Forward: d, Backward: d, Seed: 1} }

// quantile of sorted values, nearest rank.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// delays compares each delay with a link emulator without delay that gets echoes at the
// same pace. Without the pauses its ends would never fall asleep, and the time
// they take to wake up would be counted as delay of the link emulator.
func (o options) delays(kind linkem.Kind, emit func(row)) error {
	const rounds = 3
	planted := []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond}
	with0, with1 := make([][]time.Duration, len(planted)), make([][]time.Duration, len(planted))
	// Rounds interleave, so that what else the machine does falls on all rows.
	for range rounds {
		for i, delay := range planted {
			n := min(300, max(15, int(time.Second/(2*delay))))
			for _, step := range []struct {
				delay, pause time.Duration
				trips        *[]time.Duration
			}{{0, 2 * delay, &with0[i]}, {delay, 0, &with1[i]}} {
				_, err := with(kind, both(linkem.Direction{Delay: step.delay}), func(b *bed) error {
					t, err := echoes(b, n, step.pause)
					*step.trips = append(*step.trips, t...)
					return err
				})
				if err != nil {
					return err
				}
			}
		}
	}
	for i, delay := range planted {
		slices.Sort(with0[i])
		slices.Sort(with1[i])
		base := quantile(with0[i], 0.5)
		of := func(q float64) time.Duration { return ((quantile(with1[i], q) - base) / 2).Round(100) }
		measured := of(0.5)
		bound := max(100*time.Microsecond, delay/100)
		emit(row{"one-way delay", delay.String(),
			fmt.Sprintf("%v (p5 %v, p95 %v; round trips %v less %v, %d echoes)", measured, of(0.05), of(0.95),
				quantile(with1[i], 0.5).Round(100), base.Round(100), len(with1[i])),
			"± " + bound.String(), verdict((measured - delay).Abs() <= bound)})
	}
	return nil
}

func (o options) losses(kind linkem.Kind, emit func(row)) error {
	const n = 200_000
	for _, p := range []float64{0.001, 0.01, 0.05} {
		var arrived int
		cfg := linkem.Config{Forward: linkem.Direction{LossFraction: p}, Seed: uint64(time.Now().UnixNano())}
		_, err := with(kind, cfg, func(b *bed) (err error) {
			arrived, err = datagrams(b, n)
			return err
		})
		if err != nil {
			return err
		}
		lost := n - arrived
		low, high := binomialInterval(n, p, 0.99)
		emit(row{"loss", fmt.Sprintf("%.1f %%", 100*p), fmt.Sprintf("%.3f %% (%d of %d)", 100*float64(lost)/n, lost, n),
			fmt.Sprintf("%d to %d", low, high), verdict(lost >= low && lost <= high)})
	}
	return nil
}

func (o options) rates(kind linkem.Kind, emit func(row)) error {
	for _, rate := range []float64{10e6, 100e6, 1e9, 2.5e9, 5e9} {
		d := linkem.Direction{RateBitsPerSecond: rate, QueueBytes: 32 << 20}
		flows := 1
		if rate >= 100e6 {
			flows = 4
		}
		var measured []float64
		// What a busy machine takes away makes a rate smaller, never larger: the
		// best run tells what the link emulator allows, and one that fits ends the row.
		for range o.repeats {
			var goodput float64
			_, err := with(kind, linkem.Config{Forward: d, Seed: 1}, func(b *bed) (err error) {
				goodput, err = transfer(b, o.seconds, flows, rate < 50e6)
				return err
			})
			if err != nil {
				return err
			}
			// A segment of 1448 bytes of payload is a frame of 1514.
			measured = append(measured, goodput*1514/1448)
			if measured[len(measured)-1] >= 0.99*rate {
				break
			}
		}
		slices.Sort(measured)
		best := measured[len(measured)-1]
		emit(row{"rate (layer 2)", bits(rate), fmt.Sprintf("%s (%+.2f %%; worst of %d runs %s)", bits(best), 100*(best/rate-1), len(measured), bits(measured[0])),
			"± 1 %", verdict(math.Abs(best/rate-1) <= 0.01)})
	}
	return nil
}

func (o options) goodputs(kind linkem.Kind, emit func(row)) error {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		var measured []float64
		var unsent uint64
		for range o.repeats {
			counters, err := with(kind, both(linkem.Direction{Delay: delay}), func(b *bed) error {
				goodput, err := transfer(b, o.seconds, 1, false)
				measured = append(measured, goodput)
				return err
			})
			if err != nil {
				return err
			}
			unsent += counters.Forward.QueueDroppedFrames + counters.Forward.RefusedFrames
		}
		slices.Sort(measured)
		best := measured[len(measured)-1]
		r := row{"goodput, 1 TCP flow", "no delay", fmt.Sprintf("%s (median %s, worst %s; %d frames dropped)", bits(best), bits(quantile(measured, 0.5)), bits(measured[0]), unsent), "", ""}
		if delay == 0 {
			r.bound, r.verdict = "≥ 10 Gbit/s", verdict(best >= 10e9)
		} else {
			r.planted = delay.String() + " in each direction"
		}
		emit(r)
	}
	return nil
}

func bits(rate float64) string {
	switch {
	case rate >= 1e9:
		return fmt.Sprintf("%.3f Gbit/s", rate/1e9)
	default:
		return fmt.Sprintf("%.3f Mbit/s", rate/1e6)
	}
}
