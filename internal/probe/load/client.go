package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/rr"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
)

// loadedTimeout is how long a response is waited for unless the spec says:
// longer than in an rr test, because full buffers of seconds are just what
// a load test is to find.
const loadedTimeout = 3 * time.Second

// mostIdleLoss is the share of the requests before the load above which they may be too many.
const mostIdleLoss = 0.2

// test is a load test in progress: the latency of the idle path, then that
// of the path under the load of a tcp test. Both are tests of their own
// towards the server.
type test struct {
	req      session.Request
	began    time.Time
	mu       sync.Mutex // orders the signs of life of both
	progress func(measurement.Progress)
	rtt      measurement.Seconds

	load        measurement.Outcome
	loadStart   time.Time
	probeStart  time.Time
	kept        []session.Sample
	probe, idle measurement.Outcome
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	t := &test{req: req, began: time.Now(), progress: progress}
	if err := t.measureIdle(ctx); err != nil {
		return measurement.Outcome{}, session.Wrap("latency of the idle path", err)
	}
	if err := t.measureLoaded(ctx); err != nil {
		if lost := t.idle.Metrics["loss_fraction"]; lost > mostIdleLoss {
			err = fmt.Errorf("%w; %.0f %% of the requests before the load were lost: the path may not carry %g a second; take fewer (requests_per_second)", err, lost*100, req.Spec.RequestsPerSecond)
		}
		return measurement.Outcome{}, session.Wrap("latency under load", err)
	}
	return t.outcome()
}

// probeSpec is the open-loop rr test for so long.
func (t *test) probeSpec(warmup, length measurement.Seconds) measurement.Spec {
	s := t.req.Spec
	return measurement.Spec{
		Kind: measurement.RR, MaxWarmup: warmup, Duration: length,
		Protocol: s.Protocol, RequestBytes: s.RequestBytes, ResponseBytes: s.ResponseBytes,
		RequestsPerSecond: s.RequestsPerSecond, InFlight: 1, Spin: s.Spin,
		Timeout: cmp.Or(s.Timeout, measurement.SecondsOf(loadedTimeout)),
		DSCP:    s.DSCP, Device: s.Device, MSSBytes: s.MSSBytes,
	}
}

// idleWarmup is the part of the idle time that is discarded.
const idleWarmup = 0.1

func (t *test) measureIdle(ctx context.Context) error {
	req := t.req
	length := t.req.Spec.IdleDuration
	req.Spec, req.Prepared = t.probeSpec(length*idleWarmup, length*(1-idleWarmup)), nil
	var err error
	t.idle, err = rr.Run(ctx, req, t.probed)
	return err
}

// probeTime is the longest that the latency under load is taken: it begins
// before the load connects and ends after it.
func (t *test) probeTime() measurement.Seconds {
	return t.req.Spec.MaxWarmup + t.req.Spec.Duration + measurement.SecondsOf(session.SetupTime(t.req.Spec))
}

func (t *test) capacity() int {
	return int(float64(t.probeTime())*t.req.Spec.RequestsPerSecond) + 1
}

func (t *test) measureLoaded(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	enough, loadEnded := context.WithCancel(ctx)
	defer loadEnded()
	probing := make(chan struct{})
	probe := t.req
	probe.Spec, probe.Prepared = t.probeSpec(0, t.probeTime()), nil
	probe.Hooks = &session.Hooks{
		Started: func(time.Time) { close(probing) },
		Enough:  enough, Capacity: t.capacity(),
		Samples: func(start time.Time, kept []session.Sample) { t.probeStart, t.kept = start, kept },
	}
	group.Go(func() (err error) {
		t.probe, err = rr.Run(ctx, probe, t.probed)
		return err
	})
	load := t.req // what is common to several pairs is the start of the load: none is measured as idle meanwhile
	load.Spec.Kind, load.Spec.IdleDuration = measurement.TCP, 0
	load.Spec.Protocol, load.Spec.RequestBytes, load.Spec.ResponseBytes, load.Spec.RequestsPerSecond = "", 0, 0, 0
	load.Spec.Timeout, load.Spec.Spin = 0, false
	load.Hooks = &session.Hooks{Started: t.loadStarted}
	group.Go(func() (err error) {
		defer loadEnded()
		select {
		case <-probing: // the first moments of the load are of interest, too
		case <-ctx.Done():
			return ctx.Err()
		}
		t.load, err = tcp.Run(ctx, load, t.loaded)
		return err
	})
	return group.Wait()
}

