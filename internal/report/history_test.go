package report_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/watch"
)

// watchedPath is so many rounds of a path whose latency rises for half a day after 20 days and
// whose rate drops for good after 40.
func watchedPath(rounds int) (watch.Head, []watch.Round, []watch.Event) {
	head := watch.Head{Name: "office <b>", Target: "192.0.2.7", Rules: watch.Rules{Every: 900, Series: 3, FalseAlarmsPerYear: watch.DefaultFalseAlarms}}
	random := rand.New(rand.NewPCG(1, 2))
	tracker := watch.NewTracker(head.Rules)
	var all []watch.Round
	var announced []watch.Event
	for n := range rounds {
		day := float64(n) / 96
		rtt, rate, loss := 1.2e-3+0.1e-3*math.Sin(2*math.Pi*day), 9.4e8, 0.0
		if day > 20 && day < 20.6 {
			rtt *= 2
		}
		if day > 40 {
			rate /= 2
		}
		if random.Float64() < 0.02 {
			loss = 0.001 * random.ExpFloat64()
		}
		r := watch.Round{Number: int64(n + 1), Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * 15 * time.Minute), Points: []watch.Point{
			{Series: watch.Series{Test: "latency", Metric: "rtt_p50_seconds"}, Value: rtt * math.Exp(0.03*random.NormFloat64())},
			{Series: watch.Series{Test: "latency", Metric: "loss_fraction"}, Value: loss, Least: 0.005},
		}}
		if n%5 == 0 {
			r.Points = append(r.Points, watch.Point{Series: watch.Series{Test: "send", Metric: "goodput_bits_per_second"}, Value: rate * (1 - 0.02*random.ExpFloat64())})
		}
		all = append(all, r)
		announced = append(announced, tracker.Add(r)...)
	}
	return head, all, announced
}

func TestHistoryOfAWatch(t *testing.T) {
	h := report.NewHistory(watchedPath(60 * 96))
	var text bytes.Buffer
	testutil.OK(t, terminal.History(&text, h, 100))
	reporttest.Golden(t, "history.txt", text.Bytes())
	page := string(written(t, html.WriteHistory, h))
	if strings.Contains(page, "office <b>") {
		t.Error("a name is not escaped")
	}
	if n := strings.Count(page, "<svg"); n != 3 {
		t.Errorf("%d plots of 3 series", n)
	}
	for _, want := range []string{"CHANGED RTT p50 of latency", "BACK RTT p50 of latency", "CHANGED goodput of send"} {
		if n := strings.Count(page, want); n != 1 {
			t.Errorf("%q is there %d times, want once", want, n)
		}
	}
	if f := os.Getenv("HOPBENCH_HISTORY_PAGE"); f != "" {
		testutil.OK(t, os.WriteFile(f, []byte(page), 0o644))
	}
}

// A time of which nothing is known is left blank, whether the watch was off or the clock was set
// back; a test that the budget leaves out now and then, or a missing round, breaks no line.
func TestHistoryWithHoles(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  int // round from which on rounds are later
		later time.Duration
		lines int // of two series that each round has, and one that every fifth has
	}{
		{"none", 0, 0, 3},
		{"a missing hour", 600, time.Hour, 3},
		{"a month", 600, 30 * 24 * time.Hour, 6},
		{"a month after the first round", 1, 30 * 24 * time.Hour, 6},
		{"a clock set back", 600, -2 * 24 * time.Hour, 6},
	} {
		head, rounds, announced := watchedPath(1200)
		for i := range rounds {
			if i >= c.from {
				rounds[i].Start = rounds[i].Start.Add(c.later)
			}
		}
		page := string(written(t, html.WriteHistory, report.NewHistory(head, rounds, announced)))
		if n := strings.Count(page, "s1 curve"); n != c.lines || strings.Contains(page, "NaN") {
			t.Errorf("%s: %d lines, want %d", c.name, n, c.lines)
		}
	}
}

// A year of a watch stays a small page.
func TestHistoryOfAYearIsSmall(t *testing.T) {
	if page := written(t, html.WriteHistory, report.NewHistory(watchedPath(365*96))); len(page) > 400_000 {
		t.Errorf("%d bytes, want at most 400 kB", len(page))
	}
}

func TestHistoryOfLittle(t *testing.T) {
	for rounds := range 4 {
		var text bytes.Buffer
		h := report.NewHistory(watchedPath(rounds))
		testutil.OK(t, terminal.History(&text, h, 60))
		if strings.Contains(string(written(t, html.WriteHistory, h)), "NaN") || strings.Contains(text.String(), "NaN") {
			t.Errorf("of %d rounds:\n%s", rounds, &text)
		}
		for line := range strings.Lines(text.String()) {
			if typeset.Columns(strings.TrimSuffix(line, "\n")) > 60 {
				t.Errorf("of %d rounds, wider than the terminal: %s", rounds, line)
			}
		}
	}
}

// A route is no series, and all that there is of a watch with --only trace.
func TestHistoryOfARoute(t *testing.T) {
	head, rounds, _ := watchedPath(2)
	rounds[0].Points, rounds[0].Route = nil, []string{"10.0.0.1", "", "10.0.1.1"}
	if h := report.NewHistory(head, rounds, nil); !strings.Contains(h.Status, "newest route: 10.0.0.1 * 10.0.1.1") {
		t.Error(h.Status)
	}
}
