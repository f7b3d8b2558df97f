package cause_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// flow describes the sender's samples of one flow over 1.3 s, of which 0.3 s
// are warm-up.
type flow struct {
	window, buffer, busy        float64 // shares of the time
	inFlight, cwnd, pacing, rtt float64 // bytes, bytes, bit/s, seconds
	minRTT                      float64
	retransmits                 int64 // per second
}

func (f flow) build() measurement.Flow {
	var out measurement.Flow
	for i := range 27 {
		at := float64(i) * 0.05
		s := measurement.TCPInfo{At: measurement.Seconds(at), MSS: 1448, RTT: measurement.Seconds(f.rtt), MinRTT: measurement.Seconds(f.minRTT),
			CongestionWindow: int64(f.cwnd), InFlight: int64(f.inFlight), PacingRate: f.pacing, Retransmits: int64(at * float64(f.retransmits))}
		// The warm-up was spent otherwise and must not count.
		s.Busy = measurement.Seconds(math.Min(at, 0.3) + f.busy*math.Max(0, at-0.3))
		s.ReceiveWindowTime = measurement.Seconds(f.window * math.Max(0, at-0.3))
		s.SendBufferTime = measurement.Seconds(f.buffer * math.Max(0, at-0.3))
		out.Info = append(out.Info, s)
	}
	last := out.Info[len(out.Info)-1]
	out.Final = &last
	return out
}

func throughputTrial(rate float64, flows ...measurement.Flow) measurement.Trial {
	t := trialOf("hop", flows1.Name, goodput, rate)
	t.Warmup = 0.3
	t.Flows = flows
	t.Throughput = &measurement.Bins{Width: 0.01}
	for range 130 {
		t.Throughput.Bytes = append(t.Throughput.Bytes, rate/800)
	}
	return t
}

// onPath is a throughputTrial on another path.
func onPath(path string, rate float64, flows ...measurement.Flow) measurement.Trial {
	t := throughputTrial(rate, flows...)
	t.Path = path
	return t
}

