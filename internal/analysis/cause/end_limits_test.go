package cause_test

import (
	"math"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// hopCounts is a hop that counted evenly over the 1.3 s of a test: rates are per second.
func hopCounts(name string, perSecond measurement.HopSample) measurement.HopSeries {
	s := measurement.HopSeries{Name: name}
	for i := range 14 {
		at := float64(i) * 0.1
		var sample measurement.HopSample
		sample.Combine(perSecond, func(_, rate float64) float64 { return rate * at })
		sample.At, sample.ForwardPackets = measurement.Seconds(at), at*1e4
		s.Samples = append(s.Samples, sample)
	}
	return s
}

// change returns a flow with what is changed in each of its samples.
func (f flow) with(change func(*measurement.TCPInfo)) measurement.Flow {
	out := f.build()
	for i := range out.Info {
		out.Info[i].Delivered = 1
		change(&out.Info[i])
	}
	*out.Final = out.Info[len(out.Info)-1]
	return out
}

// received adds what the receiving end saw.
func received(f measurement.Flow, unread int64, thread float64) measurement.Flow {
	for i := range 27 {
		at := measurement.Seconds(i) * 0.05
		f.Receiver = append(f.Receiver, measurement.ReceiverInfo{At: at, Unread: unread, Thread: 1e-9 + at*measurement.Seconds(thread)})
	}
	return f
}

// partsOf are counters of a hop that are of others in part.
func partsOf(s measurement.HopSeries, parts measurement.HopParts) measurement.HopSeries {
	s.Parts = parts
	return s
}

func TestAttributionRules(t *testing.T) {
	queueing := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 4}
	idle := flow{busy: 1, inFlight: 10e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}
	window := flow{busy: 1, window: 1, inFlight: 100e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}
	advertise := func(s *measurement.TCPInfo) { s.SendWindow = 100e3 }
	nothing := func(*measurement.TCPInfo) {}
	type counts = measurement.HopSample
	bbr := func(t *measurement.Trial) { t.Effective = map[string]string{"congestion_control": "bbr"} }
	spiky := flow{busy: 1, inFlight: 50e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, pacing: 80e6, retransmits: 250}.with(func(s *measurement.TCPInfo) {
		if s.At > 0.4 && s.At < 0.5 {
			s.RTT = 20e-3
		}
	})
	links := func(source, destination float64) func(*measurement.Trial) {
		return func(t *measurement.Trial) {
			t.Source.LinkBitsPerSecond, t.Destination.LinkBitsPerSecond = source, destination
		}
	}
	for _, c := range []struct {
		name  string
		flows []measurement.Flow
		hops  []measurement.HopSeries
		opts  cause.Options
		set   func(*measurement.Trial)
		want  result.Cause
		hop   string
		rate  float64
	}{
		{name: "hop's rate", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("wire", counts{ForwardBusy: 0.3}), hopCounts("box", counts{ForwardBusy: 0.99})}, want: result.CauseHopRate, hop: "box", rate: 80e6},
		{name: "rate of a hop behind one that is a little faster, and also sends what it drops", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("fast", counts{ForwardBusy: 1.01, ForwardBytes: 11.01e6}), hopCounts("box", counts{ForwardBusy: 0.99, ForwardBytes: 10.66e6})}, want: result.CauseHopRate, hop: "box", rate: 84.5e6},
		{name: "rate of one of two links without a name", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("link", counts{ForwardBusy: 0.99}), hopCounts("box", counts{}), hopCounts("link", counts{})}, want: result.CauseHopRate, hop: "link", rate: 80e6},
		{name: "rate of an instance, next to one that carries confirmations", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("box", counts{ForwardBusy: 0.99, ForwardBytes: 10e6}), hopCounts("box", counts{ForwardBusy: 0.02, ForwardBytes: 200e3, BackwardBytes: 10e6})}, want: result.CauseHopRate, hop: "box", rate: 80e6},
		{name: "rate of two instances", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("box", counts{ForwardBusy: 0.99, ForwardBytes: 10e6}), hopCounts("box", counts{ForwardBusy: 0.95, ForwardBytes: 5e6})}, want: result.CauseHopRate, hop: "box", rate: 117e6},
		{name: "rate of which less was received in the time, as while its queue grew", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("box", counts{ForwardBusy: 0.99, ForwardBytes: 12e6})}, want: result.CauseHopRate, hop: "box", rate: 95.8e6},
		{name: "rate per flow with losses", flows: []measurement.Flow{queueing.build(), queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("box", counts{ForwardFlowBusy: 1.98, ForwardBytes: 20e6, FlowQueueDroppedPackets: 1000, CPU: 0.1})}, want: result.CauseHopFlowRate, hop: "box", rate: 73.5e6},
		{name: "rate of the kernel, which counts what its queue let pass", flows: []measurement.Flow{queueing.build(), queueing.build()}, hops: []measurement.HopSeries{
			hopCounts("box", counts{ForwardBusy: 0.99, ForwardBytes: 20e6, QueueDroppedPackets: 3000})}, want: result.CauseHopRate, hop: "box", rate: 163e6},
		{name: "rate of a link emulator behind the hop", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{
			partsOf(hopCounts("box", counts{ForwardBusy: 0.99}), measurement.HopParts{Rate: "slow"})}, want: result.CauseHopRate, hop: "slow", rate: 80e6},
		{name: "rate per flow of a link emulator behind the hop", flows: []measurement.Flow{queueing.build(), queueing.build()}, hops: []measurement.HopSeries{
			partsOf(hopCounts("box", counts{ForwardFlowBusy: 1.98}), measurement.HopParts{Rate: "slow", FlowRate: "fair"})}, want: result.CauseHopFlowRate, hop: "fair", rate: 40e6},
		{name: "policer behind the hop", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{
			partsOf(hopCounts("box", counts{ForwardBusy: 0.5, QueueDroppedPackets: 4}), measurement.HopParts{Rate: "slow"})}, want: result.CauseHopPolicer, hop: "slow", rate: 160e6},
		{name: "random loss behind the hop", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{
			partsOf(hopCounts("box", counts{LostPackets: 4}), measurement.HopParts{Rate: "slow", Losses: "lossy"})}, want: result.CauseCongestionWindowLoss, hop: "lossy"},
		{name: "hop's rate just below the cap", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.99})},
			opts: cause.Options{SourceEgressBitsPerSecond: 85e6}, want: result.CauseHopRate, hop: "box", rate: 80e6},
		{name: "rate per flow just below the cap", flows: []measurement.Flow{queueing.build(), queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardFlowBusy: 1.98})},
			opts: cause.Options{SourceEgressBitsPerSecond: 83e6}, want: result.CauseHopFlowRate, hop: "box", rate: 40e6},
		{name: "cap just below the hop's rate", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.975, ForwardBytes: 10.3e6})},
			opts: cause.Options{Lab: true, SourceEgressBitsPerSecond: 80e6}, want: result.CauseSourceCap},
		{name: "cap before a faster hop", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.92})},
			opts: cause.Options{SourceEgressBitsPerSecond: 83e6}, want: result.CauseSourceCap},
		{name: "a cap that was exceeded", flows: []measurement.Flow{queueing.build()}, opts: cause.Options{SourceEgressBitsPerSecond: 10e6}, want: result.CauseHopRate, rate: 80e6},
		{name: "the other direction", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{BackwardBusy: 0.99})},
			want: result.CauseCongestionWindowLoss},
		{name: "window below the hop's rate", flows: []measurement.Flow{window.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.92})},
			want: result.CauseReceiveWindow},
		{name: "rate per flow", flows: []measurement.Flow{queueing.build(), queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardFlowBusy: 1.98})},
			want: result.CauseHopFlowRate, hop: "box", rate: 40e6},
		{name: "policer", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.5, QueueDroppedPackets: 4})},
			want: result.CauseHopPolicer, hop: "box", rate: 160e6},
		{name: "policer that tells its drops alone", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{QueueDroppedPackets: 4})},
			want: result.CauseHopPolicer, hop: "box"},
		{name: "policer, its rate used up", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.95, QueueDroppedPackets: 4})},
			want: result.CauseHopPolicer, hop: "box", rate: 80e6},
		{name: "a long queue that drops while the machine is slow", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3, retransmits: 4}.build()},
			hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.4, QueueDroppedPackets: 4})}, want: result.CauseUnknown},
		{name: "hop's rate, mostly used", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3, retransmits: 4}.build()},
			hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.8, QueueDroppedPackets: 4})}, want: result.CauseHopRate, hop: "box", rate: 100e6},
		{name: "hop's rate behind a hop that drops more, but is faster", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3, retransmits: 4}.build()},
			hops: []measurement.HopSeries{hopCounts("fast", counts{ForwardBusy: 0.75, QueueDroppedPackets: 4}), hopCounts("box", counts{ForwardBusy: 0.8, QueueDroppedPackets: 1})}, want: result.CauseHopRate, hop: "box", rate: 100e6},
		{name: "hop's CPU", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardThread: 0.95})}, want: result.CauseHopCPU, hop: "box"},
		{name: "random loss", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{LostPackets: 4})},
			want: result.CauseCongestionWindowLoss, hop: "box"},
		{name: "reordering", flows: []measurement.Flow{lossy.with(func(s *measurement.TCPInfo) {
			s.DuplicateSegments, s.ReorderingSeen = s.Retransmits, int64(s.At*100)
		})}, hops: []measurement.HopSeries{hopCounts("box", counts{ReorderedPackets: 100})}, want: result.CauseReordering, hop: "box"},
		{name: "spurious retransmits", flows: []measurement.Flow{lossy.with(func(s *measurement.TCPInfo) { s.DuplicateSegments = s.Retransmits })}, want: result.CauseUnknown},
		{name: "local drops", flows: []measurement.Flow{lossy.build()}, set: func(t *measurement.Trial) {
			t.Source.Drops = []measurement.Drop{{Place: "eth0", Packets: 4}}
		}, want: result.CauseLocalDrops},
		{name: "sending program", flows: []measurement.Flow{idle.with(nothing)}, want: result.CauseSenderApplication},
		{name: "send buffer", flows: []measurement.Flow{idle.with(func(s *measurement.TCPInfo) { s.SendBufferFull = true })}, want: result.CauseSendBuffer},
		{name: "sending thread", flows: []measurement.Flow{idle.with(func(s *measurement.TCPInfo) { s.Thread = 1e-9 + s.At*0.95 })}, want: result.CauseSourceThread},
		{name: "receiving program", flows: []measurement.Flow{received(window.with(advertise), 80e3, 0.1)}, want: result.CauseReceiverApplication},
		{name: "receiving thread", flows: []measurement.Flow{received(window.with(advertise), 80e3, 0.95)}, want: result.CauseDestinationThread},
		{name: "window that is read at once", flows: []measurement.Flow{received(window.with(advertise), 2e3, 0.95)}, want: result.CauseReceiveWindow},
		{name: "growing window", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3}.with(func(s *measurement.TCPInfo) {
			s.CongestionWindow = int64(50e3 * (1 + s.At))
		})}, want: result.CauseCongestionWindowGrowth},
		{name: "queue that marks", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3}.with(func(s *measurement.TCPInfo) {
			s.Delivered, s.SlowStartThreshold, s.CongestionMarks = int64(s.At*7000), 1, int64(s.At*70)
		})}, want: result.CauseHopMarks},
		{name: "a mark or two", flows: []measurement.Flow{flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3}.with(func(s *measurement.TCPInfo) {
			s.Delivered, s.SlowStartThreshold, s.CongestionMarks = int64(s.At*7000), 1, int64(s.At*2)
		})}, want: result.CauseCongestionWindowDelay},
		{name: "marks of a hop that says its rate", flows: []measurement.Flow{queueing.with(func(s *measurement.TCPInfo) { s.CongestionMarks = int64(s.At * 70) })},
			hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.99})}, want: result.CauseHopRate, hop: "box", rate: 80e6},
		{name: "source's link", flows: []measurement.Flow{queueing.build()}, set: links(82e6, 1e9), want: result.CauseSourceLink},
		{name: "destination's link", flows: []measurement.Flow{queueing.build()}, set: links(1e9, 82e6), want: result.CauseDestinationLink},
		{name: "destination's link alone is known", flows: []measurement.Flow{queueing.build()}, set: links(0, 82e6), want: result.CauseDestinationLink},
		{name: "faster links", flows: []measurement.Flow{queueing.build()}, set: links(100e6, 1e9), want: result.CauseHopRate},
		{name: "a speed that was exceeded", flows: []measurement.Flow{queueing.build()}, set: links(10e6, 0), want: result.CauseHopRate},
		{name: "a speed in a lab", flows: []measurement.Flow{queueing.build()}, opts: cause.Options{Lab: true}, set: links(82e6, 82e6), want: result.CauseUnknown},
		{name: "BBR behind a hop that says nothing", flows: []measurement.Flow{flow{busy: 1, inFlight: 50e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, pacing: 80e6}.build()},
			set: bbr, want: result.CauseHopRate, rate: 80e6},
		{name: "BBR in front of a hop whose queue was full for a moment", flows: []measurement.Flow{lossy.with(func(s *measurement.TCPInfo) {
			if s.At > 0.4 && s.At < 0.5 {
				s.RTT = 20e-3
			}
		})}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.95, QueueDroppedPackets: 4})},
			set: bbr, want: result.CauseHopRate, hop: "box", rate: 80e6},
		{name: "BBR in front of a policer", flows: []measurement.Flow{lossy.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.95, QueueDroppedPackets: 4})},
			set: bbr, want: result.CauseHopPolicer, hop: "box", rate: 80e6},
		{name: "BBR that a receive window stops now and then", flows: []measurement.Flow{flow{busy: 1, window: 0.4, inFlight: 90e3, cwnd: 200e3, rtt: 10e-3, minRTT: 9.9e-3, pacing: 80e6}.build()},
			set: bbr, want: result.CauseReceiveWindow},
		{name: "BBR that a receiving program stops now and then", flows: []measurement.Flow{received(flow{busy: 1, window: 0.4, inFlight: 200e3, cwnd: 400e3, rtt: 20.2e-3, minRTT: 10e-3, pacing: 80e6}.with(advertise), 60e3, 0.01)},
			set: bbr, want: result.CauseReceiverApplication},
		{name: "BBR that a send buffer stops now and then", flows: []measurement.Flow{flow{busy: 1, buffer: 0.4, inFlight: 90e3, cwnd: 200e3, rtt: 10e-3, minRTT: 9.9e-3, pacing: 100e6}.build()},
			opts: cause.Options{Lab: true}, set: bbr, want: result.CauseSendBuffer},
		{name: "BBR in front of a policer that drops much, now and then", flows: []measurement.Flow{spiky}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.6, QueueDroppedPackets: 250})},
			opts: cause.Options{Lab: true}, set: bbr, want: result.CauseHopPolicer, hop: "box", rate: 133e6},
		{name: "BBR with more random losses", flows: []measurement.Flow{spiky}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBusy: 0.6, QueueDroppedPackets: 100, LostPackets: 150})},
			opts: cause.Options{Lab: true}, set: bbr, want: result.CauseUnknown},
		{name: "a queue behind a hop that counts bytes alone", flows: []measurement.Flow{queueing.build()}, hops: []measurement.HopSeries{hopCounts("box", counts{ForwardBytes: 1e7})},
			want: result.CauseHopRate, rate: 80e6},
		{name: "BBR that an end paces to its bound", flows: []measurement.Flow{flow{busy: 1, inFlight: 50e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, pacing: 80e6}.build()},
			set: func(t *measurement.Trial) {
				t.Effective = map[string]string{"congestion_control": "bbr", "pacing_bits_per_second": "80000000"}
			}, want: result.CausePacing},
		{name: "the machine", flows: []measurement.Flow{queueing.build()}, opts: cause.Options{Lab: true}, set: func(t *measurement.Trial) {
			t.Source = measurement.End{Host: "h", CPUs: 2, CPUBusy: 1}
			t.Destination = t.Source
		}, want: result.CauseGenerator},
		{name: "a full machine that the test does not need", flows: []measurement.Flow{received(queueing.with(nothing), 0, 0.1)}, opts: cause.Options{Lab: true}, set: func(t *measurement.Trial) {
			t.Source = measurement.End{Host: "h", CPUs: 2, CPUBusy: 1}
			t.Destination = t.Source
		}, want: result.CauseUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial := throughputTrial(80e6*1448/(1448+66), c.flows...)
			trial.HopSeries = c.hops
			if c.set != nil {
				c.set(&trial)
			}
			got := analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{flows1}, pathsNamed("direct", "hop"), analysis.Options{Options: c.opts}).Attributions[0]
			cause := largest(got.Shares)
			if math.IsInf(got.RateBitsPerSecond, 0) || got.Shares[cause] < 0.5 || cause != c.want || got.Hop != c.hop || c.rate > 0 && !near(got.RateBitsPerSecond, c.rate, 0.1*c.rate) {
				t.Errorf("%s at %q, %v bit/s, want %s at %q, %v bit/s (%v): %s", cause, got.Hop, got.RateBitsPerSecond, c.want, c.hop, c.rate, got.Shares, words.Attribution(got, measurement.Spec{}))
			}
		})
	}
}

