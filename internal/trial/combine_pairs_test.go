package trial

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
)

var begin = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// steadyPair received bytes in each of 100 bins of 10 ms and started so much later.
func steadyPair(bytes float64, later time.Duration) brought {
	o := measurement.Outcome{
		Started: begin.Add(later),
		Metrics: measurement.Metrics{
			"goodput_bits_per_second": bytes * 800, "retransmitted_segments": 3, "tcp_rtt_mean_seconds": bytes * 1e-6, "cpu_seconds_per_byte": 1,
		},
		Throughput: &measurement.Bins{Width: 0.01},
		Flows:      []measurement.Flow{{ReceivedBytes: int64(bytes)}},
		Source:     measurement.End{Host: "h", CPUs: 2, CPUTime: 1.5, CPUBusy: 0.8, NetworkID: "a", Drops: []measurement.Drop{{Place: "veth", Packets: 2}, {Place: "backlog", Packets: 5, HostWide: true}}},
		Effective:  map[string]string{"mss": "1448", "buffer": string(rune('a' + int(later.Milliseconds())%26))},
		Facts:      []string{"the same fact"},
	}
	o.Destination = o.Source
	o.Destination.NetworkID = "b"
	for range 100 {
		o.Throughput.Bytes = append(o.Throughput.Bytes, bytes)
	}
	o.Pairs = []measurement.Pair{{RTT: []measurement.PairRTT{{At: 0.05, RTT: 0.002}}}}
	return brought{source: "c", destination: "s", outcome: o}
}

var combineSpec = measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 0.8, MaxWarmup: 0.2}

func TestCombine(t *testing.T) {
	all := []brought{steadyPair(1000, 0), steadyPair(3000, 25*time.Millisecond), {source: "c3", destination: "s3", err: errors.New("gone")}}
	all[1].outcome.Hops = []measurement.TraceHop{{TTL: 1, Address: "10.0.1.2", Reached: true}} // as of a trace
	o := combine(combineSpec, all)
	close := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	m := o.Metrics
	close("goodput", m["goodput_bits_per_second"], 4000*800)
	close("goodput of the second", o.Pairs[1].Metrics["goodput_bits_per_second"], 3000*800)
	close("retransmits", m["retransmitted_segments"], 6)
	if hops := o.Pairs[1].Hops; len(hops) != 1 || hops[0].Address != "10.0.1.2" || o.Pairs[0].Hops != nil {
		t.Errorf("hops of the pairs: %+v", o.Pairs[:2])
	}
	close("RTT", m["tcp_rtt_mean_seconds"], 2e-3)
	close("delay", float64(o.Pairs[1].Delay), 0.025)
	close("CPU of the one host, per byte", m["cpu_seconds_per_byte"], 1.5/(4000*800*0.8/8))
	close("bytes of the third bin", o.Throughput.Bytes[2], 1000+1500)
	close("bytes of the last bin", o.Throughput.Bytes[99], 4000)
	if o.Warmup < 0.025 {
		t.Errorf("the measured window begins at %v s, before the last pair started", o.Warmup)
	}
	if _, there := o.Pairs[0].Metrics["cpu_seconds_per_byte"]; there {
		t.Error("a single pair is said to have used the whole host")
	}
	// Retransmits of a sender that does not count them are not 0.
	delete(all[1].outcome.Metrics, "retransmitted_segments")
	if n, ok := combine(combineSpec, all).Metrics["retransmitted_segments"]; ok {
		t.Errorf("%v retransmits, of which one sender has not told any", n)
	}
	if o.Pairs[2].Error != "gone" || o.Pairs[2].Source != "c3" || len(o.Pairs[0].RTT) != 1 {
		t.Errorf("pairs: %+v", o.Pairs)
	}
	if len(o.Flows) != 2 || len(o.Facts) != 1 || o.Effective["mss"] != "1448" || o.Effective["buffer"] != differs {
		t.Errorf("%d flows, facts %q, effective %v", len(o.Flows), o.Facts, o.Effective)
	}
	if d := o.Source.Drops; len(d) != 2 || d[0].Packets != 4 || d[1].Packets != 5 {
		t.Errorf("drops %+v: those of network namespaces add up, those of the host do not", d)
	}
	if !o.Started.Equal(begin) {
		t.Errorf("started %v", o.Started)
	}
}

