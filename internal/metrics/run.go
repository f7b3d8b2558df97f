package metrics

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hopbench/hopbench/internal/event"
)

// ServeRun answers GET /metrics at ln with where a run is until ctx ends. It closes ln.
func ServeRun(ctx context.Context, ln net.Listener, state func() event.State) error {
	return serve(ctx, ln, newRun(state))
}

// run collects where a run is when it is asked.
type run struct {
	state func() event.State

	done, planned, left, block, running              *prometheus.Desc
	throughput, rtt, pairThroughput, pairRTT         *prometheus.Desc
	trials, metric                                   *prometheus.Desc
	hopBytes, hopPackets, hopDropped                 *prometheus.Desc
	stored, lag, faults, spread, offset, uncertainty *prometheus.Desc
	machines, seats, coarsened, dropped, events      *prometheus.Desc
}

func newRun(state func() event.State) *run {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hopbench_run_"+name, help, labels, nil)
	}
	ofFleet := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hopbench_fleet_"+name, help, labels, nil)
	}
	return &run{
		state:          state,
		running:        desc("running", "1 during the run of this name, 0 once it is over.", "run"),
		done:           desc("trials_done", "Trials that are stored."),
		planned:        desc("trials_planned", "Trials of the plan."),
		left:           desc("left_seconds", "About how long the rest takes."),
		block:          desc("block", "The block under way, counted from 1."),
		throughput:     desc("throughput_bits_per_second", "Of the trial under way, in its last second, all pairs together.", "path", "test"),
		rtt:            desc("rtt_seconds", "Round-trip time in the trial under way, in its last second.", "path", "test"),
		pairThroughput: desc("pair_throughput_bits_per_second", "Of one pair of the trial under way, in its last second.", "path", "test", "source", "destination"),
		pairRTT:        desc("pair_rtt_seconds", "Round-trip time of one pair of the trial under way, in its last second.", "path", "test", "source", "destination"),
		trials:         desc("trials", "Trials of this session by how they ended.", "path", "test", "state"),
		metric:         desc("last", "A metric of the last trial that passed, in the unit of its name.", "path", "test", "metric"),
		hopBytes:       desc("hop_bytes", "What a hop has counted in the trial under way or the last one.", "hop", "instance", "direction"),
		hopPackets:     desc("hop_packets", "What a hop has counted in the trial under way or the last one.", "hop", "instance", "direction"),
		hopDropped:     desc("hop_dropped_packets", "Packets that a hop has dropped in the trial under way or the last one.", "hop", "instance"),
		stored:         desc("store_lag_seconds", "How long it took to store the last trial."),
		lag:            desc("samples_lag_seconds", "How long the oldest samples of a fleet wait for the disk, 0 while none is late."),
		faults:         desc("faults", "How often the testbed broke in this session."),
		spread:         desc("start_spread_seconds", "How much later the last pair began than the first, in the last trial of several."),
		offset:         desc("clock_offset_seconds", "By how much the clock of an end was furthest from the coordinator's."),
		uncertainty:    desc("clock_uncertainty_seconds", "The greatest uncertainty of the clock of an end."),
		events:         desc("events_total", "Events of this session, by code.", "code"),
		machines:       ofFleet("agents", "Machines of the fleet that are there."),
		seats:          ofFleet("seats", "Seats of the fleet by how they stand.", "state"),
		coarsened:      ofFleet("blocks_coarsened_total", "Blocks of samples that machines made coarser because they could not send them."),
		dropped:        ofFleet("samples_dropped_total", "Samples that machines dropped because they could not send them."),
	}
}

// Describe implements prometheus.Collector.
func (r *run) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, out) }

// Collect implements prometheus.Collector.
func (r *run) Collect(out chan<- prometheus.Metric) {
	s := r.state()
	type series struct {
		of     *prometheus.Desc
		labels string
	}
	told := map[series]bool{} // the same twice would be an error; two pairs may have the same ends
	tell := func(kind prometheus.ValueType, d *prometheus.Desc, v float64, labels ...string) {
		if one := (series{d, strings.Join(labels, "\x00")}); !told[one] {
			told[one] = true
			out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		tell(prometheus.GaugeValue, d, v, labels...)
	}
	if s.Run == nil {
		return
	}
	going := 1.0
	if s.End != nil {
		going = 0
	}
	gauge(r.running, going, valid(s.Run.Name))
	gauge(r.done, float64(s.Done))
	gauge(r.planned, float64(s.Planned))
	gauge(r.left, float64(s.Left))
	gauge(r.block, float64(s.Block))
	gauge(r.stored, float64(s.Stored))
	late := 0.0
	if s.Lag != nil {
		late = float64(s.Lag.Behind)
	}
	gauge(r.lag, late)
	gauge(r.faults, float64(s.Faults))
	for _, code := range event.Codes() {
		tell(prometheus.CounterValue, r.events, float64(s.Events[code]), string(code))
	}
	if f := s.Fleet; f != nil {
		gauge(r.machines, float64(f.Machines))
		gauge(r.seats, float64(f.Seats.Waiting), "waiting")
		gauge(r.seats, float64(f.Seats.Leased), "leased")
		gauge(r.seats, float64(f.Seats.Lost), "lost")
		tell(prometheus.CounterValue, r.coarsened, float64(s.Coarsened))
		tell(prometheus.CounterValue, r.dropped, float64(s.Dropped))
	}
	if t, second := s.Trial, s.Second; t != nil && second != nil {
		path, test := valid(t.Path), valid(t.Test)
		if second.Throughput != nil {
			gauge(r.throughput, *second.Throughput, path, test)
		}
		if second.RTT > 0 { // 0 is not known
			gauge(r.rtt, float64(second.RTT), path, test)
		}
		for _, p := range second.Pairs {
			if p.Throughput != nil {
				gauge(r.pairThroughput, *p.Throughput, path, test, valid(p.Source), valid(p.Destination))
			}
			if p.RTT > 0 {
				gauge(r.pairRTT, float64(p.RTT), path, test, valid(p.Source), valid(p.Destination))
			}
		}
	}
	for cell, tally := range s.Cells {
		path, test := valid(cell.Path), valid(cell.Test)
		for _, state := range event.TrialStates() {
			gauge(r.trials, float64(tally.Trials[state]), path, test, string(state))
		}
		if tally.Last != nil {
			for name, v := range tally.Last.Metrics {
				gauge(r.metric, v, path, test, valid(name))
			}
		}
	}
	for _, h := range s.Hops {
		name, instance := valid(h.Name), strconv.Itoa(h.Instance)
		gauge(r.hopBytes, h.Counted.ForwardBytes, name, instance, "forward")
		gauge(r.hopBytes, h.Counted.BackwardBytes, name, instance, "backward")
		gauge(r.hopPackets, h.Counted.ForwardPackets, name, instance, "forward")
		gauge(r.hopPackets, h.Counted.BackwardPackets, name, instance, "backward")
		gauge(r.hopDropped, h.Counted.DroppedPackets, name, instance)
	}
	if c := s.Clocks; c != nil {
		gauge(r.spread, float64(c.Start))
		gauge(r.offset, float64(c.Offset))
		gauge(r.uncertainty, float64(c.Uncertainty))
	}
}

// valid is a label's value, which has to be UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
