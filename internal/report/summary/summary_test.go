package summary

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// summaryFixture is a profile of a path with hand-made outcomes: every kind of
// test, one that failed, and texts as an unfriendly host would send them.
func summaryFixture() *result.Result {
	number := func(v float64) *float64 { return &v }
	r := &result.Result{
		Notes: []result.Note{result.TextNote("The path is filled by 4 flows: 16 bring +0.4 %.")},
		RFC6349: []result.RFC6349{
			{Test: "flows-1", Goodput: 4.1e9, Ideal: 9.36e9, IdealSource: result.IdealMeasured, TransferTimeRatio: number(2.283), TCPEfficiency: number(0.99987), BufferDelay: number(0.8)},
			{Test: "flows-4-receive", Goodput: 9.2e9, Ideal: 9.2e9, IdealSource: result.IdealMeasured},
		},
	}
	add := func(name, title string, spec measurement.Spec, o measurement.Outcome, findings ...measurement.Finding) {
		gate := measurement.Gate{Passed: true, Findings: findings}
		for _, c := range findings {
			gate.Passed = gate.Passed && !c.Fatal
		}
		r.Tests = append(r.Tests, result.TestInfo{Name: name, Title: title, Spec: spec.Defaults()})
		r.Trials = append(r.Trials, measurement.Trial{Test: name, Gate: gate, Outcome: o})
	}
	distribution := &measurement.Distribution{Samples: 1200, Percentiles: []measurement.Percentile{{Percent: 50, Value: 410e-6}, {Percent: 99, Value: 620e-6}}}
	rtt := measurement.Metrics{"rtt_p50_seconds": 410e-6, "rtt_min_seconds": 350e-6, "rtt_mean_seconds": 420e-6, "rtt_max_seconds": 2.1e-3, "loss_fraction": 0.002}

	add("path", "path", measurement.Spec{Kind: measurement.Trace}, measurement.Outcome{
		Metrics: measurement.Metrics{"hops_count": 3, "silent_hops_count": 1},
		Hops:    []measurement.TraceHop{{TTL: 1, Address: "10.0.0.1", RTT: 210e-6}, {TTL: 2}, {TTL: 3, Address: "192.0.2.7", RTT: 410e-6, Reached: true}},
	})
	add("mtu", "path MTU", measurement.Spec{Kind: measurement.MTU}, measurement.Outcome{Metrics: measurement.Metrics{"path_mtu_bytes": 1500, "reverse_path_mtu_bytes": 1400}})
	add("latency", "idle RTT", measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP}, measurement.Outcome{Metrics: rtt, Latency: distribution})
	add("flows-1", "1 flow", measurement.Spec{Kind: measurement.TCP}, measurement.Outcome{
		Metrics:    measurement.Metrics{"goodput_bits_per_second": 4.1e9, "retransmitted_segments": 1, "tcp_rtt_mean_seconds": 738e-6},
		Throughput: &measurement.Bins{Width: 0.5, Bytes: []float64{1e8, 2e8, 3e8}},
		Effective:  map[string]string{"congestion_control": "cubic", "send_method": "sendfile", "mss_bytes": "1448"},
		Facts:      []string{"the send buffer is clamped to 4 MiB"},
	}, measurement.Finding{Name: "cpu", Code: measurement.FoundBusyCPUs, End: "host", CPUBusy: 1})
	add("both", "4 flows, both", measurement.Spec{Kind: measurement.TCP, Flows: 4, Direction: measurement.Both}, measurement.Outcome{
		Metrics:   measurement.Metrics{"goodput_bits_per_second": 18e9, "forward_goodput_bits_per_second": 9.4e9, "reverse_goodput_bits_per_second": 8.6e9, "retransmitted_segments": 12},
		Effective: map[string]string{"congestion_control": "cubic", "send_method": "sendfile"},
		Facts:     []string{"the send buffer is clamped to 4 MiB"},
	})
	add("flows-4-receive", "4 flows, reverse", measurement.Spec{Kind: measurement.TCP, Flows: 4, Direction: measurement.Receive}, measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 9.2e9}})
	add("load", "RTT under load", measurement.Spec{Kind: measurement.Load, Flows: 4}, measurement.Outcome{Metrics: measurement.Metrics{
		"loaded_rtt_p50_seconds": 1.9e-3, "loaded_rtt_p99_seconds": 4e-3, "idle_rtt_p50_seconds": 400e-6, "responsiveness_per_minute": 31578.9, "load_bits_per_second": 9.3e9, "loss_fraction": 0.0001}})
	add("udp", "UDP", measurement.Spec{Kind: measurement.UDP, LossBound: 0.01}, measurement.Outcome{
		Metrics:    measurement.Metrics{"goodput_bits_per_second": 4.67e9, "sent_bits_per_second": 4.68e9, "loss_fraction": 0.0021, "reordered_fraction": 0, "jitter_seconds": 12e-6},
		LossSearch: []measurement.LossStep{{OfferedBitsPerSecond: 5e9, ReceivedBitsPerSecond: 4.5e9, Loss: 0.1}, {OfferedBitsPerSecond: 4.68e9, ReceivedBitsPerSecond: 4.67e9, Loss: 0.0021}},
	})
	add("pps", "small packets", measurement.Spec{Kind: measurement.PPS}, measurement.Outcome{Metrics: measurement.Metrics{"packets_per_second": 1.234e6, "loss_fraction": 0.5}})
	add("crr", "connections", measurement.Spec{Kind: measurement.CRR}, measurement.Outcome{Metrics: measurement.Metrics{
		"connections_per_second": 12345.6, "connect_p50_seconds": 50e-6, "transaction_p50_seconds": 90e-6, "transaction_p99_seconds": 300e-6, "failed_connections_count": 0}})
	add("ping", "ping", measurement.Spec{Kind: measurement.Ping}, measurement.Outcome{Metrics: measurement.Metrics{"rtt_p50_seconds": 430e-6}, Latency: &measurement.Distribution{Samples: 1}})
	add("rr", "latency", measurement.Spec{Kind: measurement.RR}, measurement.Outcome{},
		measurement.Finding{Name: "test", Code: measurement.FoundText, Fatal: true, Text: "the server said: \x1b[31mno\x1b[0m | <b>never</b>\n and " + strings.Repeat("again ", 20)})
	return r
}

