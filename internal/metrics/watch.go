package metrics

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hopbench/hopbench/internal/watch"
)

// ServeWatch answers GET /metrics at ln with how a watch stands until ctx ends. It closes ln.
func ServeWatch(ctx context.Context, ln net.Listener, state func() watch.State) error {
	return serve(ctx, ln, watched(state))
}

// watched is how a watch stands.
func watched(state func() watch.State) collector {
	return func(e exposition) {
		s := state()
		e.constant = prometheus.Labels{"watch": valid(s.Head.Name)}
		e.series(s.Series)
		e.counter("hopbench_watch_rounds_total", "Rounds of the watch, from its beginning.")(float64(s.Rounds))
		e.counter("hopbench_watch_payload_bytes_total", "About what all rounds moved, both ways.")(float64(s.Payload))
		e.gauge("hopbench_watch_false_alarms_per_year", "Allowed number of false alarms, all series together.")(s.Head.Rules.FalseAlarmsPerYear)
		e.gauge("hopbench_watch_rounds_waiting", "Rounds that cannot be kept yet.")(float64(s.Waiting))
		events := e.counter("hopbench_watch_events_total", "What was announced, by code, from the beginning of the watch.", "code")
		for _, code := range watch.Codes() {
			events(float64(s.Events[code]), string(code))
		}
		if s.Rounds == 0 {
			return
		}
		e.gauge("hopbench_watch_last_round_timestamp_seconds", "When the newest round began.")(float64(s.Last.Start.UnixMilli()) / 1e3)
		e.gauge("hopbench_watch_last_round_seconds", "How long the newest round took.")(float64(s.Last.Elapsed))
		e.gauge("hopbench_watch_budget_left_bytes", "What the budget has left; below 0 it is owed.")(s.Last.Left)
		up := 1.0
		if s.Outage {
			up = 0
		}
		e.gauge("hopbench_watch_up", "0 while the other end is not reached.")(up)
		if s.Route != nil {
			e.gauge("hopbench_watch_route_hops", "Hops of the route in force.")(float64(len(s.Route)))
		}
	}
}

// series are the levels that are watched, each with its limits where they are learned.
func (e exposition) series(all []watch.Status) {
	ofSeries := []string{"path", "baseline", "test", "metric"}
	ofSide := []string{"path", "baseline", "test", "metric", "side"}
	last := e.gauge("hopbench_watch_value", "The newest value of a series, in the unit of its metric's name; of an effect that is judged so, a ratio.", ofSeries...)
	level := e.gauge("hopbench_watch_level", "The level that is in force.", ofSeries...)
	learning := e.gauge("hopbench_watch_learning_samples_missing", "Samples that the reference lacks, or that after a change; 0 once it is there.", ofSeries...)
	changes := e.counter("hopbench_watch_level_changes_total", "How often the level changed.", ofSeries...)
	limit := e.gauge("hopbench_watch_limit", "Three values in a row beyond it, or more where single ones often are, are a change of level.", ofSide...)
	smallest := e.gauge("hopbench_watch_smallest_effect", "The smallest change of level that is found within three rounds, or as many as that takes, in four of five cases.", ofSide...)
	ofBlocks := e.gauge("hopbench_watch_smallest_block_effect", "The smallest change of level that the medians of blocks show, of a day of rounds usually.", ofSide...)
	for _, one := range all {
		last(one.Last, one.Path, one.Baseline, one.Test, one.Metric)
		learning(float64(one.Missing), one.Path, one.Baseline, one.Test, one.Metric)
		changes(float64(one.Changes), one.Path, one.Baseline, one.Test, one.Metric)
		l := one.Limits
		if l == nil {
			continue
		}
		both := func(tell family, low, high float64) {
			tell(low, one.Path, one.Baseline, one.Test, one.Metric, "low")
			tell(high, one.Path, one.Baseline, one.Test, one.Metric, "high")
		}
		level(l.Level, one.Path, one.Baseline, one.Test, one.Metric)
		both(limit, l.Low, l.High)
		both(smallest, l.SmallestDrop, l.SmallestRise)
		if l.BlockRise > 0 {
			both(ofBlocks, l.BlockDrop, l.BlockRise)
		}
	}
}