func TestAttribution(t *testing.T) {
	windowLimited := flow{window: 0.97, busy: 1, inFlight: 133e3, cwnd: 400e3, rtt: 3.0e-3, minRTT: 2.99e-3, pacing: 2e9}
	lossLimited := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, pacing: 96e6, retransmits: 4}
	delayLimited := lossLimited
	delayLimited.retransmits = 0
	for _, c := range []struct {
		name      string
		rate      float64
		flow      flow
		direction measurement.Direction
		src, dst  float64 // CPU
		opts      cause.Options
		want      map[result.Cause]float64
		sentence  string
	}{
		{"receive window", 355e6, windowLimited, "", 0.3, 0.3, cause.Options{SourceEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseReceiveWindow: 0.97, result.CauseUnknown: 0.03},
			"limited by the receive window 97 % of the time: 133 kB in flight at 3.00 ms per flow allow 355 Mbit/s; more flows or a larger receive window would raise it"},
		// The window fills the bucket's queue; the cap is the cause.
		{"source cap", 1.19e9, flow{window: 0.9, busy: 1, inFlight: 133e3, cwnd: 400e3, rtt: 0.9e-3, minRTT: 0.74e-3}, "", 0.99, 0.99, cause.Options{SourceEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseSourceCap: 1}, "at the source's egress cap of 1.25 Gbit/s"},
		{"destination cap", 1.19e9, flow{window: 0.9, busy: 1, inFlight: 133e3, cwnd: 400e3, rtt: 0.9e-3, minRTT: 0.74e-3}, measurement.Receive, 0, 0,
			cause.Options{SourceEgressBitsPerSecond: 9e9, DestinationEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseDestinationCap: 1}, "at the destination's egress cap of 1.25 Gbit/s"},
		{"the other end's cap", 1.19e9, delayLimited, measurement.Receive, 0, 0, cause.Options{SourceEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseCongestionWindowDelay: 1}, ""},
		{"loss", 80e6, lossLimited, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseCongestionWindowLoss: 1},
			"limited by the congestion window 100 % of the time, with losses: 100 kB in flight at 10.0 ms per flow allow 80.0 Mbit/s; more flows or fewer losses would raise it"},
		{"congestion window without loss", 80e6, delayLimited, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseCongestionWindowDelay: 1}, ""},
		// A steady rate behind a queue is that of a hop; in a lab, where hops say so
		// themselves, it is not guessed.
		{"queue", 80e6, flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3, retransmits: 4}, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseHopRate: 1},
			"at the rate of a hop of the path, 83.6 Mbit/s: most of the round trip of 10.0 ms is waiting in its queue (the smallest is 1.00 ms)"},
		{"queue in a lab", 80e6, flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}, "", 0.1, 0.1, cause.Options{Lab: true},
			map[result.Cause]float64{result.CauseUnknown: 1}, ""},
		{"queue before a busy receiver", 80e6, flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}, "", 0.1, 0.95, cause.Options{},
			map[result.Cause]float64{result.CauseDestinationCPU: 1}, ""},
		{"losses that do not explain the rate", 80e6, flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 100}, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseUnknown: 1}, ""},
		{"send buffer", 80e6, flow{busy: 1, buffer: 0.8, inFlight: 100e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseSendBuffer: 0.8, result.CauseUnknown: 0.2}, ""},
		{"pacing", 80e6, flow{busy: 1, inFlight: 100e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3, pacing: 82e6}, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CausePacing: 1}, "limited by the sender's own pacing 100 % of the time"},
		{"idle sender", 80e6, flow{busy: 0.25, inFlight: 10e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}, "", 0.1, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseSenderApplication: 0.75, result.CauseUnknown: 0.25},
			"the sending program on the source had nothing to send 75 % of the time"},
		{"busy source", 9e9, flow{busy: 0.25, inFlight: 10e3, cwnd: 400e3, rtt: 1e-4, minRTT: 9e-5}, "", 0.95, 0.1, cause.Options{},
			map[result.Cause]float64{result.CauseSourceCPU: 1},
			"the CPUs of the source (sending) were busy; nothing else explains 100 % of the time"},
		{"busy receiver", 2e9, flow{busy: 1, window: 0.9, inFlight: 3e6, cwnd: 4e6, rtt: 12e-3, minRTT: 1e-3}, "", 0.2, 0.95, cause.Options{},
			map[result.Cause]float64{result.CauseDestinationCPU: 1}, ""},
		// A busy receiver is not to blame for a window that explains the rate.
		{"window though busy", 355e6, windowLimited, "", 0.2, 0.95, cause.Options{},
			map[result.Cause]float64{result.CauseReceiveWindow: 0.97, result.CauseDestinationCPU: 0.03}, ""},
		{"both busy", 80e6, flow{busy: 1, inFlight: 10e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}, "", 0.95, 0.95, cause.Options{},
			map[result.Cause]float64{result.CauseSourceCPU: 0.5, result.CauseDestinationCPU: 0.5}, ""},
		// Goodput is 92 % of the cap, the frames on the wire 96 %.
		{"cap counts frames", 1.15e9, flow{busy: 1, inFlight: 10e3, cwnd: 400e3, rtt: 3e-3, minRTT: 3e-3}, "", 0.2, 0.2, cause.Options{SourceEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseSourceCap: 1}, ""},
		{"overlapping counters", 80e6, flow{busy: 0.8, window: 0.6, buffer: 0.6, inFlight: 10e3, cwnd: 400e3, rtt: 3e-3, minRTT: 3e-3}, "", 0.2, 0.2, cause.Options{},
			map[result.Cause]float64{result.CauseReceiveWindow: 0.4, result.CauseSendBuffer: 0.4, result.CauseSenderApplication: 0.2}, ""},
		{"mixed", 355e6, flow{busy: 0.7, window: 0.4, inFlight: 10e3, cwnd: 400e3, rtt: 3e-3, minRTT: 3e-3}, "", 0.2, 0.2, cause.Options{},
			map[result.Cause]float64{result.CauseReceiveWindow: 0.4, result.CauseSenderApplication: 0.3, result.CauseUnknown: 0.3},
			"no single cause: receive window 40 %, sending program 30 %, unknown 30 % of the time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial := throughputTrial(c.rate, c.flow.build())
			trial.Source.CPUBusy, trial.Destination.CPUBusy = c.src, c.dst
			test := flows1
			test.Spec.Direction = c.direction
			a := analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{test, latency}, pathsNamed("direct", "hop"), analysis.Options{Options: c.opts})
			if len(a.Attributions) != 1 {
				t.Fatalf("%+v", a.Attributions)
			}
			got := a.Attributions[0]
			if got.Path != "hop" || got.Test != flows1.Name || got.N != 1 {
				t.Errorf("%+v", got)
			}
			for cause, share := range c.want {
				if !near(got.Shares[cause], share, 1e-6) {
					t.Errorf("%s has %v of the time, want %v (%v)", cause, got.Shares[cause], share, got.Shares)
				}
			}
			if len(got.Shares) != len(c.want) {
				t.Errorf("shares %v, want %v", got.Shares, c.want)
			}
			if text := plain(words.Attribution(got, measurement.Spec{Direction: c.direction})); c.sentence != "" && text != c.sentence {
				t.Errorf("sentence\n%s\nwant\n%s", text, c.sentence)
			}
		})
	}
}

