package report_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// engineFixture is a run of every kind of test that is not in the other
// fixture, over two paths: a direct one and one through a slow hop. The
// connections of the latter take a hundred times as long, so that one unit does
// not fit both.
func engineFixture(t testing.TB, blocks int) *result.Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	r := &result.Result{
		Format: result.Format, Seed: 7, Started: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), Complete: true,
		Testbed:    result.Testbed{Kind: "hosts"},
		Experiment: result.ExperimentInfo{Name: "engine", Title: "Every kind of the engine", Scale: 1, Baseline: "direct", Blocks: blocks},
		Paths:      []result.PathInfo{{Name: "direct", Baseline: true, Source: "a", Dest: "b"}, {Name: "slow", Title: "a slow hop", Source: "a", Dest: "b"}},
	}
	for _, s := range []struct {
		name string
		spec measurement.Spec
	}{
		{"both-ways", measurement.Spec{Kind: measurement.TCP, Flows: 4, Direction: measurement.Both, MSSBytes: 1400, PacingBitsPerSecond: 1e9, MPTCP: true}},
		{"datagrams", measurement.Spec{Kind: measurement.UDP, LossBound: 0.01, PacketBytes: 1400, GSO: measurement.Off, DSCP: 46}},
		{"packets", measurement.Spec{Kind: measurement.PPS, RateBitsPerSecond: 1e9, SourcePort: 5000}},
		{"connections", measurement.Spec{Kind: measurement.CRR, Flows: 16}},
		{"full-path", measurement.Spec{Kind: measurement.Load}},
		{"largest", measurement.Spec{Kind: measurement.MTU}},
		{"clocked", measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, RequestsPerSecond: 1000, Spin: true}},
	} {
		r.Tests = append(r.Tests, result.TestInfo{Name: s.name, Spec: s.spec.Defaults()})
	}
	for b := 1; b <= blocks; b++ {
		for _, p := range r.Paths {
			for _, test := range r.Tests {
				trial := measurement.Trial{ID: fmt.Sprintf("b%02d-%s-%s", b, p.Name, test.Name), Block: b, Order: len(r.Trials) + 1, Path: p.Name, Test: test.Name,
					Start: r.Started, Elapsed: 2, Gate: measurement.Gate{Passed: true}}
				engineTrial(t, rng, &trial, test.Spec, p.Name == "slow")
				r.Trials = append(r.Trials, trial)
			}
		}
	}
	r.Ended, r.Planned = r.Started.Add(5*time.Minute), len(r.Trials)
	reporttest.Analyse(r)
	return r
}

