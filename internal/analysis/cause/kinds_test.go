package cause_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// The flows of a load or ftp test are accounted for like those of a tcp test, and
// datagrams not at all.
func TestAttributionByKind(t *testing.T) {
	windowLimited := flow{window: 0.97, busy: 1, inFlight: 133e3, cwnd: 400e3, rtt: 3.0e-3, minRTT: 2.99e-3, pacing: 2e9}
	for _, c := range []struct {
		kind   measurement.Kind
		metric string
		want   int
	}{
		{measurement.TCP, goodput, 1}, {measurement.Load, "load_bits_per_second", 1}, {measurement.FTP, goodput, 1},
		{measurement.UDP, goodput, 0}, {measurement.PPS, "packets_per_second", 0}, {measurement.CRR, "connections_per_second", 0},
	} {
		trial := trialOf("hop", "it", c.metric, 355e6)
		trial.Warmup, trial.Flows = 0.3, []measurement.Flow{windowLimited.build()}
		a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: c.kind}), pathsNamed("direct", "hop"), analysis.Options{}).Attributions
		if len(a) != c.want {
			t.Errorf("%s has %d attributions, want %d", c.kind, len(a), c.want)
		}
		if len(a) == 1 && !strings.Contains(plain(words.Attribution(a[0], measurement.Spec{})), "allow 355 Mbit/s") {
			t.Errorf("%s: %q", c.kind, words.Attribution(a[0], measurement.Spec{}))
		}
	}
}

// A file is measured until it is there: what a hop counts behind that is not of the test.
func TestHopsCountUntilTheFileIsThere(t *testing.T) {
	queueing := flow{busy: 1, inFlight: 390e3, cwnd: 400e3, rtt: 30e-3, minRTT: 3e-3}
	trial := trialOf("hop", "it", goodput, 50e6)
	trial.Metrics["transfer_seconds"] = 1
	trial.Flows = []measurement.Flow{queueing.build()}
	hop := measurement.HopSeries{Name: "fw"}
	for i := range 40 {
		at := measurement.Seconds(i) * 0.1
		hop.Samples = append(hop.Samples, measurement.HopSample{At: at, BackwardBusy: min(at, 1), BackwardPackets: float64(i)})
	}
	trial.HopSeries = []measurement.HopSeries{hop}
	a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: measurement.FTP}), pathsNamed("direct", "hop"), analysis.Options{}).Attributions[0]
	if a.Shares[result.CauseHopRate] < 0.9 || a.Hop != "fw" {
		t.Errorf("%q: %v", words.Attribution(a, measurement.Spec{}), a.Shares)
	}
}

// A short file is often waiting for commands and slow start: the cap is compared with the
// rate while data flowed. The bursts of a window that is smaller than the path holds are as
// fast for less than a round trip.
func TestCapOfShortFiles(t *testing.T) {
	const full = 400e6 / 8 * 0.01 * 1448 / 1514 // bytes of a bin
	commands, slowStart := slices.Repeat([]float64{0}, 10), []float64{full / 100, full / 10, full / 2}
	for _, c := range []struct {
		name  string
		bytes []float64
		want  result.Cause
	}{
		{"at the cap once it began", slices.Concat(commands, slowStart, slices.Repeat([]float64{full}, 20)), result.CauseDestinationCap},
		{"a window's bursts", slices.Concat(commands, slices.Repeat([]float64{full, 0, 0}, 20)), result.CauseCongestionWindowDelay},
		{"the last of several segments", slices.Concat(commands, slices.Repeat([]float64{0.8 * full, 1.2 * full}, 12), slices.Repeat([]float64{full / 2, full / 5}, 5)), result.CauseDestinationCap},
		{"what waited for a lost segment", slices.Concat(slices.Repeat([]float64{0.8 * full}, 20), make([]float64, 8), []float64{8 * 0.8 * full}, slices.Repeat([]float64{0.8 * full}, 11)), result.CauseCongestionWindowDelay},
		{"at the cap for a part", slices.Concat(commands, slices.Repeat([]float64{full / 2}, 20), slices.Repeat([]float64{full}, 10)), result.CauseCongestionWindowDelay},
	} {
		trial := trialOf("hop", "it", goodput, 8*statistics.Mean(c.bytes)/0.01)
		trial.Metrics["transfer_seconds"] = 0.01 * float64(len(c.bytes))
		trial.Throughput = &measurement.Bins{Width: 0.01, Bytes: c.bytes}
		trial.Flows = []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 30e-3, minRTT: 29e-3}.build()}
		a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: measurement.FTP}), pathsNamed("direct", "hop"),
			analysis.Options{Options: cause.Options{Lab: true, DestinationEgressBitsPerSecond: 400e6}}).Attributions[0]
		if a.Shares[c.want] < 0.9 {
			t.Errorf("%s: %q: %v", c.name, words.Attribution(a, measurement.Spec{}), a.Shares)
		}
	}
}