func summaryText(t *testing.T, r *result.Result, o Options) string {
	t.Helper()
	var b bytes.Buffer
	s := New(&b, "path to host.example (192.0.2.7:5201)", o)
	s.Row("measured", "2026-11-21T09:30:00Z   from here.example   hopbench v1")
	for i, trial := range r.Trials {
		s.Trial(r.Tests[i], trial, false)
	}
	testutil.OK(t, s.End(r))
	return b.String()
}

func TestSummary(t *testing.T) {
	for name, o := range map[string]Options{
		"summary.txt":         {},
		"summary-verbose.txt": {Verbose: true, BinsOf: 1},
		"summary.md":          {Markdown: true},
	} {
		reporttest.Golden(t, name, []byte(summaryText(t, summaryFixture(), o)))
	}
}

// What is pasted into a ticket has lines that fit, and no control characters
// that the far end chose.
func TestSummaryIsPlainAndNarrow(t *testing.T) {
	for _, o := range []Options{{}, {Verbose: true, BinsOf: 0.001}, {Markdown: true}} {
		for l := range strings.Lines(summaryText(t, summaryFixture(), o)) {
			l = strings.TrimSuffix(l, "\n")
			if !o.Markdown && typeset.Columns(l) >= 100 {
				t.Errorf("%d columns: %s", typeset.Columns(l), l)
			}
			if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("control characters: %q", l)
			}
			if strings.TrimRight(l, " ") != l {
				t.Errorf("trailing space: %q", l)
			}
			if o.Markdown && strings.Contains(l, "<b>") {
				t.Errorf("markup of the far end: %s", l)
			}
		}
	}
}

// So have the rows of tests with long names, such as those of repeated and compared ones.
func TestRowsOfLongNamesAreNarrow(t *testing.T) {
	for n := range 120 {
		var b bytes.Buffer
		s := New(&b, "title", Options{})
		s.Row(strings.Repeat("n", n)+" (1/6)", "no result: "+strings.Repeat("the host was busy ", 12), "below")
		testutil.OK(t, s.End(&result.Result{}))
		for l := range strings.Lines(b.String()) {
			if typeset.Columns(l) > 100 { // with its end
				t.Fatalf("a name of %d: %d columns: %s", n, typeset.Columns(l)-1, l)
			}
		}
		if text := strings.Join(strings.Fields(b.String()), ""); !strings.Contains(text, strings.Repeat("n", n)+"(1/6)noresult:thehost") {
			t.Fatalf("a name of %d is cut:\n%s", n, b.String())
		}
	}
}

