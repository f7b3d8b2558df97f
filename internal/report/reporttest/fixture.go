// Package reporttest has the runs that the reports' tests show, analysed as the
// program does it, and their golden files.
package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// setting is what the fixture's paths are made to measure.
var setting = map[string]struct {
	rtt          float64 // seconds
	rate1        float64 // bit/s, one flow
	rate10       float64 // bit/s, ten flows
	limitedShare float64
}{
	"direct":         {0.000801, 1.19e9, 1.187e9, 0.02},
	"one-appliance":  {0.003004, 355e6, 1.183e9, 0.93},
	"two-appliances": {0.003062, 348e6, 1.181e9, 0.94},
}

// Run is a run of the routing-appliance experiment made from a seeded
// source of random numbers: 3 paths, 4 tests, the given number of blocks, and
// one failed trial when there are enough blocks.
func Run(t testing.TB, blocks int) *result.Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	r := &result.Result{
		Format: result.Format, Seed: 4242,
		Command: []string{"hopbench", "run", "routing-appliance", "--blocks", "10", "--seed", "4242"}, Started: start, Complete: true,
		Testbed: result.Testbed{Kind: "lab", Relative: true},
		Environment: map[string]string{"kernel": "6.1.0-18-amd64", "processors": "2", "processor_model": "AMD EPYC 7763",
			"hopbench": "v0.1.0", "go": "go1.26.0", "tcp_congestion_control": "cubic",
			"sysctl net.ipv4.tcp_rmem": "4096 131072 6291456", "sysctl net.ipv4.tcp_wmem": "4096 16384 4194304"},
		Experiment: experiment(blocks),
	}
	for _, name := range []string{"direct", "one-appliance", "two-appliances"} {
		r.Paths = append(r.Paths, fixturePath(name))
	}
	r.Tests = []result.TestInfo{
		{Name: "latency", Title: "latency (TCP)", Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.4, Protocol: measurement.OverTCP}.Defaults()},
		{Name: "ping", Title: "ping", Spec: measurement.Spec{Kind: measurement.Ping, Interval: 0.01}.Defaults()},
		{Name: "flows-1", Title: "1 flow", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 1, MaxWarmup: 0.3}.Defaults()},
		{Name: "flows-10", Title: "10 flows", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 10, Duration: 1, MaxWarmup: 0.3}.Defaults()},
	}
	at := start.Add(2 * time.Second)
	for b := 1; b <= blocks; b++ {
		for _, i := range rng.Perm(len(r.Paths) * len(r.Tests)) {
			p, test := r.Paths[i%len(r.Paths)].Name, r.Tests[i/len(r.Paths)]
			trial := trialOf(t, rng, p, test)
			trial.ID = fmt.Sprintf("b%02d-%s-%s", b, p, test.Name)
			trial.Block, trial.Order, trial.Path, trial.Test, trial.Start = b, len(r.Trials)+1, p, test.Name, at
			trial.Elapsed = 1.42
			at = at.Add(trial.Elapsed.Duration())
			if b == 4 && p == "one-appliance" && test.Name == "flows-10" {
				trial.Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundText, Fatal: true, Text: "destination's CPUs were 99 % busy, so the rate is the machine's and not the path's"}}}
			}
			r.Trials = append(r.Trials, trial)
		}
	}
	r.Ended, r.Planned = at, len(r.Trials)
	Analyse(r)
	return r
}

