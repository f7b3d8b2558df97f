package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/watch"
	"github.com/hopbench/hopbench/internal/words"
)

// History is what a watch brought, for all renderings.
type History struct {
	Title, Status string
	// Stated is the rate of false alarms.
	Stated string
	Series []Trend
	// Events are the newest first; More of them are not here.
	Events []HistoryEvent
	More   int
}

// HistoryEvent is something that was announced.
type HistoryEvent struct {
	Time time.Time
	Text string
	// Change says that it is a change for the worse or the better, and no mere remark.
	Change bool
}

// When is its time for a page.
func (e HistoryEvent) When() string { return words.Moment(e.Time) }

// Trend is a series over time.
type Trend struct {
	Label string
	Unit  measurement.Unit
	Times []time.Time
	// Values are those of Times; Low and High are the limits that were in force, with the
	// Level between them, NaN-free: they are those of the sample itself while nothing was
	// learned, which Learned says.
	Values, Level, Low, High []float64
	Learned                  []bool
	Changes                  []time.Time
	// Caption is how it stands, for people.
	Caption string
}

// mostEvents bounds the events that are shown.
const mostEvents = 200

// NewHistory lays a watch out. Limits are worked out again from its rounds.
func NewHistory(head watch.Head, rounds []watch.Round, announced []watch.Event) *History {
	h := &History{Title: typeset.Line(head.Name), Stated: words.FalseAlarms(head.Rules.FalseAlarmsPerYear)}
	tracker := watch.NewTracker(head.Rules)
	at := map[watch.Series]int{}
	for _, r := range rounds {
		events := tracker.Add(r)
		stands := map[watch.Series]watch.Status{}
		for _, s := range tracker.Series() {
			stands[s.Series] = s
		}
		for _, p := range r.Points {
			if r.Outage {
				break
			}
			i, ok := at[p.Series]
			if !ok {
				i = len(h.Series)
				at[p.Series] = i
				unit := measurement.MetricOf(p.Metric).Unit
				if p.Baseline != "" && measurement.MetricOf(p.Metric).ByRatio() {
					unit = measurement.Count // a ratio has none
				}
				h.Series = append(h.Series, Trend{Label: typeset.Line(words.WatchedSeries(p.Series)), Unit: unit})
			}
			h.Series[i].add(r.Start, p.Value, stands[p.Series].Limits)
		}
		for _, e := range events {
			if e.Code == watch.LevelChanged || e.Code == watch.LevelBack {
				t := &h.Series[at[*e.Series]]
				t.Changes = append(t.Changes, e.Time)
			}
		}
	}
	for _, s := range tracker.Series() {
		h.Series[at[s.Series]].say(s)
	}
	for _, e := range slices.Backward(announced) {
		if len(h.Events) == mostEvents {
			h.More++
			continue
		}
		h.Events = append(h.Events, HistoryEvent{e.Time, typeset.Line(words.WatchEvent(e)),
			slices.Contains([]watch.Code{watch.LevelChanged, watch.LevelBack, watch.RouteChanged, watch.OutageBegan, watch.OutageEnded}, e.Code)})
	}
	h.Status = fmt.Sprintf("%s, every %s, %s", typeset.Line(head.Target), quantity.FormatDuration(head.Rules.Every.Duration()), quantity.Count(len(rounds), "round"))
	if n := len(rounds); n > 0 {
		h.Status += fmt.Sprintf(" from %s to %s", words.Moment(rounds[0].Start), words.Moment(rounds[n-1].Start))
	}
	for _, r := range slices.Backward(rounds) {
		if r.Route != nil {
			h.Status += "; newest route: " + typeset.Line(words.Route(r.Route))
			break
		}
	}
	return h
}

// add takes a sample with the limits that are in force, if there are any.
func (t *Trend) add(at time.Time, value float64, l *watch.Limits) {
	level, low, high := value, value, value
	if l != nil {
		level, low, high = l.Level, l.Low, l.High
		if !quantity.Finite(low) {
			low = level
		}
	}
	t.Times, t.Values = append(t.Times, at), append(t.Values, value)
	t.Level, t.Low, t.High, t.Learned = append(t.Level, level), append(t.Low, low), append(t.High, high), append(t.Learned, l != nil)
}

// say words how a series stands.
func (t *Trend) say(s watch.Status) {
	value, smallest, run := words.WatchedValue(s.Series, s.Last), words.None, 0
	if s.Limits != nil {
		value, smallest, run = words.WatchedValue(s.Series, s.Limits.Level), words.SmallestChanges(s.Series, *s.Limits), s.Limits.InARow()
	}
	t.Caption = words.TrendCaption(value, smallest, run, s.Missing)
}

// Spark draws the newest of a trend in so many characters, each the median of as many
// samples, from the lowest of them to the highest.
func (t Trend) Spark(columns int) string {
	const marks = "▁▂▃▄▅▆▇█"
	values := t.Slices(columns)
	if len(values) == 0 {
		return ""
	}
	low, high := values[0].Median, values[0].Median
	for _, v := range values {
		low, high = min(low, v.Median), max(high, v.Median)
	}
	shown := make([]rune, len(values))
	for i, v := range values {
		step := 0
		if high > low {
			step = min(int((v.Median-low)/(high-low)*8), 7)
		}
		shown[i] = []rune(marks)[step]
	}
	return string(shown)
}

// Slice is a part of a trend: from From to To samples, with their spread.
type Slice struct {
	From, To          int
	Low, Median, High float64
}

// Slices cuts a trend into at most so many parts of as many samples.
func (t Trend) Slices(most int) (out []Slice) {
	n := len(t.Values)
	parts := min(n, most)
	for i := range parts {
		from, to := i*n/parts, (i+1)*n/parts
		sorted := slices.Sorted(slices.Values(t.Values[from:to]))
		out = append(out, Slice{from, to, sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]})
	}
	return out
}