// A sender that has sent all of a file waits for nobody, whatever its windows had been waiting
// for. There is no warm-up: a window that grew for as long as the file took has grown since the
// half of it.
func TestWindowOfAShortFile(t *testing.T) {
	const size = 1_000_000
	for _, c := range []struct {
		name string
		grow float64 // from sample to sample
		want result.Cause
	}{{"grows", 1.1, result.CauseCongestionWindowGrowth}, {"has grown", 1, result.CauseCongestionWindowDelay}} {
		window := 100e3
		f := measurement.Flow{ReceivedBytes: size, SentBytes: size}
		for i := range 20 {
			at := measurement.Seconds(float64(i)*0.01 + 0.001)
			s := measurement.TCPInfo{At: at, Busy: at, MSS: 1448, RTT: 0.1, MinRTT: 0.099, CongestionWindow: int64(window), SlowStartThreshold: 20e3, Delivered: 10}
			if s.InFlight, s.NotSent, s.SentBytes = s.CongestionWindow, 50e3, int64(i)*80e3; s.SentBytes > size {
				s.InFlight, s.NotSent, s.SentBytes = 5e3, 0, size
			}
			f.Info = append(f.Info, s)
			window *= c.grow
		}
		final := f.Info[19]
		final.At += 0.1 // until the sender has seen that all is there
		f.Final = &final
		trial := trialOf("hop", "it", goodput, 8*size/0.2)
		trial.Metrics["transfer_seconds"], trial.Flows = 0.2, []measurement.Flow{f}
		a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: measurement.FTP}), pathsNamed("direct", "hop"), analysis.Options{}).Attributions[0]
		if a.Shares[c.want] < 0.95 {
			t.Errorf("a window that %s: %v", c.name, a.Shares)
		}
	}
}

// The readings of a hop reach beyond a short file, in which it sent at its rate all the time.
func TestHopOfAShortFile(t *testing.T) {
	trial := trialOf("hop", "it", goodput, 94e6)
	trial.Metrics["transfer_seconds"] = 0.34
	trial.Flows = []measurement.Flow{flow{busy: 1, inFlight: 390e3, cwnd: 400e3, rtt: 30e-3, minRTT: 3e-3}.build()}
	hop := measurement.HopSeries{Name: "fw"}
	for i := range 6 {
		at := measurement.Seconds(i)*0.15 - 0.1
		hop.Samples = append(hop.Samples, measurement.HopSample{At: at, BackwardBusy: min(max(at, 0), 0.33), BackwardPackets: float64(i)})
	}
	trial.HopSeries = []measurement.HopSeries{hop}
	a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: measurement.FTP}), pathsNamed("direct", "hop"), analysis.Options{}).Attributions[0]
	if a.Shares[result.CauseHopRate] < 0.9 || a.Hop != "fw" {
		t.Errorf("%q: %v", words.Attribution(a, measurement.Spec{}), a.Shares)
	}
}

