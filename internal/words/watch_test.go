package words

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/watch"
)

var (
	watchedRTT  = watch.Series{Test: "latency", Metric: "rtt_p50_seconds"}
	watchedLoss = watch.Series{Test: "latency", Metric: "loss_fraction"}
	watchedCost = watch.Series{Path: "fw", Baseline: "direct", Test: "flows", Metric: "goodput_bits_per_second"}
	watchedAdds = watch.Series{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds"}
)

func TestEveryWatchEventHasWords(t *testing.T) {
	for _, code := range watch.Codes() {
		text := WatchEvent(watch.Event{
			Code: code, Head: &watch.Head{Target: "h", Rules: watch.Rules{Every: 900, FalseAlarmsPerYear: 0.25}}, Of: &watch.Round{}, Series: &watchedRTT, Limits: &watch.Limits{},
			Failure: &watch.Failure{Test: "send"}, Step: -3, Lasted: 90, Rounds: 2,
		})
		if text == "" || text == string(code) || strings.Contains(text, "NaN") {
			t.Errorf("%s is worded %q", code, text)
		}
	}
}

func TestWatchWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{WatchEvent(watch.Event{Code: watch.LevelChanged, Series: &watchedRTT, Before: 1.2e-3, Now: 2.4e-3}), "CHANGED RTT p50 of latency: 1.20 ms → 2.40 ms (+100 %)"},
		{WatchEvent(watch.Event{Code: watch.LevelChanged, Series: &watchedLoss, Before: 1e-19, Now: 0.02}), "CHANGED loss of latency: 0 % → 2.00 % (+2.0 points)"},
		{WatchEvent(watch.Event{Code: watch.LevelChanged, Series: &watchedCost, Before: 0.8, Now: 0.6}), "CHANGED goodput of flows, fw against direct: 0.800× → 0.600× (−25 %)"},
		{WatchEvent(watch.Event{Code: watch.LevelChanged, Series: &watchedAdds, Before: -1e-6, Now: 2e-5}), "CHANGED RTT p50 of latency, fw against direct: −1.0 µs → +20.0 µs (+21.0 µs)"},
		{WatchEvent(watch.Event{Code: watch.RoundEnded, Of: &watch.Round{Number: 3, Route: []string{"10.0.0.1", ""}}}), "round 3: route of 2 hops"},
		{WatchEvent(watch.Event{Code: watch.RoundEnded, Of: &watch.Round{Number: 4, Points: []watch.Point{{Series: watchedRTT, Value: 1e-3}}}}), "round 4: RTT p50 of latency 1.00 ms"},
		{WatchEvent(watch.Event{Code: watch.RoundEnded, Of: &watch.Round{Number: 5}}), "round 5: nothing"},
		{WatchEvent(watch.Event{Code: watch.RoundEnded, Of: &watch.Round{Number: 6, Outage: true, Failed: []watch.Failure{{Error: "no such host"}}}}), "round 6: could not be measured: no such host"},
		{WatchEvent(watch.Event{Code: watch.OutageBegan, Failure: &watch.Failure{Test: "latency", Findings: []measurement.Finding{{Code: measurement.FoundText, Text: "the tokens differ", Fatal: true, Failure: "unauthorized"}}}}), "OUTAGE: the other end answers, and cannot be used: the tokens differ"},
		{WatchEvent(watch.Event{Code: watch.OutageBegan, Failure: &watch.Failure{Test: "latency", Findings: []measurement.Finding{{Code: measurement.FoundText, Text: "no route", Fatal: true, Failure: "unreachable"}}}}), "OUTAGE: the other end is unreachable: no route"},
		{WatchEvent(watch.Event{Code: watch.RouteChanged, Was: []string{"10.0.0.1", ""}, Route: []string{}}), "CHANGED route: 10.0.0.1 * → no hops"},
		{SmallestChanges(watchedRTT, watch.Limits{Level: 1e-3, SmallestDrop: 2e-4, SmallestRise: 3e-4}), "−20 %, +30 %"},
		{SmallestChanges(watchedRTT, watch.Limits{Level: 1e-3, SmallestDrop: 2e-3, SmallestRise: 3e-3, Block: 96, BlockDrop: 5e-5, BlockRise: 6e-5}), "+300 %; in medians of 96: −5.0 %, +6.0 %"},
		{SmallestChanges(watchedLoss, watch.Limits{Level: 0, SmallestDrop: math.MaxFloat64, SmallestRise: 0.005}), "+0.50 points"},
		{FalseAlarms(0.25), "at most one false alarm in 4 years on average, all series together"},
		{FalseAlarms(3), "at most 3 false alarms a year on average, all series together"},
		{TrendCaption("1 ms", "+1 %", 4, 0), "Level 1 ms; smallest change found within 4 samples: +1 %; steady."},
		{TrendCaption("1 ms", None, 3, 5), "Newest 1 ms; learning, 5 samples to come."},
		{watchFailure(&watch.Failure{Findings: []measurement.Finding{{Code: measurement.FoundText, Text: "why", Fatal: true}}}), "why"},
		{LongRound(watch.Round{Elapsed: 60}, time.Minute), ""},
		{LongRound(watch.Round{Number: 1, Elapsed: 12.5}, 5*time.Second), "round 1 took 12.5 s, longer than --every 5s: while rounds take so long, one begins every 15s, and levels are learned as many times later"},
		{SpentBudget(watch.Round{Number: 2, Skipped: []string{"run"}, Left: -2e9}, map[string]int64{"run": 2.5e9}, 1e9),
			"round 2 measured nothing: run moved 2.50 GB the last time, which --budget allows again in about 5 days; start the watch again with a larger --budget, or with 0 for no limit"},
		{SpentBudget(watch.Round{Number: 2, Skipped: []string{"receive", "send"}, Left: 1e8}, map[string]int64{"receive": 3e8, "send": 2e8}, 1e9),
			"round 2 measured nothing: send moved 200 MB the last time, which --budget allows again in about 3 hours; start the watch again with a larger --budget, or with 0 for no limit"},
		{SpentBudget(watch.Round{Skipped: []string{"send"}, Worked: []watch.TestOf{{Test: "route"}}}, nil, 1e9), ""},
		{SpentBudget(watch.Round{}, nil, 1e9), ""},
		{DamagedWatch(0, 0, false), ""},
		{DamagedWatch(1, 0, false), "watch.sqlite is damaged: 1 round cannot be read and is left out"},
		{DamagedWatch(1, 2, true), "watch.sqlite is damaged: 1 round and 2 announcements, and perhaps further ones, cannot be read and are left out"},
		{DamagedWatch(0, 0, true), "watch.sqlite is damaged: rounds or announcements may be missing here"},
		{WatchMoment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))), "2026-01-02 03:04:05 +0100"},
	} {
		if got := strings.ReplaceAll(c.got, NBSP, " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
