package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

const (
	// ahead is how far in the future a common start is.
	ahead = 200 * time.Millisecond
	// The clocks of agents are planted so far off, either way.
	plantedOffset = 10 * time.Second
	plantedDrift  = 200e-6
)

// started is when an agent began its test.
type started struct {
	late        time.Duration // after the moment that was agreed, truly
	uncertainty time.Duration // of what was known of its clock
}

// starts has agents start tests at one moment, again and again.
func starts(ctx context.Context, o options) (err error) {
	far, err := startAgent(ctx, o.hopbench, plantedClock{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	token := fmt.Sprintf("%x%x", rand.Uint64(), rand.Uint64())
	at, err := far.client.Listen(ctx, netip.MustParseAddrPort("127.0.0.1:0"), agent.Serving{Token: token})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.seed, 3))
	agents := make([]*process, 0, o.agents)
	defer func() {
		for _, a := range agents {
			err = errors.Join(err, a.close())
		}
	}()
	for range o.agents {
		a, err := startAgent(ctx, o.hopbench, plantedClock{
			began: clock.Start().Now(), ahead: time.Duration((2*random.Float64() - 1) * float64(plantedOffset)), drift: (2*random.Float64() - 1) * plantedDrift,
		})
		if err != nil {
			return err
		}
		agents = append(agents, a)
	}
	var all, spreads, worst []time.Duration
	within := 0
	for n := range o.starts {
		batch, err := startTogether(ctx, agents, probe.Request{
			ID: fmt.Sprint("start-", n), Target: at, Token: token,
			Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.02, MaxWarmup: 0.001, Pairs: o.agents},
		})
		if err != nil {
			return err
		}
		var late []time.Duration
		var uncertainty time.Duration
		for _, s := range batch {
			late = append(late, s.late)
			uncertainty = max(uncertainty, s.uncertainty)
		}
		slices.Sort(late)
		spread := late[len(late)-1] - late[0]
		if spread <= 2*time.Millisecond+2*uncertainty { // two clocks, each as uncertain
			within++
		}
		all, spreads, worst = append(all, late...), append(spreads, spread), append(worst, uncertainty)
	}
	fmt.Printf("\n%d starts of %d agents, each a process with a clock of its own, on %d CPUs:\n\n| | p50 | p95 | max |\n|---|---|---|---|\n", o.starts, o.agents, runtime.NumCPU())
	for _, row := range []struct {
		name   string
		values []time.Duration
	}{{"an agent after the agreed moment", all}, {"the last agent of a start after its first", spreads}, {"stated uncertainty of the worst clock of a start", worst}} {
		slices.Sort(row.values)
		at := func(share float64) time.Duration {
			return row.values[int(share*float64(len(row.values)-1))].Round(time.Microsecond)
		}
		fmt.Printf("| %s | %v | %v | %v |\n", row.name, at(0.5), at(0.95), at(1))
	}
	fmt.Printf("\n%d of %d starts were within 2 ms and what is uncertain of two clocks; the earliest agent began %v after the moment.\n", within, o.starts, all[0])
	return nil
}

// process is an agent in a process of its own.
type process struct {
	cmd    *exec.Cmd
	relay  *relay
	client *agent.Client
	clock  clock.Monotonic // of this process
}

// startAgent starts hopbench as an agent, with a planted clock.
func startAgent(ctx context.Context, binary string, planted plantedClock) (_ *process, err error) {
	p := &process{cmd: exec.Command(binary, "agent", "--stdio"), clock: clock.Start()}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start an agent: %w", err)
	}
	if err := protocol.ReadPreface(out); err != nil {
		return nil, errors.Join(fmt.Errorf("an agent does not begin: %w", err), in.Close(), p.cmd.Wait())
	}
	p.relay = newRelay(planted, struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	if p.client, err = agent.Connect(ctx, p.relay); err != nil {
		return nil, errors.Join(err, p.cmd.Wait())
	}
	return p, nil
}

// close ends the agent, which ends with its standard input.
func (p *process) close() error { return errors.Join(p.client.Close(), p.cmd.Wait()) }

// knownTime is how long a clock may take to be known.
const knownTime = 10 * time.Second

// startTogether has agents do the same test from one moment on.
func startTogether(ctx context.Context, agents []*process, request probe.Request) ([]started, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, a := range agents {
		deadline := time.Now().Add(knownTime)
		for _, known := a.client.Clock(); !known; _, known = a.client.Clock() {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("the clock of an agent is not known after %v", knownTime)
			}
			time.Sleep(time.Millisecond)
		}
	}
	var prepared, runs sync.WaitGroup
	prepared.Add(len(agents))
	open := make(chan struct{})
	var moment time.Time
	out, errs := make([]started, len(agents)), make([]error, len(agents))
	for i, a := range agents {
		runs.Go(func() {
			arrived := sync.OnceFunc(prepared.Done)
			defer arrived() // one that fails holds up none of the others
			request := request
			request.Prepared = func(context.Context) (time.Time, error) {
				arrived()
				<-open
				e, _ := a.client.Clock()
				_, out[i].uncertainty = e.At(a.clock.Of(moment))
				return moment, nil
			}
			if _, errs[i] = a.client.Run(ctx, request, nil); errs[i] == nil {
				out[i].late = a.relay.started() - a.clock.Of(moment)
			}
		})
	}
	prepared.Wait()
	moment = time.Now().Add(ahead)
	close(open)
	runs.Wait()
	return out, errors.Join(errs...)
}