// The rate of a hop is that at which it sent, not that of the file, whose time is that of commands
// and slow start, too: what its sender sent, also behind the end of a segment, but for what was
// dropped and sent again. What ends a test passes behind the file, and counts little.
func TestRateOfAHopInAFile(t *testing.T) {
	for _, c := range []struct {
		name                string
		rate                float64 // of the hop, or of each flow
		idle, seconds       float64 // until it is busy, and then
		flows               int
		perFlow, receive    bool
		queueDropped, queue float64 // packets, bytes
		other               float64 // the share of this time for which a second instance is busy
		want                result.Cause
	}{
		{name: "long", rate: 20e6, idle: 0.3, seconds: 3, flows: 1, queue: 100e3, want: result.CauseHopRate},
		{name: "short", rate: 100e6, idle: 0.02, seconds: 0.3, flows: 1, queue: 500e3, want: result.CauseHopRate},
		{name: "segments", rate: 20e6, idle: 0.3, seconds: 3, flows: 8, queue: 100e3, want: result.CauseHopRate},
		{name: "two instances, with one segment of four", rate: 40e6, idle: 0.3, seconds: 3, flows: 4, queue: 100e3, other: 0.3, want: result.CauseHopRate},
		{name: "policer", rate: 20e6, idle: 0.6, seconds: 3, flows: 1, queueDropped: 50, want: result.CauseHopPolicer},
		{name: "policer towards the source", rate: 20e6, idle: 0.6, seconds: 3, flows: 1, queueDropped: 200, receive: true, want: result.CauseHopPolicer},
		{name: "dropping queue", rate: 20e6, idle: 0.6, seconds: 3, flows: 1, queueDropped: 50, queue: 100e3, want: result.CauseHopRate},
		{name: "rate per flow", rate: 5e6, idle: 0.3, seconds: 3, flows: 8, perFlow: true, queue: 100e3, want: result.CauseHopFlowRate},
		{name: "dropping queue per flow", rate: 5e6, idle: 0.6, seconds: 3, flows: 8, perFlow: true, queueDropped: 50, queue: 100e3, want: result.CauseHopFlowRate},
	} {
		end := c.idle + c.seconds
		flowRate := c.rate / float64(c.flows)
		if c.perFlow {
			flowRate = c.rate
		} else if c.other > 0 {
			flowRate *= (1 + c.other) / 2
		}
		busy := func(at float64) float64 { return max(0, min(at, end)-c.idle) }
		trial := trialOf("hop", "it", goodput, 0)
		trial.Metrics["transfer_seconds"] = end
		for range c.flows {
			f := flow{busy: 1, inFlight: 390e3, cwnd: 400e3, rtt: 3e-3 + c.queue*8/20e6, minRTT: 3e-3}.build()
			f.Info = f.Info[:0]
			for at := 0.01; at <= end+0.005; at += 0.01 {
				s := *f.Final
				s.At, s.Busy, s.RetransmittedBytes = measurement.Seconds(at), measurement.Seconds(at), int64(1e4*at*c.queueDropped)
				s.Retransmits = s.RetransmittedBytes / 1448
				s.SentBytes = int64(flowRate/8*1448/1514*busy(at)) + s.RetransmittedBytes
				f.Info = append(f.Info, s)
			}
			f.Final = &f.Info[len(f.Info)-1]
			f.SentBytes = f.Final.SentBytes - f.Final.RetransmittedBytes
			f.ReceivedBytes = f.SentBytes * 9 / 10
			trial.Metrics[goodput] += float64(f.ReceivedBytes) * 8 / end
			trial.Flows = append(trial.Flows, f)
		}
		hop := measurement.HopSeries{Name: "fw"}
		for at := -0.05; at < end+0.25; at += 0.1 {
			s := measurement.HopSample{At: measurement.Seconds(at)}
			s.QueueDroppedPackets = max(0, at) * c.queueDropped
			s.ForwardBusy = measurement.Seconds(busy(at))
			if at > end {
				s.ForwardBusy += 0.005
			}
			passed := c.rate / 8 * float64(s.ForwardBusy)
			if c.perFlow {
				passed *= float64(c.flows)
			} else if c.other > 0 {
				passed /= 2
			}
			s.CPU = s.At + 1
			s.ForwardBytes = passed + 1514*s.QueueDroppedPackets
			if c.receive { // what the hop's interface receives has come through
				s.BackwardBusy, s.BackwardBytes, s.ForwardBusy, s.ForwardBytes = s.ForwardBusy, passed, 0, 0
			}
			s.ForwardPackets, s.BackwardPackets = s.ForwardBytes/1514, s.BackwardBytes/1514
			if c.perFlow {
				s.FlowQueueDroppedPackets, s.QueueDroppedPackets = s.QueueDroppedPackets, 0
				s.ForwardFlowBusy, s.ForwardBusy = s.ForwardBusy*measurement.Seconds(c.flows), 0
			}
			hop.Samples = append(hop.Samples, s)
		}
		trial.HopSeries = []measurement.HopSeries{hop}
		if c.other > 0 {
			second := measurement.HopSeries{Name: "fw", Samples: slices.Clone(hop.Samples)}
			for i := range second.Samples {
				s := &second.Samples[i]
				s.ForwardBusy, s.ForwardBytes, s.ForwardPackets = s.ForwardBusy*measurement.Seconds(c.other), s.ForwardBytes*c.other, s.ForwardPackets*c.other
			}
			trial.HopSeries = append(trial.HopSeries, second)
		}
		spec := measurement.Spec{Kind: measurement.FTP, Flows: c.flows, Direction: measurement.Send}
		if c.receive {
			spec.Direction = measurement.Receive
		}
		a := analysis.Analyse([]measurement.Trial{trial}, testOf(spec), pathsNamed("direct", "hop"), analysis.Options{Options: cause.Options{Lab: true}}).Attributions[0]
		if a.Shares[c.want] < 0.5 || a.Hop != "fw" || !near(a.RateBitsPerSecond, c.rate, 0.03*c.rate) {
			t.Errorf("%s: %g bit/s of %q, want %g: %v", c.name, a.RateBitsPerSecond, a.Hop, c.rate, a.Shares)
		}
	}
}