// A rate of the path that grows with the flows is one of each flow; one that does not is
// no reason to advise more flows.
func TestAttributionAcrossFlows(t *testing.T) {
	queueing := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}.build()
	tests := []result.TestInfo{
		{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1}},
		{Name: "flows-8", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 8, Duration: 1}},
	}
	analyse := func(rate1, rate8 float64) []result.Attribution {
		one, eight := throughputTrial(rate1, queueing), throughputTrial(rate8)
		for range 8 {
			eight.Flows = append(eight.Flows, queueing)
		}
		one.Test, eight.Test = "flows-1", "flows-8"
		return analysis.Analyse([]measurement.Trial{one, eight}, tests, pathsNamed("hop"), analysis.Options{}).Attributions
	}
	if a := analyse(20e6, 158e6); a[0].Shares[result.CauseHopFlowRate] != 1 || a[1].Shares[result.CauseHopFlowRate] != 1 ||
		!near(a[1].RateBitsPerSecond, 20.6e6, 1e6) || !near(a[0].MoreFlowsGain, 7.9, 0.01) {
		t.Errorf("8 times as much with 8 flows: %+v", a)
	}
	unsteady := func(rate float64) measurement.Trial {
		t := throughputTrial(rate, queueing, queueing)
		for i := range t.Throughput.Bytes {
			t.Throughput.Bytes[i] *= float64(i % 50)
		}
		t.Test = "flows-8"
		return t
	}
	steady := throughputTrial(150e6, queueing)
	steady.Test = "flows-1"
	for rate, want := range map[float64]result.Cause{158e6: result.CauseHopRate, 250e6: result.CauseUnknown} {
		a := analysis.Analyse([]measurement.Trial{steady, unsteady(rate)}, tests, pathsNamed("hop"), analysis.Options{}).Attributions
		if a[0].Shares[result.CauseHopRate] != 1 || a[1].Shares[want] != 1 {
			t.Errorf("%v bit/s with 8 flows, which are not steady: %+v, want %s", rate, a, want)
		}
	}
	if a := analyse(158e6, 158e6); a[0].Shares[result.CauseHopRate] != 1 || a[0].MoreFlowsGain != 1 {
		t.Errorf("as much with 8 flows: %+v", a)
	}
}