// The goodputs of both directions are of the window of all pairs, as their sum is.
func TestCombineBothDirections(t *testing.T) {
	all := []brought{steadyPair(1000, 0), steadyPair(3000, 25*time.Millisecond), steadyPair(0, 0)}
	for i, forward := range []float64{0.25, 0.5, 0} {
		m := all[i].outcome.Metrics
		m["goodput_bits_per_second"] *= 0.9 // of its own window
		m["forward_goodput_bits_per_second"], m["reverse_goodput_bits_per_second"] = forward*m["goodput_bits_per_second"], (1-forward)*m["goodput_bits_per_second"]
	}
	o := combine(combineSpec, all)
	for name, want := range map[string]float64{"goodput_bits_per_second": 4000, "forward_goodput_bits_per_second": 250 + 1500, "reverse_goodput_bits_per_second": 750 + 1500} {
		if got := o.Metrics[name]; math.Abs(got-want*800) > 1e-6*got {
			t.Errorf("%s is %v, want %v", name, got, want*800)
		}
	}
	if m := o.Pairs[0].Metrics; math.Abs(m["forward_goodput_bits_per_second"]-0.25*1000*800) > 1 {
		t.Errorf("the first pair has %v", m)
	}
}

// What the pairs carry together, the links of their machines bound together, where all are
// known.
// What one of several hosts does not tell, or one end of a host, is not 0.
func TestCostOfHostsThatDoNotTell(t *testing.T) {
	a, b := measurement.End{HostID: "a", CPUTime: 2, CPUBusy: 0.5, ContextSwitches: 100}, measurement.End{HostID: "b", CPUTime: 1, ContextSwitches: 50}
	for _, c := range []struct {
		ends          []measurement.End
		cpu, switches float64
	}{
		{[]measurement.End{a, a, b}, 3, 150},
		{[]measurement.End{a, {HostID: "a"}, b}, 3, 150},
		{[]measurement.End{a, b, {HostID: "c"}}, 0, 0},
		{[]measurement.End{a, {HostID: "c", ContextSwitches: 10}}, 2, 110}, // less than 0.01 s
		{[]measurement.End{a, {HostID: "c", CPUTime: 1}}, 3, 0},
	} {
		if got := hostsOf(c.ends, nil); float64(got.CPUTime) != c.cpu || got.ContextSwitches != c.switches || got.CPUBusy != 0.5 {
			t.Errorf("%+v: %+v", c.ends, got)
		}
	}
}

func TestLinksOfHosts(t *testing.T) {
	ends := []measurement.End{{HostID: "a", LinkBitsPerSecond: 1e9}, {HostID: "b", LinkBitsPerSecond: 10e9}, {HostID: "a", LinkBitsPerSecond: 1e9}}
	if got := hostsOf(ends, nil).LinkBitsPerSecond; got != 11e9 {
		t.Errorf("links of two machines are %g bit/s together", got)
	}
	if got := hostsOf(append(ends, measurement.End{HostID: "c"}), nil).LinkBitsPerSecond; got != 0 {
		t.Errorf("links of machines of which one does not tell are %g bit/s together", got)
	}
}

// Files of 1000 bytes, the second of which had the path for itself after the first: both
// took as long as they would together.
func TestCombineFiles(t *testing.T) {
	file := func(later time.Duration) brought {
		o := measurement.Outcome{
			Started:    begin.Add(later),
			Metrics:    measurement.Metrics{"goodput_bits_per_second": 8000, "transfer_seconds": 1, "file_bytes": 1000},
			Throughput: &measurement.Bins{Width: 0.5, Bytes: []float64{500, 500}},
			Source:     measurement.End{Host: "a", CPUTime: 0.5, ContextSwitches: 100, Clock: &measurement.Clock{Offset: -measurement.SecondsOf(later), Uncertainty: 0.002 - measurement.SecondsOf(later)/1000, DriftPPM: -3, Steps: 1}},
			// Two hosts, each of which saw its own file alone.
			Destination: measurement.End{Host: fmt.Sprint("b", later), CPUTime: 0.25, ContextSwitches: 50},
		}
		return brought{source: "c", destination: "s", outcome: o}
	}
	o := combine(measurement.Spec{Kind: measurement.FTP, Flows: 1, FileBytes: 1000}, []brought{file(0), file(time.Second)})
	if m := o.Metrics; o.Warmup != 0 || m["goodput_bits_per_second"] != 8000 || m["transfer_seconds"] != 2 || m["file_bytes"] != 1000 || o.Pairs[1].Metrics["transfer_seconds"] != 1 {
		t.Errorf("%v after %v, pairs %+v", m, o.Warmup, o.Pairs)
	}
	if m := o.Metrics; o.Source.CPUTime != 1 || o.Destination.CPUTime != 0.5 || m["cpu_seconds_per_byte"] != 1.5/2000 || m["context_switches_per_second"] != 150 {
		t.Errorf("%v, source %+v, destination %+v", m, o.Source, o.Destination)
	}
	if c := o.Source.Clock; c == nil || *c != (measurement.Clock{Offset: -1, Uncertainty: 0.002, DriftPPM: -3, Steps: 1}) || o.Destination.Clock != nil {
		t.Errorf("clocks of the sources: %+v, of the destinations: %+v", c, o.Destination.Clock)
	}
	if b := o.Throughput.Bytes; !slices.Equal(b, []float64{500, 500, 500, 500}) {
		t.Errorf("throughput %v", b)
	}
}