// A file that loses nothing in its slow start is there after a few losses, which predict no rate.
// They are its limit where they took most of its time, and a hop says that it lost them.
func TestFewLossesOfAFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		after float64 // the window after the losses, bytes
		lost  float64 // packets
		want  result.Cause
	}{
		{"far below the window before", 130e3, 4, result.CauseCongestionWindowLoss},
		{"near the window before", 400e3, 4, result.CauseUnknown},
		{"of nobody", 130e3, 0, result.CauseUnknown},
	} {
		var f measurement.Flow
		delivered, at := 0.0, 0.0
		for window := 20e3; delivered < 4e6; at += 0.02 {
			s := measurement.TCPInfo{At: measurement.Seconds(at + 0.001), Busy: measurement.Seconds(at), MSS: 1448, RTT: 0.02, MinRTT: 0.0199,
				CongestionWindow: int64(window), InFlight: int64(window), NotSent: 1, SlowStartThreshold: 100e3, Delivered: int64(delivered / 1448)}
			if at > 0.1 {
				s.Retransmits = min(int64(at/0.02)-4, 4)
				s.CongestionWindow, s.InFlight = int64(c.after), int64(c.after)
			} else {
				window *= 1.9
			}
			delivered += float64(s.InFlight)
			f.Info = append(f.Info, s)
		}
		f.Final = &f.Info[len(f.Info)-1]
		f.SentBytes, f.ReceivedBytes = 4e6, 4e6
		trial := trialOf("hop", "it", goodput, 32e6/at)
		trial.Metrics["transfer_seconds"], trial.Flows = at, []measurement.Flow{f}
		trial.HopSeries = []measurement.HopSeries{{Name: "box", Samples: []measurement.HopSample{{At: -0.01}, {At: measurement.Seconds(at) + 0.01, ForwardPackets: 90, LostPackets: c.lost}}}}
		a := analysis.Analyse([]measurement.Trial{trial}, testOf(measurement.Spec{Kind: measurement.FTP}), pathsNamed("direct", "hop"), analysis.Options{Options: cause.Options{Lab: true}}).Attributions[0]
		if a.Shares[c.want] < 0.9 {
			t.Errorf("%s: %q: %v", c.name, words.Attribution(a, measurement.Spec{}), a.Shares)
		}
	}
}