func experiment(blocks int) result.ExperimentInfo {
	const ping, flow1, flow10, mean, low, rate = "ping", "flows-1", "flows-10", "rtt_mean_seconds", "rtt_min_seconds", "goodput_bits_per_second"
	share := 0.15
	return result.ExperimentInfo{
		Name: "routing-appliance", Title: "What a routing appliance between two peered networks costs",
		Scale: 10, Baseline: "direct", Blocks: blocks,
		Source: "Azure Virtual Network Routing Appliance study, ping of 20 packets and iperf3 of 10 s, one run per cell",
		Model:  "Egress cap from the direct path's 12.0 Gbit/s, receive window from one flow's 3.56 Gbit/s at 2.994 ms, delays from the smallest published round trips.",
		Open: []string{"No run of ten flows on the direct path was published, so the cost of an appliance to ten flows cannot be known from the published figures; here it is measured.",
			"Every published cell is a single run, so no interval can be given for it."},
		Published: []result.Figure{
			{ID: "E5.1", Path: "direct", Test: ping, Metric: mean, Value: 2.783e-3, Kind: result.FigureOpen, Note: "mdev 3.557 ms"},
			{ID: "E5.1", Path: "direct", Test: ping, Metric: low, Value: 0.738e-3, Kind: result.FigurePlanted},
			{ID: "E5.1", Path: "direct", Test: flow1, Metric: rate, Value: 12e9, Kind: result.FigurePlanted, Tolerance: &share, Note: "2694 retransmits"},
			{ID: "E5.2", Path: "one-appliance", Test: ping, Metric: mean, Value: 4.516e-3, Kind: result.FigureOpen, Note: "mdev 3.104 ms"},
			{ID: "E5.2", Path: "one-appliance", Test: ping, Metric: low, Value: 2.994e-3, Kind: result.FigurePlanted},
			{ID: "E5.2", Path: "one-appliance", Test: flow1, Metric: rate, Value: 3.56e9, Kind: result.FigurePlanted, Tolerance: &share},
			{ID: "E5.2", Path: "one-appliance", Test: flow10, Metric: rate, Value: 11.5e9, Kind: result.FigurePredicted, Tolerance: &share, Flows: 10},
			{ID: "E5.3", Path: "two-appliances", Test: ping, Metric: mean, Value: 4.218e-3, Kind: result.FigureOpen},
			{ID: "E5.3", Path: "two-appliances", Test: ping, Metric: low, Value: 3.057e-3, Kind: result.FigurePlanted},
			{ID: "E5.3", Path: "two-appliances", Test: flow1, Metric: rate, Value: 3.63e9, Kind: result.FigurePredicted, Tolerance: &share, Flows: 1, Duration: 10},
			{ID: "E5.3", Path: "two-appliances", Test: flow10, Metric: rate, Value: 11.3e9, Kind: result.FigurePredicted, Tolerance: &share, Flows: 10},
		},
		Text: "format: hopbench.experiment/1\nname: routing-appliance\nscale: 1:10\n# … <the whole file>\n",
	}
}

func fixturePath(name string) result.PathInfo {
	hop := func(kind, name, delay string) result.HopInfo {
		return result.HopInfo{Type: kind, Name: name, Parameters: map[string]string{"delay": delay}}
	}
	p := result.PathInfo{Name: name, Source: "vm1", Dest: "vm2", Hops: []result.HopInfo{hop("link", "peering", "369us")}}
	switch name {
	case "direct":
		p.Title, p.Baseline = "directly peered", true
	case "one-appliance":
		p.Title = "one appliance"
		p.Hops = append(p.Hops, hop("router", "appliance", "1128us"))
	case "two-appliances":
		p.Title = "two appliances"
		p.Hops = append(p.Hops, hop("router", "appliance-1", "1128us"), hop("router", "appliance-2", "31us"))
	}
	return p
}

// trialOf draws one trial.
func trialOf(t testing.TB, rng *rand.Rand, path string, test result.TestInfo) measurement.Trial {
	s := setting[path]
	trial := measurement.Trial{Gate: measurement.Gate{Passed: true}}
	trial.Fingerprint = fixtureFingerprint(path)
	trial.Source = measurement.End{Host: "vm1", CPUs: 2, CPUBusy: 0.3, SoftIRQ: 0.1}
	trial.Destination = measurement.End{Host: "vm2", CPUs: 2, CPUBusy: 0.35, SoftIRQ: 0.2, ReceivedTTL: trial.Fingerprint.ReceivedTTL}
	if test.Spec.Kind == measurement.TCP {
		rate := s.rate1
		if test.Spec.Flows > 1 {
			rate = s.rate10
		}
		Throughput(rng, &trial.Outcome, rate*(1+0.004*rng.NormFloat64()), s.rtt, test.Spec.Flows, s.limitedShare)
		return trial
	}
	samples := test.Spec.Count
	if test.Spec.Kind == measurement.RR {
		samples = int(0.4 / s.rtt)
	}
	Latency(t, rng, &trial.Outcome, s.rtt*(1+0.003*rng.NormFloat64()), samples, test.Spec.Kind)
	return trial
}