// engineTrial fills in what a trial brought back.
func engineTrial(t testing.TB, rng *rand.Rand, trial *measurement.Trial, spec measurement.Spec, slow bool) {
	noise := 1 + 0.003*rng.NormFloat64()
	pick := func(direct, other float64) float64 {
		if slow {
			return other * noise
		}
		return direct * noise
	}
	o := &trial.Outcome
	switch spec.Kind {
	case measurement.TCP:
		rate := pick(1.8e9, 1.5e9)
		reporttest.Throughput(rng, o, rate, 1e-3, 2*spec.Flows, 0)
		for i := range o.Flows {
			o.Flows[i].Reverse = i%2 == 1
		}
		o.Metrics["forward_goodput_bits_per_second"], o.Metrics["reverse_goodput_bits_per_second"] = rate*0.55, rate*0.45
		o.Metrics["cpu_seconds_per_byte"] = pick(0.8e-9, 1.2e-9)
		o.Facts = []string{"this kernel has no Multipath TCP: plain TCP was used"}
	case measurement.UDP:
		rate := pick(900e6, 600e6)
		o.Metrics = measurement.Metrics{"goodput_bits_per_second": rate, "received_packets_per_second": rate / 8 / 1400, "loss_fraction": pick(0, 0.004),
			"reordered_fraction": 0, "jitter_seconds": pick(12e-6, 90e-6), "delay_variation_p99_seconds": pick(80e-6, 300e-6),
			"cpu_seconds_per_byte": pick(0.4e-9, 0.5e-9), "dropped_packets_count": pick(0, 120)}
		o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 2 * rate, ReceivedBitsPerSecond: 1.1 * rate, Loss: 0.45}, {OfferedBitsPerSecond: 1.004 * rate, ReceivedBitsPerSecond: rate, Loss: 0.004}}
		if slow {
			o.Destination.Drops = []measurement.Drop{{Place: "UDP receive buffer", Packets: 100}, {Place: "eth0", Packets: 20}}
		}
	case measurement.PPS:
		o.Metrics = measurement.Metrics{"packets_per_second": pick(812_000, 400_000), "loss_fraction": pick(0.01, 0.5), "delay_variation_p99_seconds": 40e-6, "cpu_seconds_per_packet": pick(0.9e-6, 1.4e-6)}
	case measurement.CRR:
		reporttest.Latency(t, rng, o, pick(42e-6, 10.2e-3), 500, spec.Kind)
		o.Metrics = measurement.Metrics{"connections_per_second": pick(23_000, 98), "connect_p50_seconds": pick(20e-6, 5e-3), "connect_p99_seconds": pick(30e-6, 6e-3),
			"transaction_p50_seconds": pick(42e-6, 10.2055e-3), "failed_connections_count": 0}
	case measurement.Load:
		reporttest.Latency(t, rng, o, pick(0.2e-3, 1.2e-3), 500, spec.Kind)
		o.IdleLatency = o.Latency
		reporttest.Latency(t, rng, o, pick(5e-3, 40e-3), 500, spec.Kind)
		o.Metrics = measurement.Metrics{"loaded_rtt_p50_seconds": pick(5e-3, 40e-3), "loaded_rtt_p99_seconds": pick(9e-3, 70e-3), "idle_rtt_p50_seconds": pick(0.2e-3, 1.2e-3),
			"rtt_increase_seconds": pick(4.8e-3, 38.8e-3), "responsiveness_per_minute": pick(12_000, 1500), "load_bits_per_second": pick(950e6, 940e6)}
	case measurement.MTU:
		o.Metrics = measurement.Metrics{"path_mtu_bytes": 1500, "reverse_path_mtu_bytes": 1500}
		if slow {
			o.Metrics["reverse_path_mtu_bytes"] = 1420
		}
	case measurement.RR:
		reporttest.Latency(t, rng, o, pick(30e-6, 1.1e-3), 500, spec.Kind)
	}
}

func TestEngineGolden(t *testing.T) {
	r := engineFixture(t, 6)
	reporttest.Golden(t, "engine-100.txt", terminalText(t, r, terminal.Options{Width: 100, Verbose: true}))
	reporttest.Golden(t, "engine.md", written(t, markdown.Write, r))
	page := string(htmlText(t, r))
	for _, id := range []string{"details", "seen"} {
		start := strings.Index(page, `<section id="`+id+`"`)
		if start < 0 {
			t.Fatalf("no section %s", id)
		}
		end := start + strings.Index(page[start:], "</section>") + len("</section>\n")
		reporttest.Golden(t, "engine-"+id+".html", []byte(page[start:end]))
	}
	reporttest.Golden(t, "engine.csv", written(t, data.CSV, engineFixture(t, 1)))
}

// The page of the new kinds is as plain as any: no script, nothing fetched. A
// load test's idle curves are dashed, next to those under load.
func TestEnginePage(t *testing.T) {
	r := engineFixture(t, 6)
	page := htmlText(t, r)
	if err := checkPage(page); err != nil {
		t.Error(err)
	}
	text := string(page)
	_, latency, found := strings.Cut(text, `<section id="latency"`)
	if !found {
		t.Fatal("no distribution of latency")
	}
	latency, _, _ = strings.Cut(latency, "</section>")
	if got := strings.Count(latency, "curve idle"); got != len(r.Paths) {
		t.Errorf("%d curves without load, want one for each of %d paths", got, len(r.Paths))
	}
	for _, want := range []string{"a slow hop, idle", "transaction time", "Dashed curves are from before the load", "dashed without load"} {
		if !strings.Contains(latency, want) {
			t.Errorf("the distributions do not say %q", want)
		}
	}
	for _, want := range []string{"both ends send", "paced at 1.00\u00a0Gbit/s", "Multipath TCP", "highest rate with at most 1\u00a0% lost", "1400 B packets", "GSO off",
		"DSCP 46", "64 B packets", "16 connections at a time", "1.00\u00a0s without load first", "1000 requests/s at their intended times", "both ends poll"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tests as they were done do not say %q", want)
		}
	}
}