// Each way of a test of both directions has its own sender, cap and rate.
func TestAttributionBothWays(t *testing.T) {
	limited := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3}
	there, back := limited.build(), limited.build()
	there.ReceivedBytes, back.ReceivedBytes, back.Reverse = 150e6, 10e6, true
	trial := throughputTrial(1.28e9, there, back) // 1.2 Gbit/s there, 80 Mbit/s back
	spec := measurement.Spec{Kind: measurement.TCP, Direction: measurement.Both}
	analyse := func(o cause.Options) result.Attribution {
		return analysis.Analyse([]measurement.Trial{trial}, testOf(spec), pathsNamed("direct", "hop"), analysis.Options{Options: o}).Attributions[0]
	}
	trial.Test = "it"
	for _, c := range []struct {
		name string
		opts cause.Options
		want map[result.Cause]float64
	}{
		{"the source's cap binds one way", cause.Options{SourceEgressBitsPerSecond: 1.25e9, DestinationEgressBitsPerSecond: 1.25e9},
			map[result.Cause]float64{result.CauseSourceCap: 0.5, result.CauseCongestionWindowDelay: 0.5}},
		{"the destination's cap binds the other", cause.Options{SourceEgressBitsPerSecond: 9e9, DestinationEgressBitsPerSecond: 80e6},
			map[result.Cause]float64{result.CauseDestinationCap: 0.5, result.CauseCongestionWindowDelay: 0.5}},
		{"no cap binds", cause.Options{}, map[result.Cause]float64{result.CauseCongestionWindowDelay: 1}},
	} {
		a := analyse(c.opts)
		for _, cause := range result.Causes() {
			if math.Abs(a.Shares[cause]-c.want[cause]) > 1e-9 {
				t.Errorf("%s: %s has %v, want %v (%s)", c.name, cause, a.Shares[cause], c.want[cause], words.Attribution(a, measurement.Spec{}))
			}
		}
	}
}

// What is thinned out of the series changes the account of the flows little:
// the kernel's times are totals.
func TestThinnedSeriesGiveTheSameShares(t *testing.T) {
	mixed := flow{busy: 0.9, window: 0.4, buffer: 0.1, inFlight: 390e3, cwnd: 400e3, rtt: 3e-3, minRTT: 3e-3}
	var flows []measurement.Flow
	for range 10 {
		flows = append(flows, mixed.build())
	}
	whole, thin := throughputTrial(1e9, flows...), throughputTrial(1e9, slices.Clone(flows)...)
	thin.Thin()
	if len(thin.Flows[0].Info) >= len(whole.Flows[0].Info) {
		t.Fatalf("%d samples of %d are left", len(thin.Flows[0].Info), len(whole.Flows[0].Info))
	}
	shares := func(trial measurement.Trial) map[result.Cause]float64 {
		return analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{flows1}, pathsNamed("hop"), analysis.Options{}).Attributions[0].Shares
	}
	want, got := shares(whole), shares(thin)
	for _, cause := range result.Causes() {
		if math.Abs(got[cause]-want[cause]) > 1e-9 {
			t.Errorf("%s has %v thinned, %v whole", cause, got[cause], want[cause])
		}
	}
}

// While what a full queue dropped is sent again no window is full: that time is the hop's, too.
func TestRecoveryBehindAFullQueue(t *testing.T) {
	f := flow{busy: 1, inFlight: 390e3, cwnd: 400e3, rtt: 30e-3, minRTT: 3e-3, retransmits: 100}.build()
	for i := range f.Info {
		if i%3 > 0 {
			f.Info[i].InFlight, f.Info[i].NotSent = 100e3, 50e3
		}
	}
	trial := throughputTrial(75e6, f)
	hop := measurement.HopSeries{Name: "fw"}
	for i := range 14 {
		at := measurement.Seconds(i) * 0.1
		hop.Samples = append(hop.Samples, measurement.HopSample{At: at, ForwardBusy: at * 0.75, ForwardPackets: float64(i), QueueDroppedPackets: float64(10 * i)})
	}
	trial.HopSeries = []measurement.HopSeries{hop}
	a := analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{flows1}, pathsNamed("direct", "hop"), analysis.Options{}).Attributions[0]
	if a.Shares[result.CauseHopRate] < 0.95 || a.Hop != "fw" {
		t.Errorf("%q: %v", words.Attribution(a, measurement.Spec{}), a.Shares)
	}
}