// What the kernel did not report is unknown, not guessed.
func TestAttributionWithoutFacts(t *testing.T) {
	for name, f := range map[string][]measurement.Flow{
		"no flows": nil, "no info": {{}},
		"only the end": {{Final: &measurement.TCPInfo{At: 1}}},
		"backwards":    {{Info: []measurement.TCPInfo{{At: 0.2, Busy: 5}}, Final: &measurement.TCPInfo{At: 0.1, Busy: 1}}},
	} {
		a := analysis.Analyse([]measurement.Trial{throughputTrial(1e9, f...)}, []result.TestInfo{flows1}, pathsNamed("hop"), analysis.Options{})
		got := a.Attributions[0]
		if len(got.Shares) != 1 || got.Shares[result.CauseUnknown] != 1 || !strings.Contains(words.Attribution(got, measurement.Spec{}), "do not show the limit") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSharesAddToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(-0.5, 2)
		number := rapid.Float64Range(0, 1e9)
		var trials []measurement.Trial
		for i := range rapid.IntRange(1, 4).Draw(t, "trials") {
			var flows []measurement.Flow
			for range rapid.IntRange(0, 3).Draw(t, "flows") {
				flows = append(flows, flow{window: share.Draw(t, "window"), buffer: share.Draw(t, "buffer"), busy: share.Draw(t, "busy"),
					inFlight: number.Draw(t, "in flight"), cwnd: number.Draw(t, "cwnd"), pacing: number.Draw(t, "pacing"),
					rtt: number.Draw(t, "rtt") / 1e9, minRTT: number.Draw(t, "min rtt") / 1e9, retransmits: rapid.Int64Range(0, 9).Draw(t, "retransmits")}.build())
			}
			trial := throughputTrial(number.Draw(t, "rate"), flows...)
			trial.Block = i
			trial.Source.CPUBusy, trial.Destination.CPUBusy = rapid.Float64Range(0, 1).Draw(t, "source"), rapid.Float64Range(0, 1).Draw(t, "destination")
			trials = append(trials, trial)
		}
		a := analysis.Analyse(trials, []result.TestInfo{flows1}, pathsNamed("hop"), analysis.Options{Options: cause.Options{SourceEgressBitsPerSecond: number.Draw(t, "cap")}})
		total := 0.0
		for cause, s := range a.Attributions[0].Shares {
			if !(s > 0 && s <= 1+1e-9) {
				t.Fatalf("%s has %v", cause, s)
			}
			total += s
		}
		if !near(total, 1, 1e-9) || words.Attribution(a.Attributions[0], measurement.Spec{}) == "" {
			t.Fatalf("%+v add to %v", a.Attributions[0], total)
		}
	})
}
