package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/fleet"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/trial"
)

const (
	fleetName = "bench"
	// perProcess is how many machines one process has: each takes a descriptor, of which
	// a process has 20 000 here.
	perProcess = 5000
	// waits bounds each wait for all machines.
	waits = 5 * time.Minute
	// testSeconds is how long a test takes.
	testSeconds = 1
	// settles is how long it is waited before each start.
	settles = 2 * time.Second
)

// one measures with a number of machines and prints its row, also when time is over.
func one(ctx context.Context, arguments []string) error {
	if len(arguments) != 4 {
		return errors.New("usage: one MACHINES STARTS LIMIT PROFILES")
	}
	n, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	starts, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	limit, err := time.ParseDuration(arguments[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("time is over (-limit)"))
	defer cancel()
	if profiles := arguments[3]; profiles != "" {
		file, err := os.Create(filepath.Join(profiles, fmt.Sprintf("cpu-%d.pprof", n)))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r := row{Machines: n}
	began := time.Now()
	if err := r.measure(ctx, starts, arguments[3]); err != nil {
		r.Stopped = err.Error()
		if ctx.Err() != nil {
			r.Stopped = fmt.Sprintf("%v: %v", context.Cause(ctx), err)
		}
	}
	r.MemoryPeak = max(r.MemoryPeak, memory("VmHWM"))
	r.ProcessorSeconds += processorTime().Seconds()
	r.Took = time.Since(began).Seconds()
	return json.NewEncoder(os.Stdout).Encode(r)
}

// measure fills the row, as far as it gets. A folder for profiles may be empty.
func (r *row) measure(ctx context.Context, starts int, profiles string) (err error) {
	folder, err := os.MkdirTemp("", "hopbench-bench-fleet-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "join")
	secret, _, err := join.Open(path, fleetName)
	if err != nil {
		return err
	}
	e, err := pairsOf(r.Machines / 2)
	if err != nil {
		return err
	}
	kept, taken, end, err := keep(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	began := time.Now()
	listen, err := freePort()
	if err != nil {
		return err
	}
	f, err := open(ctx, secret, listen, r.Machines, taken)
	if err != nil {
		return err
	}
	stop, err := startMachines(ctx, listen, path, r.Machines)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := errors.Join(r.first(ctx, f, e, starts, began, profiles, kept, taken), f.Close()); err != nil {
		return err
	}
	var next row
	if err := another(ctx, &next, backRole, strconv.Itoa(r.Machines), listen.String(), path); err != nil {
		return fmt.Errorf("the second coordinator: %w", err)
	}
	r.Back, r.MemoryPeak, r.ProcessorSeconds = next.Back, next.MemoryPeak, next.ProcessorSeconds
	return nil
}

// back is a coordinator in place of one that ended: it waits for all its machines, and prints a
// row of that.
func back(ctx context.Context, arguments []string) error {
	began := time.Now()
	if len(arguments) != 3 {
		return errors.New("usage: back MACHINES LISTEN JOIN-FILE")
	}
	n, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	listen, err := netip.ParseAddrPort(arguments[1])
	if err != nil {
		return err
	}
	secret, _, err := join.Open(arguments[2], fleetName)
	if err != nil {
		return err
	}
	e, err := pairsOf(n / 2)
	if err != nil {
		return err
	}
	f, err := open(ctx, secret, listen, n, nil)
	if err != nil {
		return err
	}
	r := row{Machines: n}
	bed, err := f.Build(ctx, e, func(roles []fleet.Role) {
		if all(roles) == n {
			r.Back = time.Since(began).Seconds()
		}
	})
	if err == nil {
		err = bed.Close()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	r.MemoryPeak, r.ProcessorSeconds = memory("VmHWM"), processorTime().Seconds()
	return json.NewEncoder(os.Stdout).Encode(r)
}

// first is what is measured with the first coordinator.
func (r *row) first(ctx context.Context, f *fleet.Fleet, e *experiment.Experiment, starts int, began time.Time, profiles string, kept *counted, taken *collect.Collector) (err error) {
	joined, there := time.Now(), 0
	bed, err := f.Build(ctx, e, func(roles []fleet.Role) {
		if there = all(roles); there == r.Machines {
			r.Joined, joined = time.Since(began).Seconds(), time.Now()
		}
	})
	if err != nil {
		return fmt.Errorf("%d of %d machines joined: %w", there, r.Machines, err)
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	r.Paired = time.Since(joined).Seconds()
	fmt.Fprintf(os.Stderr, "%d machines joined in %.2f s, paired in %.2f s\n", r.Machines, r.Joined, r.Paired)
	for range starts {
		if err := wait(ctx, settles); err != nil {
			return err
		}
		if err := r.start(ctx, bed); err != nil {
			return err
		}
	}
	if err := r.sample(ctx, bed, kept, taken); err != nil {
		return err
	}
	r.Memory = memory("VmRSS")
	return sayMemory(r.Machines, profiles)
}

// all is how many machines are there.
func all(roles []fleet.Role) (n int) {
	for _, one := range roles {
		n += len(one.Joined)
	}
	return n
}

// sayMemory says how much of this process's memory each machine takes, and writes profiles
// of it into a folder.
func sayMemory(machines int, profiles string) error {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	per := func(bytes uint64) float64 { return float64(bytes) / float64(machines) / 1024 }
	fmt.Fprintf(os.Stderr, "%d machines: of each %.1f goroutines, %.1f KiB of heap in use and %.1f KiB of stacks; %d collections; %d MiB at most so far\n",
		machines, float64(runtime.NumGoroutine())/float64(machines), per(m.HeapAlloc), per(m.StackInuse), m.NumGC, memory("VmHWM")>>20)
	if profiles == "" {
		return nil
	}
	var errs []error
	for _, name := range []string{"heap", "goroutine"} {
		file, err := os.Create(filepath.Join(profiles, fmt.Sprintf("%s-%d.pprof", name, machines)))
		if err == nil {
			err = errors.Join(pprof.Lookup(name).WriteTo(file, 0), file.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pairsOf is an experiment of two paths and a number of pairs, without the bound that files
// have.
func pairsOf(pairs int) (*experiment.Experiment, error) {
	e, err := experiment.Load("bench.yaml", []byte(`format: hopbench.experiment/1
name: bench
endpoints: [{name: client}, {name: server}]
source: client
destination: server
baseline: direct
paths:
  - {name: direct, hops: [{type: link}]}
  - {name: firewall, hops: [{type: router, name: fw}]}
tests: [{name: latency, kind: rr}]
`))
	if err != nil {
		return nil, err
	}
	e = e.OnHosts()
	e.Pairs = pairs
	return e, nil
}

// freePort is where nobody listens now.
func freePort() (netip.AddrPort, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	return ln.Addr().(*net.TCPAddr).AddrPort(), ln.Close()
}

func open(ctx context.Context, secret join.Secret, listen netip.AddrPort, n int, taken *collect.Collector) (*fleet.Fleet, error) {
	return fleet.Open(ctx, fleet.Options{Secret: secret, Samples: taken, Inventory: &inventory.Inventory{
		Name:   fleetName,
		Broker: &inventory.Broker{Listen: listen, Wait: waits, MaxAgents: n},
		Endpoints: []inventory.Endpoint{
			{Name: "client", Reach: inventory.Reach{Scheme: inventory.ReachFleet, Label: "role=client"}},
			{Name: "server", Reach: inventory.Reach{Scheme: inventory.ReachFleet, Label: "role=server"}},
		},
		Paths: []inventory.Path{
			{Name: "direct", Network: netip.MustParsePrefix(network), DSCP: -1},
			{Name: "firewall", Network: netip.MustParsePrefix(network), DSCP: -1},
		},
	}, OnNote: func(note string) { fmt.Fprintln(os.Stderr, note) }})
}

// startMachines starts the processes of the machines; stop ends them.
func startMachines(ctx context.Context, at netip.AddrPort, file string, n int) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stops []func() error
	stop = func() (err error) {
		for _, one := range stops {
			err = errors.Join(err, one())
		}
		return err
	}
	for from := 0; from < n; from += perProcess {
		// They end with their standard input, after the coordinator did.
		c := exec.CommandContext(context.WithoutCancel(ctx), self, machinesRole, at.String(), file, strconv.Itoa(from), strconv.Itoa(min(perProcess, n-from)))
		c.Stderr = os.Stderr
		c.WaitDelay = time.Minute
		lifeline, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		stops = append(stops, func() error { return errors.Join(lifeline.Close(), c.Wait()) })
	}
	return stop, nil
}

// start does a trial, and notes how far apart its sources were told to start, and did, and how
// many heard of it too late.
func (r *row) start(ctx context.Context, bed testbed.Testbed) error {
	o, err := do(ctx, bed, "start", testSeconds)
	if err != nil {
		return err
	}
	r.Told, r.Spreads = append(r.Told, spread(o.told)), append(r.Spreads, spread(o.started))
	r.StartedLate += o.late
	return nil
}

// do does a trial with all sources.
func do(ctx context.Context, bed testbed.Testbed, id string, seconds measurement.Seconds) (*observed, error) {
	o := &observed{Testbed: bed}
	done, err := trial.Do(ctx, o, trial.Wanted{ID: id, Path: "direct", Spec: spec(seconds)}, nil)
	if err = errors.Join(err, done.Err); err != nil {
		return nil, err
	}
	if want := len(bed.Paths()[0].Pairs); len(o.started) != want {
		return nil, fmt.Errorf("%d of %d sources started", len(o.started), want)
	}
	return o, nil
}

// spec is a test of so many seconds.
func spec(seconds measurement.Seconds) measurement.Spec {
	return measurement.Spec{Kind: measurement.RR, Duration: seconds}.Defaults()
}

// spread is how far apart moments are, in seconds.
func spread(nanoseconds []float64) float64 {
	return (slices.Max(nanoseconds) - slices.Min(nanoseconds)) / 1e9
}

// observed is a testbed whose agents' outcomes are seen.
type observed struct {
	testbed.Testbed
	mu            sync.Mutex
	told, started []float64 // nanoseconds
	late          int
}

// Begin has the sources send samples.
func (o *observed) Begin(ctx context.Context, trial string) error {
	return o.Testbed.(testbed.Attempter).Begin(ctx, trial)
}

// Agent is that of a machine.
func (o *observed) Agent(name string) (testbed.Agent, error) {
	a, err := o.Testbed.Agent(name)
	return &seen{a, a.(testbed.Timed), o}, err
}

// seen is an agent whose outcomes are.
type seen struct {
	testbed.Agent
	testbed.Timed
	by *observed
}

// Run does a test.
func (s *seen) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	out, err := s.Agent.Run(ctx, r, progress)
	if err == nil {
		s.by.mu.Lock()
		defer s.by.mu.Unlock()
		s.by.told = append(s.by.told, out.Metrics[toldNanoseconds])
		s.by.started = append(s.by.started, out.Metrics[startedNanoseconds])
		s.by.late += int(out.Metrics[heardLate])
	}
	return out, err
}

func largest(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}