// Tests without any figure, and bins without a width, are shown and not stumbled over.
func TestSummaryOfNothing(t *testing.T) {
	for _, kind := range append(measurement.Kinds(), "unheard of") {
		r := &result.Result{Tests: []result.TestInfo{{Name: "x", Title: "x", Spec: measurement.Spec{Kind: kind}}}}
		r.Trials = []measurement.Trial{{Test: "x", Gate: measurement.Gate{Passed: true}}}
		r.Trials[0].Throughput = &measurement.Bins{Bytes: []float64{1}}
		if text := summaryText(t, r, Options{Verbose: true, BinsOf: 1}); !strings.Contains(text, "\nx  ") {
			t.Errorf("%s:\n%s", kind, text)
		}
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}

func TestSummaryTellsOfAFailedWrite(t *testing.T) {
	r := summaryFixture()
	whole := len(summaryText(t, r, Options{}))
	for _, room := range []int{0, 30, whole / 2, whole - 100} {
		s := New(&brokenWriter{room}, "path to host.example (192.0.2.7:5201)", Options{})
		for i, trial := range r.Trials {
			s.Trial(r.Tests[i], trial, false)
		}
		if err := s.End(r); err == nil {
			t.Errorf("with room for %d bytes: no error", room)
		}
	}
}

// Intervals of the measured time begin and end with it, and the others are marked.
func TestIntervals(t *testing.T) {
	bins := measurement.Bins{Width: 0.1, Bytes: make([]float64, 12)}
	for i := range bins.Bytes {
		bins.Bytes[i] = 1e6
	}
	got := intervals(bins, 0.4, 0.3, 0.9)
	want := []string{
		"  0.00–0.30 s   80.0 Mbit/s   (warm-up)",
		"  0.30–0.70 s   80.0 Mbit/s", "  0.70–0.90 s   80.0 Mbit/s",
		"  0.90–1.20 s   80.0 Mbit/s   (after the measured time)",
	}
	if text := strings.ReplaceAll(strings.Join(got, "\n"), words.NBSP, " "); text != strings.Join(want, "\n") {
		t.Errorf("got\n%s", text)
	}
}

// Intervals that are not those that were asked for say so.
func TestIntervalsOfWholeBins(t *testing.T) {
	bins := measurement.Bins{Width: 0.01, Bytes: make([]float64, 10)}
	for of, want := range map[measurement.Seconds]string{
		0.003: "intervals of 10.0 ms, not 3.00 ms: the receiver counted in steps of 10.0 ms",
		0.025: "intervals of 30.0 ms, not 25.0 ms: the receiver counted in steps of 10.0 ms",
		0.02:  "  0.00–0.02 s   0 bit/s",
	} {
		if got := strings.ReplaceAll(intervals(bins, of, 0, 0.1)[0], words.NBSP, " "); got != want {
			t.Errorf("of %v s: %q, want %q", of, got, want)
		}
	}
}

// Live intervals may be shorter than the bins of a report.
func TestShortIntervals(t *testing.T) {
	for _, c := range []struct {
		of       measurement.Seconds
		from, to time.Duration
		want     string
	}{
		{0.05, 50 * time.Millisecond, 100 * time.Millisecond, "  0.05–0.10 s   160\u00a0kbit/s"},
		{0.003, 150 * time.Millisecond, 166 * time.Millisecond, "0.1500–0.1660 s   500\u00a0kbit/s"}, // a late one
		{0.05, 8 * time.Millisecond, 12 * time.Millisecond, "0.0080–0.0120 s   2.00\u00a0Mbit/s"},
	} {
		if got := interval(c.of, c.from, c.to, 1000); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// All of a file is measured: it has no duration that is known beforehand.
func TestIntervalsOfAFile(t *testing.T) {
	bins := measurement.Bins{Width: 0.1, Bytes: []float64{1e6, 1e6, 1e6}}
	spec := measurement.Spec{Kind: measurement.FTP}.Defaults()
	got := trialLines(spec, measurement.Trial{Outcome: measurement.Outcome{Throughput: &bins}}, Options{BinsOf: 0.2}, false)
	if len(got) != 2 || strings.Contains(strings.Join(got, "\n"), "(") {
		t.Errorf("%q", got)
	}
}

// Intervals that were asked for and that nobody counted are not left out silently.
func TestNoIntervalsOfAnIPerf3Server(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3}.Defaults()
	trial := measurement.Trial{Outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 1e9}}}
	for of, want := range map[measurement.Seconds]int{0: 0, 1: 1} {
		if got := trialLines(spec, trial, Options{BinsOf: of}, false); len(got) != want {
			t.Errorf("intervals of %v s: %q", of, got)
		}
	}
	if got := trialLines(spec, trial, Options{BinsOf: 1}, true); len(got) != 1 || !strings.HasPrefix(got[0], "measured from ") {
		t.Errorf("after those that were shown while it went on: %q", got)
	}
}
