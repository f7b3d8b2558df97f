package metrics

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hopbench/hopbench/internal/watch"
)

// ServeWatch answers GET /metrics at ln with how a watch stands until ctx ends. It closes ln.
func ServeWatch(ctx context.Context, ln net.Listener, state func() watch.State) error {
	return serve(ctx, ln, newWatched(state))
}

// watched collects how a watch stands when it is asked.
type watched struct {
	state func() watch.State

	last, level, limit, smallest, blocks, learning, changes *prometheus.Desc
	rounds, at, elapsed, up, hops, events                   *prometheus.Desc
	payload, budget, waiting, alarms                        *prometheus.Desc
}

func newWatched(state func() watch.State) *watched {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hopbench_watch_"+name, help, append([]string{"watch"}, labels...), nil)
	}
	series := []string{"path", "baseline", "test", "metric"}
	with := func(more string) []string { return append(series[:len(series):len(series)], more) }
	return &watched{
		state:    state,
		last:     desc("value", "The newest value of a series, in the unit of its metric's name; of an effect that is judged so, a ratio.", series...),
		level:    desc("level", "The level that is in force.", series...),
		limit:    desc("limit", "Three values in a row beyond it are a change of level.", with("side")...),
		smallest: desc("smallest_effect", "The smallest change of level that is found within three rounds in four of five cases.", with("side")...),
		blocks:   desc("smallest_block_effect", "The smallest change of level that the medians of blocks show, of a day of rounds usually.", with("side")...),
		learning: desc("learning_samples_missing", "Samples that the reference lacks, or that after a change; 0 once it is there.", series...),
		changes:  desc("level_changes_total", "How often the level changed.", series...),
		rounds:   desc("rounds_total", "Rounds of the watch, from its beginning."),
		at:       desc("last_round_timestamp_seconds", "When the newest round began."),
		elapsed:  desc("last_round_seconds", "How long the newest round took."),
		up:       desc("up", "0 while the other end is not reached."),
		hops:     desc("route_hops", "Hops of the route in force."),
		events:   desc("events_total", "What was announced, by code, from the beginning of the watch.", "code"),
		payload:  desc("payload_bytes_total", "About what all rounds moved, both ways."),
		budget:   desc("budget_left_bytes", "What the budget has left; below 0 it is owed."),
		waiting:  desc("rounds_waiting", "Rounds that cannot be kept yet."),
		alarms:   desc("false_alarms_per_year", "Allowed number of false alarms, all series together."),
	}
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(w, out) }

// Collect implements prometheus.Collector.
func (w *watched) Collect(out chan<- prometheus.Metric) {
	s := w.state()
	name := valid(s.Head.Name)
	tell := func(kind prometheus.ValueType, d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{name}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		tell(prometheus.GaugeValue, d, v, labels...)
	}
	for _, one := range s.Series {
		series := []string{valid(one.Path), valid(one.Baseline), valid(one.Test), valid(one.Metric)}
		side := func(name string) []string { return append(series[:len(series):len(series)], name) }
		gauge(w.last, one.Last, series...)
		gauge(w.learning, float64(one.Missing), series...)
		tell(prometheus.CounterValue, w.changes, float64(one.Changes), series...)
		if l := one.Limits; l != nil {
			gauge(w.level, l.Level, series...)
			gauge(w.limit, l.Low, side("low")...)
			gauge(w.limit, l.High, side("high")...)
			gauge(w.smallest, l.SmallestDrop, side("low")...)
			gauge(w.smallest, l.SmallestRise, side("high")...)
			if l.BlockRise > 0 {
				gauge(w.blocks, l.BlockDrop, side("low")...)
				gauge(w.blocks, l.BlockRise, side("high")...)
			}
		}
	}
	tell(prometheus.CounterValue, w.rounds, float64(s.Rounds))
	tell(prometheus.CounterValue, w.payload, float64(s.Payload))
	gauge(w.alarms, s.Head.Rules.FalseAlarmsPerYear)
	gauge(w.waiting, float64(s.Waiting))
	for _, code := range watch.Codes() {
		tell(prometheus.CounterValue, w.events, float64(s.Events[code]), string(code))
	}
	if s.Rounds == 0 {
		return
	}
	gauge(w.at, float64(s.Last.Start.UnixMilli())/1e3)
	gauge(w.elapsed, float64(s.Last.Elapsed))
	gauge(w.budget, s.Last.Left)
	up := 1.0
	if s.Outage {
		up = 0
	}
	gauge(w.up, up)
	if s.Route != nil {
		gauge(w.hops, float64(len(s.Route)))
	}
}