func TestCombineOfNothing(t *testing.T) {
	o, each, err := together(combineSpec, []brought{{source: "a", destination: "b", err: errors.New("one")}, {source: "c", destination: "d", err: errors.New("two")}})
	if err == nil || !strings.Contains(err.Error(), "none of 2 pairs") || !strings.Contains(err.Error(), "one") || len(each) != 2 || len(o.Pairs) != 2 {
		t.Errorf("%v, %d outcomes, %+v", err, len(each), o.Pairs)
	}
}

// Whatever the delays and the widths, no byte that fits on the axis is lost or made.
func TestAxisKeepsBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		count := measurement.Bins{Width: measurement.Seconds(0.01 + rng.Float64()), Bytes: make([]float64, rng.IntN(50))}
		total := 0.0
		for i := range count.Bytes {
			count.Bytes[i] = rng.Float64()
			total += count.Bytes[i]
		}
		delay, width := rng.Float64()*60, 0.01+rng.Float64()
		end := delay + float64(count.Width)*float64(len(count.Bytes))
		sum := 0.0
		for i, v := range onAxis(count, delay, width, int(end/width)+1) {
			if sum += v; v > 0 && (float64(i+1)*width < delay-1e-9 || float64(i)*width > end+1e-9) {
				t.Fatalf("%v bytes from %v to %v are in the bin at %v", v, delay, end, float64(i)*width)
			}
		}
		if math.Abs(sum-total) > 1e-9 {
			t.Fatalf("%v bytes became %v %v later in bins of %v", total, sum, delay, width)
		}
		if short := onAxis(count, delay, width, 7); len(short) != 7 {
			t.Fatalf("%d bins, want 7", len(short))
		}
	}
}

func TestCoarse(t *testing.T) {
	for _, test := range []struct{ bins, want int }{{0, 0}, {1, 1}, {400, 400}, {401, 200}, {1001, 200}, {3200, 320}, {20_000, 400}} {
		b := measurement.Bins{Width: 0.01, Bytes: make([]float64, test.bins)}
		for i := range b.Bytes {
			b.Bytes[i] = 1
		}
		got := coarse(b, mostPairBins)
		if len(got.Bytes) != test.want {
			t.Errorf("%d bins became %d, want %d", test.bins, len(got.Bytes), test.want)
		}
		for _, v := range got.Bytes {
			if rate, want := v/float64(got.Width), 1/float64(b.Width); math.Abs(rate-want) > 1e-9*want {
				t.Fatalf("the rate changed from %v to %v", want, rate)
			}
		}
	}
}

// Pairs that start over minutes count in bins of seconds, if there are many of them: they are
// measured for as long as the test says all the same, from the latest start on.
func TestWindowOfWideBins(t *testing.T) {
	for pairs, duration := range map[int]measurement.Seconds{500: 10, 1000: 30, 2000: 20} {
		spec := measurement.Spec{Kind: measurement.TCP, Waves: 10, WaveEvery: 60, Duration: duration}.Defaults()
		var all []brought
		for k := range pairs {
			wait := spec.StartOf(k, pairs)
			own := measuresLater(spec, spec.StartSpan()-wait)
			own.Pairs = pairs
			bins, width := session.BinsOf(own)
			b := steadyPair(1e6*width.Seconds(), wait.Duration()+time.Duration(k%7)*time.Millisecond)
			b.outcome.Throughput = &measurement.Bins{Width: measurement.SecondsOf(width), Bytes: slices.Repeat(b.outcome.Throughput.Bytes[:1], bins)}
			all = append(all, b)
		}
		o, _, err := together(spec, all)
		judged := gate.Judge(spec, o, measurement.Fingerprint{Matches: true}, gate.Limits{Pairs: pairs, BusyWarns: true}, err)
		if got := o.Metrics["goodput_bits_per_second"]; !judged.Passed || o.Warmup < spec.StartSpan() || math.Abs(got/float64(pairs)-8e6) > 1 {
			t.Errorf("%d pairs, %v: %v bit/s of each after %v s; %s", pairs, duration.Duration(), got/float64(pairs), o.Warmup, words.Findings(judged, false))
		}
	}
}