// Values of one column that are far apart have a unit each, near ones share it.
func TestUnitsOfAColumn(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{42e-6, 10.2055e-3}, "42.0 µs, 10.2 ms"},
		{[]float64{800e-6, 3.004e-3}, "0.800 ms, 3.004 ms"},
		{[]float64{0, 42e-6}, "0.0 µs, 42.0 µs"},
		{[]float64{0, 0}, "0 ms, 0 ms"},
	} {
		r := &result.Result{Tests: []result.TestInfo{{Name: "rr", Spec: measurement.Spec{Kind: measurement.RR}}}}
		for i, v := range c.values {
			name := fmt.Sprint("path-", i)
			r.Paths = append(r.Paths, result.PathInfo{Name: name})
			r.Cells = append(r.Cells, result.Cell{Path: name, Test: "rr", Metric: "rtt_p50_seconds", N: 1, Median: v})
		}
		var got []string
		for _, row := range report.New(r).Table.Rows {
			got = append(got, strings.ReplaceAll(words.Unit(row.Cells[0].Value, row.Cells[0].Unit), words.NBSP, " "))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%v is shown as %s, want %s", c.values, text, c.want)
		}
	}
}

// Remarks that differ in their numbers are one line with the number of trials.
func TestRemarksOfOneKind(t *testing.T) {
	r := engineFixture(t, 6)
	of := func(i int) *measurement.Trial {
		for k := range r.Trials {
			if r.Trials[k].Test == r.Tests[0].Name {
				if i--; i < 0 {
					return &r.Trials[k]
				}
			}
		}
		t.Fatal("too few trials")
		return nil
	}
	for i, n := range []int{14, 15, 15, 7} {
		of(i).Facts = []string{fmt.Sprintf("only %d round trips were divided", n)}
	}
	of(4).Facts = []string{"only 3 round trips were divided", "only 4 round trips were divided", "r1 was divided", "r2 was divided"}
	of(5).Facts, of(6).Facts = []string{"a divided one was 28.04ms late"}, []string{"a divided one was 950µs late", "a divided one was 1m0.5s late"}
	for i, much := range []string{"6.00 MB", "876 kB", "1.02 Gbit/s", "950 bit/s", "9.5e+06 bit/s", "1.5 s", "876 ms"} {
		of(i).Facts = append(of(i).Facts, "sent "+much+" more, undivided")
	}
	of(8).Facts, of(9).Facts = []string{"1 request left late, undivided"}, []string{"2 requests left late, undivided"}
	var said []string
	for _, line := range report.New(r).Seen {
		if strings.Contains(line, "divided") {
			said = append(said, strings.SplitN(line, ", ", 2)[1])
		}
	}
	if want := []string{"7 of 12 trials, such as: sent 1.02\u00a0Gbit/s more, undivided", "5 of 12 trials, such as: only 15 round trips were divided", "2 of 12 trials, such as: a divided one was 1m0.5s late", "2 of 12 trials, such as: 1 request left late, undivided", "1 of 12 trials: r1 was divided", "1 of 12 trials: r2 was divided"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	brief := slices.DeleteFunc(report.New(r).Brief().Remarks, func(s string) bool { return !strings.Contains(s, "round trips") })
	if want := []string{"5 of 84 trials, such as: only 15 round trips were divided"}; !slices.Equal(brief, want) {
		t.Errorf("on one screen %q, want %q", brief, want)
	}
}

// Where something was lost, the page shows how much of how many trials.
func TestPageShowsTheDistributionOfLoss(t *testing.T) {
	_, shown, found := strings.Cut(string(htmlText(t, engineFixture(t, 6))), `<section id="loss"`)
	shown, _, _ = strings.Cut(shown, "</section>")
	if !found || strings.Count(shown, " curve\"") < 2 || !strings.Contains(shown, "loss, %") {
		t.Errorf("the distribution of loss is %.300q", shown)
	}
	if strings.Contains(string(htmlText(t, reporttest.Run(t, 6))), `<section id="loss"`) {
		t.Error("of a run without loss its distribution is shown")
	}
}
