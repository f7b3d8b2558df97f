package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

const (
	// mostMachines is how many addresses network has.
	mostMachines = 60_000
	// lease is that of `hopbench agent`.
	lease = 30 * time.Second
	// joining bounds how many machines of a process do so at the same time, when they start.
	joining = 32
	// spareHeap is the garbage that a process of machines may have, in percent of what it
	// needs (GOGC): its memory is not measured, and its collector takes CPUs from who is.
	spareHeap = 400
)

// The metrics in which a machine says when it was to start and when it did, by the clock that
// all processes of this machine share, and whether it heard of it too late (1).
const (
	toldNanoseconds    = "told_nanoseconds"
	startedNanoseconds = "started_nanoseconds"
	heardLate          = "heard_late"
)

// machines are simulated ones, from one number on, until standard input ends.
func machines(ctx context.Context, arguments []string) error {
	if len(arguments) != 4 {
		return errors.New("usage: machines ADDRESS JOIN-FILE FROM NUMBER")
	}
	text, err := os.ReadFile(arguments[1])
	if err != nil {
		return err
	}
	file, err := join.Parse(text)
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	coder, err := samples.NewCoder()
	if err != nil {
		return err
	}
	debug.SetGCPercent(spareHeap)
	ctx, cancel := context.WithCancel(ctx)
	begins := newStarter()
	var beginning sync.WaitGroup
	beginning.Go(func() { begins.run(ctx) })
	defer func() { cancel(); beginning.Wait() }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var all sync.WaitGroup
	places := make(chan struct{}, joining)
	for i := from; i < from+number; i++ {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			all.Wait()
			return nil
		}
		var once sync.Once
		leave := func() { once.Do(func() { <-places }) }
		all.Go(func() {
			defer leave()
			if err := machine(ctx, arguments[0], file, coder, begins, i, leave); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	all.Wait()
	return nil
}

// machine is one of them: even ones are sources, odd ones destinations. Joined is called once
// it is at the broker.
func machine(ctx context.Context, at string, file join.File, coder *samples.Coder, begins *starter, i int, joined func()) error {
	label := "role=client"
	if i%2 == 1 {
		label = "role=server"
	}
	m := &agent.Simulation{
		Hello: agent.Hello{
			Host: name(i), HostID: name(i), OS: "linux", Arch: "amd64",
			Interfaces:  []agent.Interface{{Name: "eth0", MTUBytes: 1500, Addresses: []netip.Addr{address(i)}}},
			Environment: map[string]string{"host": name(i), "kernel": "simulated", "cpus": "48"},
		},
		Clock: newPlanted(), Run: begins.pretend,
		Prove: func(_ context.Context, r probe.Request) (probe.Proof, error) {
			return probe.Proof{Local: netip.AddrPortFrom(address(i), 1), Client: netip.AddrPortFrom(address(i), 1), Server: r.Target, ReceivedTTL: 64}, nil
		},
	}
	outbox := samples.NewOutbox(coder, outboxBytes)
	return bus.Join(ctx, bus.AgentOptions{
		Address: at, File: file, Name: name(i), Hello: bus.Hello{Version: hostinfo.Version(), Labels: []string{label}},
		Serve: func(ctx context.Context, link io.ReadWriteCloser) error {
			return agent.Serve(ctx, link, agent.Options{Lease: lease, Simulated: m, Samples: outbox})
		},
		OnState: func(s bus.State, _ error) { joined() },
	})
}

func name(i int) string { return fmt.Sprintf("vm-%05d", i) }

// address is that of a machine in network.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte((i + 1) >> 8), byte(i + 1)})
}

// network has all machines.
const network = "10.77.0.0/16"

// pretend is a test without any load.
func (s *starter) pretend(ctx context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	at := time.Now()
	if r.Prepared != nil {
		var err error
		if at, err = r.Prepared(ctx); err != nil {
			return measurement.Outcome{}, err
		}
	}
	if at.IsZero() {
		at = time.Now()
	}
	told, _, _ := clock.System(at)
	late := 0.0
	if time.Until(at) < 0 && r.Prepared != nil {
		late = 1
	}
	started, err := s.begin(ctx, at)
	if err != nil {
		return measurement.Outcome{}, err
	}
	common := told + started.Sub(at)
	defer sampled(r, started)()
	// Not a timer and a channel: thousands come here at the same moment, one after the other.
	time.Sleep(r.Spec.Duration.Duration())
	if ctx.Err() != nil {
		return measurement.Outcome{}, context.Cause(ctx)
	}
	return measurement.Outcome{Started: started, Metrics: measurement.Metrics{
		toldNanoseconds: float64(told), startedNanoseconds: float64(common), heardLate: late,
	}}, nil
}

// planted is a clock that is ahead or behind by up to 10 s, and fast or slow by up to 200 ppm.
type planted struct {
	base  time.Time
	ahead time.Duration
	gains float64 // per second
}

func newPlanted() planted {
	return planted{time.Now(), time.Duration((rand.Float64() - 0.5) * float64(20*time.Second)), (rand.Float64() - 0.5) * 400e-6}
}

// Now is the time.
func (p planted) Now() time.Duration { return p.Of(time.Now()) }

// Of is the time of a moment.
func (p planted) Of(t time.Time) time.Duration {
	since := t.Sub(p.base)
	return time.Duration(p.base.UnixNano()) + p.ahead + since + time.Duration(float64(since)*p.gains)
}

// Moment is the moment of a time.
func (p planted) Moment(d time.Duration) time.Time {
	since := d - time.Duration(p.base.UnixNano()) - p.ahead
	return p.base.Add(time.Duration(float64(since) / (1 + p.gains)))
}