// probed passes on a sign of life of the latency test, unless the load, which
// then carries it, gives its own.
func (t *test) probed(p measurement.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rtt = p.RTT
	if t.loadStart.IsZero() {
		t.sign(p)
	}
}

// loaded passes on a sign of life of the load.
func (t *test) loaded(p measurement.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sign(p)
}

func (t *test) sign(p measurement.Progress) {
	p.RTT, p.Elapsed = t.rtt, measurement.SecondsOf(time.Since(t.began))
	t.progress(p)
}

// loadStarted notes the time of the load's START.
func (t *test) loadStarted(start time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loadStart = start
}

// outcome takes the latency under load from the requests that were due in the
// load's measured window.
func (t *test) outcome() (measurement.Outcome, error) {
	out := t.load
	from := t.loadStart.Sub(t.probeStart) + out.Warmup.Duration()
	rtts, lost, unsent := session.Within(t.kept, from, from+t.req.Spec.Duration.Duration())
	if len(rtts) == 0 {
		err := fmt.Errorf("none of %d requests during the load was answered", lost+unsent)
		if t.req.Spec.Protocol == measurement.OverUDP {
			err = fmt.Errorf("%w: the load may crowd out or a firewall may drop UDP; take the latency over TCP (protocol tcp)", err)
		}
		return measurement.Outcome{}, &session.Error{Op: "latency under load", Reason: session.TimedOut, Err: err}
	}
	recorder := latency.New()
	for _, rtt := range rtts {
		recorder.Record(rtt)
	}
	recorder.Lose(int64(lost + unsent))
	loaded := recorder.Distribution()
	out.Metrics = measurement.Metrics{
		"load_bits_per_second": t.load.Metrics["goodput_bits_per_second"],
		"loss_fraction":        float64(lost) / float64(lost+len(rtts)),
	}
	measured := measurement.Metrics{}
	recorder.FillMetrics(measured, measurement.RR)
	median, hasMedian := measured["rtt_p50_seconds"]
	if hasMedian {
		out.Metrics["loaded_rtt_p50_seconds"] = median
	}
	if idle, ok := t.idle.Metrics["rtt_p50_seconds"]; ok {
		out.Metrics["idle_rtt_p50_seconds"] = idle
		if hasMedian {
			out.Metrics["rtt_increase_seconds"] = median - idle
		}
	}
	if perMinute, ok := responsiveness(rtts, lost+unsent); ok {
		out.Metrics["responsiveness_per_minute"] = perMinute
	}
	latency.AddPercentiles(out.Metrics, "loaded_rtt", loaded, 99)
	out.Latency, out.IdleLatency = &loaded, t.idle.Latency
	for k, v := range t.probe.Effective {
		if _, taken := out.Effective[k]; !taken {
			out.Effective[k] = v
		}
	}
	out.Facts = append(factsOf(out.Facts, t.idle.Facts, t.probe.Facts), t.heavyRequests(out.Metrics["load_bits_per_second"])...)
	return out, nil
}

// headerBytes are those of a request over UDP on Ethernet.
const headerBytes = 8 + 20 + 14

// heavyRequests says that the requests themselves load the path: they take more than a tenth of
// what the load carried in addition.
func (t *test) heavyRequests(load float64) []string {
	spec := t.req.Spec
	rate := spec.RequestsPerSecond * float64(max(spec.RequestBytes, spec.ResponseBytes)+headerBytes) * 8
	if rate <= 0.1*load {
		return nil
	}
	return []string{fmt.Sprintf("%g requests a second take %s of the path, beside the %s of the load: they wait for each other, also before it; take fewer (requests_per_second)",
		spec.RequestsPerSecond, session.BitRate(rate), session.BitRate(load))}
}

// factsOf joins what there is to know of the load and of the requests before it and under it.
// What is so of those before it alone says so: the test is about the others.
func factsOf(load, idle, loaded []string) []string {
	idle = slices.Clone(idle)
	for i, fact := range idle {
		if !slices.Contains(loaded, fact) && !slices.Contains(load, fact) {
			idle[i] += " (without load)"
		}
	}
	return session.AppendNew(session.AppendNew(load, idle...), loaded...)
}