// What held both sides of a comparison alike, and is an end's, is said of it.
func TestCommonLimit(t *testing.T) {
	capped := flow{busy: 1, window: 0.9, inFlight: 133e3, cwnd: 400e3, rtt: 0.9e-3, minRTT: 0.74e-3}.build()
	held := func(o cause.Options, trials ...measurement.Trial) *result.CommonLimit {
		a := analysis.Analyse(trials, []result.TestInfo{flows1}, pathsNamed("direct", "hop"), analysis.Options{Options: o})
		for _, e := range a.Costs {
			if e.Metric == goodput {
				return e.CommonLimit
			}
		}
		t.Fatalf("no comparison: %+v", a.Costs)
		return nil
	}
	cap := cause.Options{SourceEgressBitsPerSecond: 1.25e9}
	if h := held(cap, onPath("direct", 1.19e9, capped), onPath("hop", 1.195e9, capped)); h == nil || h.Cause != result.CauseSourceCap || h.RateBitsPerSecond != 1.25e9 {
		t.Errorf("both at the cap: %+v", h)
	}
	if h := held(cap, onPath("direct", 1.19e9, capped), onPath("hop", 0.5e9, capped)); h != nil {
		t.Errorf("one at the cap: %+v", h)
	}
	if h := held(cause.Options{}, onPath("direct", 1.19e9, capped), onPath("hop", 1.19e9, capped)); h != nil {
		t.Errorf("both at a window: %+v", h)
	}
}