func TestPairGates(t *testing.T) {
	three := []brought{steadyPair(1e6, 0), steadyPair(1e6, 0), steadyPair(1e6, 0)}
	for name, test := range map[string]struct {
		change func([]brought)
		want   string
		gate   measurement.Gate // but for its findings
	}{
		"all": {func([]brought) {}, "", measurement.Gate{Passed: true}},
		"one failed": {func(b []brought) { b[1] = brought{source: "c2", destination: "s2", err: errors.New("burnt")} },
			"2 of 3 pairs returned a result; c2 to s2: burnt", measurement.Gate{}},
		"one was reset":                       {func(b []brought) { b[1].err = syscall.ECONNRESET }, "the path failed 1 of 3 pairs", measurement.Gate{Broken: true}},
		"two failed, one of them by the path": {func(b []brought) { b[1].err, b[2].err = syscall.ECONNRESET, errors.New("burnt") }, "1 of 3 pairs", measurement.Gate{}},
		"one empty": {func(b []brought) { b[2].source, b[2].outcome = "c3", steadyPair(0, 0).outcome },
			"nothing was confirmed in the measured time for c3 to s", measurement.Gate{Broken: true}},
		"above rates": {func(b []brought) { b[0] = steadyPair(1e8, 0) }, "times the pairs", measurement.Gate{Passed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			all := append([]brought(nil), three...)
			test.change(all)
			o, _, err := together(combineSpec, all)
			gate := gate.Judge(combineSpec, o, measurement.Fingerprint{Matches: true}, gate.Limits{Pairs: 3, Limits: testbed.Limits{SourceEgressBitsPerSecond: 1e9}, BusyWarns: true}, err)
			if all := words.Findings(gate, false); gate.Passed != test.gate.Passed || gate.Broken != test.gate.Broken || !strings.Contains(all, test.want) {
				t.Errorf("passed %v, broken %v\n%s", gate.Passed, gate.Broken, all)
			}
		})
	}
}

// What several pairs measured becomes one value as the metric says.
func TestCombined(t *testing.T) {
	for name, want := range map[string]float64{
		"rtt_min_seconds": 1, "path_mtu_bytes": 1, "reverse_path_mtu_bytes": 1, "rtt_max_seconds": 5,
		"responsiveness_per_minute": 3, "hops_count": 3, "silent_hops_count": 3, "loss_fraction": 3, "delay_variation_p99_seconds": 5,
		"transactions_per_second": 6, "goodput_bits_per_second": 6, "of_a_newer_version": 3,
	} {
		if got := combined(name, []float64{1, 5}, []float64{1, 1}); got != want {
			t.Errorf("%s of 1 and 5 is %v, want %v", name, got, want)
		}
	}
}

// answering is a pair that was answered after so long, times round trips, and lost others.
func answering(times, lost int, rtt time.Duration) brought {
	r := latency.New()
	for range times {
		r.Record(rtt)
	}
	r.Lose(int64(lost))
	d := r.Distribution()
	o := measurement.Outcome{Latency: &d, IdleLatency: &d, Metrics: measurement.Metrics{"loss_fraction": float64(lost) / float64(times+lost)}}
	r.FillMetrics(o.Metrics, measurement.RR)
	return brought{source: "c", destination: "s", outcome: o}
}

// The round trips of several pairs are those of all requests together: the mean of the
// pairs' percentiles is no percentile of anything.
func TestPercentilesOfPairs(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-3*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	pairs := []brought{answering(9000, 0, time.Millisecond), answering(950, 50, 9*time.Millisecond)}
	m := combine(measurement.Spec{Kind: measurement.RR}, pairs).Metrics
	near("the median", m["rtt_p50_seconds"], 1e-3)
	near("p99", m["rtt_p99_seconds"], 9e-3)
	near("the mean", m["rtt_mean_seconds"], (9000*1e-3+950*9e-3)/9950)
	near("the longest", m["rtt_max_seconds"], 9e-3)
	near("the loss", m["loss_fraction"], 50.0/10_000)

	loaded := combine(measurement.Spec{Kind: measurement.Load}, pairs).Metrics
	near("the loaded median", loaded["loaded_rtt_p50_seconds"], 1e-3)
	near("the idle median", loaded["idle_rtt_p50_seconds"], 1e-3)
	near("loaded p99", loaded["loaded_rtt_p99_seconds"], 9e-3)
	if v, ok := loaded["rtt_increase_seconds"]; !ok || v != 0 {
		t.Errorf("the increase is %v, %v", v, ok)
	}

	// The slower pair lost most of what it asked: so did both together.
	pairs[1] = answering(10, 20_000, 9*time.Millisecond)
	m = combine(measurement.Spec{Kind: measurement.RR}, pairs).Metrics
	if v, ok := m["rtt_p50_seconds"]; ok {
		t.Errorf("the median of requests of which two thirds are lost is %v", v)
	}
	near("the loss", m["loss_fraction"], 20_000.0/29_010)

	// Times to connect have no distribution, and so no percentiles of all pairs.
	for _, b := range pairs {
		b.outcome.Metrics["connect_p50_seconds"], b.outcome.Metrics["connections_per_second"] = 1e-3, 5
	}
	o := combine(measurement.Spec{Kind: measurement.CRR}, pairs)
	if v, ok := o.Metrics["connect_p50_seconds"]; ok || o.Metrics["connections_per_second"] != 10 || o.Pairs[1].Metrics["connect_p50_seconds"] != 1e-3 {
		t.Errorf("a median of the time to connect of %v, %v", v, o.Metrics)
	}
}