func fixtureFingerprint(path string) *measurement.Fingerprint {
	routers := map[string]int{"direct": 0, "one-appliance": 1, "two-appliances": 2}[path]
	f := &measurement.Fingerprint{ReceivedTTL: 64 - routers, PathMTU: 1500, MSS: 1448, Matches: true}
	for i := range routers {
		f.Hops = append(f.Hops, measurement.TraceHop{TTL: i + 1, Address: fmt.Sprintf("10.0.%d.2", i), RTT: 0.0029})
	}
	f.Hops = append(f.Hops, measurement.TraceHop{TTL: routers + 1, Address: "10.0.9.2", RTT: measurement.Seconds(setting[path].rtt), Reached: true})
	return f
}

// Throughput draws the bins and the flows of a tcp trial: slow start
// for a fifth of a second, then the rate with some noise.
func Throughput(rng *rand.Rand, o *measurement.Outcome, rate, rtt float64, flows int, limited float64) {
	const width, bins = 0.01, 130
	o.Warmup, o.WarmupSteady = measurement.Seconds(0.2+0.05*rng.Float64()), true
	b := &measurement.Bins{Width: width}
	for i := range bins {
		level := math.Min(1, float64(i+1)/18)
		b.Bytes = append(b.Bytes, math.Max(0, rate*level*(1+0.015*rng.NormFloat64())*width/8))
	}
	o.Throughput = b
	for f := range flows {
		flow := measurement.Flow{Source: fmt.Sprintf("10.0.0.1:%d", 40000+f), Destination: "10.0.9.2:5201",
			ReceivedBytes: int64(rate / 8 / float64(flows)), SentBytes: int64(rate / 8 / float64(flows))}
		for i := range 40 {
			at := float64(i) * 1.3 / 40
			flow.Info = append(flow.Info, measurement.TCPInfo{At: measurement.Seconds(at), MSS: 1448,
				RTT:              measurement.Seconds(rtt * (1.1 + 0.4*math.Min(1, at/0.3) + 0.05*rng.NormFloat64())),
				CongestionWindow: 133000, InFlight: int64(rate / 8 / float64(flows) * rtt), MinRTT: measurement.Seconds(rtt), Busy: measurement.Seconds(at), ReceiveWindowTime: measurement.Seconds(at * limited)})
		}
		last := flow.Info[len(flow.Info)-1]
		flow.Final = &last
		o.Flows = append(o.Flows, flow)
	}
	o.Metrics = measurement.Metrics{"goodput_bits_per_second": rate, "retransmitted_segments": float64(rng.IntN(40)),
		"tcp_rtt_mean_seconds": rtt * 1.45, "congestion_window_bytes": 133000, "receive_window_limited_fraction": limited}
}