// Where each end sends as much as it may, in a test of both directions, neither cap is the
// one limit: together they carry more than either.
func TestCapsOfBothDirections(t *testing.T) {
	there := flow{busy: 1, inFlight: 133e3, cwnd: 400e3, rtt: 0.9e-3, minRTT: 0.74e-3}.build()
	there.ReceivedBytes = 12e6
	back := there
	back.Reverse = true
	test := result.TestInfo{Name: flows1.Name, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1, Direction: measurement.Both}}
	back.Info = slices.Clone(there.Info)
	for i := range back.Info { // it sent for a little less of the time
		back.Info[i].Busy *= 0.98
	}
	last := back.Info[len(back.Info)-1]
	back.Final = &last
	trials := []measurement.Trial{onPath("direct", 190e6, there, back), onPath("hop", 190e6, there, back)}
	a := analysis.Analyse(trials, []result.TestInfo{test}, pathsNamed("direct", "hop"), analysis.Options{Options: cause.Options{SourceEgressBitsPerSecond: 100e6, DestinationEgressBitsPerSecond: 100e6}})
	says := words.Attribution(a.Attributions[0], measurement.Spec{Direction: measurement.Both})
	if want := "no single cause: source's egress cap 50\u00a0%, destination's egress cap 49\u00a0% of the time"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
	for _, e := range a.Costs {
		if e.CommonLimit != nil {
			t.Errorf("%s is limited by %+v", e.Metric, e.CommonLimit)
		}
	}
}