// What the one-way delays of a pair are made of stays with it.
func TestOneWayDelaysOfPairs(t *testing.T) {
	pair := func(ahead measurement.Seconds) brought {
		o := measurement.Outcome{Metrics: measurement.Metrics{}, OneWay: &measurement.OneWay{
			Delays: measurement.Delays{Least: 0.001 + ahead, Median: 0.002 + ahead, P99: 0.003 + ahead}, AheadLeast: ahead, AheadMost: ahead + 1e-5, Exchanges: 9}}
		o.OneWay.Fill(o.Metrics)
		return brought{outcome: o}
	}
	pairs := []brought{pair(5), pair(-7)}
	o := combine(measurement.Spec{Kind: measurement.UDP}, pairs)
	for i, p := range o.Pairs {
		if m := (measurement.Metrics{}); p.OneWay == nil || !p.OneWay.Fill(m) || m["one_way_delay_p50_seconds"] != p.Metrics["one_way_delay_p50_seconds"] {
			t.Errorf("pair %d: %+v", i+1, p)
		}
	}
	if o.OneWay != nil || math.Abs(o.Metrics["one_way_delay_p50_seconds"]-0.002) > 1e-5 {
		t.Errorf("%+v", o)
	}
}

// Shares of packets are weighted by how many there were.
func TestSharesOfPairs(t *testing.T) {
	packets := func(sent, loss float64) brought {
		return brought{outcome: measurement.Outcome{Metrics: measurement.Metrics{
			"sent_bits_per_second": sent, "loss_fraction": loss, "received_packets_per_second": sent * (1 - loss), "reordered_fraction": loss,
		}}}
	}
	m := combine(measurement.Spec{Kind: measurement.UDP}, []brought{packets(9e6, 0), packets(1e6, 0.5)}).Metrics
	if got := m["loss_fraction"]; math.Abs(got-0.05) > 1e-9 {
		t.Errorf("loss %v, want 0.05", got)
	}
	if got, want := m["reordered_fraction"], 0.5*0.5/9.5; math.Abs(got-want) > 1e-9 {
		t.Errorf("reordered %v, want %v", got, want)
	}
}

// So is the share of connections that failed: a pair that could make few of them says little.
func TestFailedConnectionsOfPairs(t *testing.T) {
	connecting := func(served, failed int) brought {
		b := answering(served, 0, time.Millisecond)
		b.outcome.Metrics = measurement.Metrics{
			"failed_connections_count": float64(failed), "failed_connections_fraction": float64(failed) / float64(served+failed),
		}
		return b
	}
	m := combine(measurement.Spec{Kind: measurement.CRR}, []brought{connecting(9990, 0), connecting(5, 5)}).Metrics
	if count, share := m["failed_connections_count"], m["failed_connections_fraction"]; count != 5 || math.Abs(share-5e-4) > 1e-9 {
		t.Errorf("%v of 10000 connections failed, which are said to be %v of them", count, share)
	}
}

// The ends of a host are found as SameHost says, whoever says its id and whoever does not.
func TestHostIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "a", "b", "c"}
	for range 2000 {
		ends := make([]measurement.End, 1+random.IntN(12))
		for i := range ends {
			ends[i].Host, ends[i].HostID = words[random.IntN(len(words))], words[random.IntN(len(words))]
		}
		onHost := hostIndex(ends)
		for i, e := range ends {
			var want []int
			for j, other := range ends {
				if i == j || e.SameHost(other) {
					want = append(want, j)
				}
			}
			if got := onHost(i); !slices.Equal(got, want) {
				t.Fatalf("%+v: of %d %v, want %v", ends, i, got, want)
			}
		}
	}
}