// Latency draws round-trip times with a tail and records them.
func Latency(t testing.TB, rng *rand.Rand, o *measurement.Outcome, rtt float64, samples int, kind measurement.Kind) {
	h := hdrhistogram.New(1, 60e9, 3)
	var all []float64
	for range samples {
		v := rtt * (1 + 0.01*math.Abs(rng.NormFloat64()) + 0.03*rng.ExpFloat64()*rng.Float64())
		if rng.Float64() < 0.004 {
			v += 0.002 * rng.ExpFloat64()
		}
		all = append(all, v)
		if err := h.RecordValue(int64(v * 1e9)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	at := func(p float64) float64 { return all[min(len(all)-1, int(p*float64(len(all))))] }
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	o.Latency = &measurement.Distribution{Samples: int64(samples), Min: measurement.Seconds(all[0]), Max: measurement.Seconds(all[len(all)-1]), HDR: encoded,
		Percentiles: []measurement.Percentile{{Percent: 50, Value: measurement.Seconds(at(0.5))}}}
	o.Metrics = measurement.Metrics{"rtt_p50_seconds": at(0.5), "rtt_mean_seconds": h.Mean() / 1e9, "rtt_min_seconds": all[0], "rtt_max_seconds": all[len(all)-1], "loss_fraction": 0}
	if kind == measurement.RR {
		o.Metrics["rtt_p99_seconds"] = at(0.99)
		o.Metrics["transactions_per_second"] = 1 / rtt
	}
}

// Analyse works out what the run's trials say, as the program does.
func Analyse(r *result.Result) {
	r.Notes = nil
	analysis.Fill(r, analysis.Options{Options: cause.Options{SourceEgressBitsPerSecond: 1.25e9}})
}

// Counting is a hop that passes on the payload of a trial's bins times factor,
// in packets of 40 kB that have 66 bytes of headers each, and answers every
// other with an acknowledgement. It is read every 100 ms, first before the
// trial.
func Counting(name string, instance int, b *measurement.Bins, factor float64) measurement.HopSeries {
	const perPacket, headers = 40_000, 66
	s := measurement.HopSeries{Name: name, Instance: instance}
	for at := -0.02; at < float64(b.Width)*float64(len(b.Bytes))+0.1; at += 0.1 {
		payload := bytesUntil(b, at) * factor
		packets := payload / perPacket
		connections := 3.0
		s.Samples = append(s.Samples, measurement.HopSample{
			At: measurement.Seconds(at), ForwardBytes: payload + packets*headers, ForwardPackets: packets,
			BackwardBytes: packets / 2 * headers, BackwardPackets: packets / 2,
			DroppedPackets: math.Round(at), CPU: measurement.Seconds(at+0.02) / 2, Connections: &connections,
		})
	}
	return s
}

// bytesUntil is what the bins hold up to a moment.
func bytesUntil(b *measurement.Bins, at float64) (sum float64) {
	for i, n := range b.Bytes {
		sum += n * max(0, min(1, at/float64(b.Width)-float64(i)))
	}
	return sum
}

// Watched is the fixture with the counters of its appliances, one of
// which counts too much and one of which is two instances.
func Watched(t testing.TB) *result.Result {
	r := Run(t, 6)
	r.Paths[2].VariantOf = "one-appliance"
	r.Paths[2].Hops[2].Bypassed = true
	for i := range r.Trials {
		trial := &r.Trials[i]
		switch {
		case trial.Throughput == nil:
		case trial.Path == "one-appliance":
			trial.HopSeries = []measurement.HopSeries{
				Counting("appliance", 1, trial.Throughput, 0.25), Counting("appliance", 2, trial.Throughput, 0.755),
			}
		case trial.Path == "two-appliances":
			trial.HopSeries = []measurement.HopSeries{Counting("appliance-1", 0, trial.Throughput, 1.08)}
			trial.Fingerprint.Switched, trial.Fingerprint.Settle = true, 0.2
		}
	}
	return r
}

// Pairs is fixture with n pairs in every trial of ten flows, pair k with
// a k-th part of all that they had together.
func Pairs(t testing.TB, blocks, n int) *result.Result {
	t.Helper()
	r := Run(t, blocks)
	for i := range r.Trials {
		trial := &r.Trials[i]
		if trial.Test != "flows-10" {
			continue
		}
		for k := 1; k <= n; k++ {
			share := float64(2*k) / float64(n*(n+1))
			p := measurement.Pair{
				Source: fmt.Sprintf("vm1-%d", k), Destination: fmt.Sprintf("vm2-%d", k), Delay: measurement.Seconds(k-1) * 0.001,
				Metrics:    measurement.Metrics{"goodput_bits_per_second": share * trial.Metrics["goodput_bits_per_second"], "tcp_rtt_mean_seconds": 0.001 * float64(k)},
				Throughput: &measurement.Bins{Width: 0.05, Bytes: make([]float64, 26)},
			}
			for j := range p.Throughput.Bytes {
				p.Throughput.Bytes[j] = share * 1e6 * float64(1+j%2)
				p.RTT = append(p.RTT, measurement.PairRTT{At: measurement.Seconds(j)*0.05 + 0.025, RTT: measurement.Seconds(k) * 0.001})
			}
			trial.Pairs = append(trial.Pairs, p)
		}
	}
	return r
}