// What flows of both directions are paced to is the limit of either: together they carry twice
// as much.
func TestPacingOfBothDirections(t *testing.T) {
	there := flow{busy: 1, inFlight: 50e3, cwnd: 400e3, rtt: 0.9e-3, minRTT: 0.74e-3, pacing: 100e6}.build()
	there.ReceivedBytes = 12e6
	back := there
	back.Reverse = true
	test := result.TestInfo{Name: flows1.Name, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1, Direction: measurement.Both, PacingBitsPerSecond: 100e6}}
	trials := []measurement.Trial{onPath("direct", 198e6, there, back), onPath("hop", 198e6, there, back)}
	limit := analysis.Analyse(trials, []result.TestInfo{test}, pathsNamed("direct", "hop"), analysis.Options{}).Costs[0].CommonLimit
	if limit == nil || limit.Cause != result.CausePacing || limit.RateBitsPerSecond != 200e6 {
		t.Errorf("%+v", limit)
	}
}

// A test that was done again a little slower tells a rate that something sets from losses
// that come at any rate.
func TestAttributionExplains(t *testing.T) {
	tests := []result.TestInfo{
		{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1}},
		{Name: "slower", Explains: "flows-1", Intervention: result.Slower, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1, PacingBitsPerSecond: 72e6}},
	}
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 100}
	calm := flow{busy: 1, inFlight: 50e3, cwnd: 400e3, rtt: 9.5e-3, minRTT: 9e-3, pacing: 72e6}
	analyse := func(rate float64, again flow, hops ...measurement.HopSeries) result.Attribution {
		first, second := throughputTrial(80e6, lossy.build()), throughputTrial(rate, again.build())
		first.HopSeries = hops
		first.Test, second.Test = "flows-1", "slower"
		return analysis.Analyse([]measurement.Trial{first, second}, tests, pathsNamed("hop"), analysis.Options{}).Attributions[0]
	}
	if a := analyse(71e6, calm); a.Shares[result.CauseHopRate] != 1 || !near(a.RateBitsPerSecond, 83.6e6, 1e5) {
		t.Errorf("kept to without losses: %+v", a)
	}
	for busy, want := range map[measurement.Seconds]string{0.1: "", 0.8: "box"} {
		if a := analyse(71e6, calm, hopCounts("box", measurement.HopSample{ForwardBusy: busy})); a.Shares[result.CauseHopRate] != 1 || a.Hop != want {
			t.Errorf("a hop that sent at its rate for %v of the time: %+v", busy, a)
		}
	}
	if a := analyse(60e6, lossy); a.Shares[result.CauseCongestionWindowLoss] != 1 {
		t.Errorf("as many losses: %+v", a)
	}
	if a := analyse(71e6, lossy); a.Shares[result.CauseUnknown] != 1 {
		t.Errorf("kept to, with as many losses: %+v", a)
	}
}

// What a policer drops at the end of the warm-up is sent again in the measured time.
func TestDropsJustBeforeTheMeasuredTime(t *testing.T) {
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 4}
	trial := throughputTrial(80e6, lossy.build())
	trial.HopSeries = []measurement.HopSeries{hopCounts("box", measurement.HopSample{ForwardBusy: 0.5})}
	for i := range trial.HopSeries[0].Samples[3:] {
		trial.HopSeries[0].Samples[3+i].QueueDroppedPackets = 4
	}
	test := result.TestInfo{Name: flows1.Name, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1}}
	a := analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{test}, pathsNamed("hop"), analysis.Options{}).Attributions[0]
	if a.Shares[result.CauseHopPolicer] != 1 || a.Hop != "box" {
		t.Errorf("%s: %+v", words.Attribution(a, measurement.Spec{}), a)
	}
}
