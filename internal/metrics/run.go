package metrics

import (
	"context"
	"net"
	"strconv"

	"github.com/hopbench/hopbench/internal/event"
)

// ServeRun answers GET /metrics at ln with where a run is until ctx ends. It closes ln.
func ServeRun(ctx context.Context, ln net.Listener, state func() event.State) error {
	return serve(ctx, ln, run(state))
}

// run is where a run is.
func run(state func() event.State) collector {
	return func(e exposition) {
		s := state()
		if s.Run == nil {
			return
		}
		going := 1.0
		if s.End != nil {
			going = 0
		}
		e.gauge("hopbench_run_running", "1 during the run of this name, 0 once it is over.", "run")(going, s.Run.Name)
		e.gauge("hopbench_run_trials_done", "Trials that are stored.")(float64(s.Done))
		e.gauge("hopbench_run_trials_planned", "Trials of the plan.")(float64(s.Planned))
		e.gauge("hopbench_run_left_seconds", "About how long the rest takes.")(float64(s.Left))
		e.gauge("hopbench_run_block", "The block under way, counted from 1.")(float64(s.Block))
		e.gauge("hopbench_run_store_lag_seconds", "How long it took to store the last trial.")(float64(s.Stored))
		late := 0.0
		if s.Lag != nil {
			late = float64(s.Lag.Behind)
		}
		e.gauge("hopbench_run_samples_lag_seconds", "How long the oldest samples of a fleet wait for the disk, 0 while none is late.")(late)
		e.gauge("hopbench_run_faults", "How often the testbed broke in this session.")(float64(s.Faults))
		events := e.counter("hopbench_run_events_total", "Events of this session, by code.", "code")
		for _, code := range event.Codes() {
			events(float64(s.Events[code]), string(code))
		}
		e.fleet(s)
		e.trialUnderWay(s)
		e.cells(s)
		e.hops(s)
		if c := s.Clocks; c != nil {
			e.gauge("hopbench_run_start_spread_seconds", "How much later the last pair began than the first, in the last trial of several.")(float64(c.Start))
			e.gauge("hopbench_run_clock_offset_seconds", "By how much the clock of an end was furthest from the coordinator's.")(float64(c.Offset))
			e.gauge("hopbench_run_clock_uncertainty_seconds", "The greatest uncertainty of the clock of an end.")(float64(c.Uncertainty))
		}
	}
}

// fleet is how machines and seats stand, where there are any.
func (e exposition) fleet(s event.State) {
	f := s.Fleet
	if f == nil {
		return
	}
	e.gauge("hopbench_fleet_agents", "Machines of the fleet that are there.")(float64(f.Machines))
	seats := e.gauge("hopbench_fleet_seats", "Seats of the fleet by how they stand.", "state")
	seats(float64(f.Seats.Waiting), "waiting")
	seats(float64(f.Seats.Leased), "leased")
	seats(float64(f.Seats.Lost), "lost")
	e.counter("hopbench_fleet_blocks_coarsened_total", "Blocks of samples that machines made coarser because they could not send them.")(float64(s.Coarsened))
	e.counter("hopbench_fleet_samples_dropped_total", "Samples that machines dropped because they could not send them.")(float64(s.Dropped))
}

// trialUnderWay is the last second of the trial under way. A test of round trips has no
// throughput, and a round-trip time of 0 is not known.
func (e exposition) trialUnderWay(s event.State) {
	t, second := s.Trial, s.Second
	if t == nil || second == nil {
		return
	}
	if second.Throughput != nil {
		e.gauge("hopbench_run_throughput_bits_per_second", "Of the trial under way, in its last second, all pairs together.", "path", "test")(*second.Throughput, t.Path, t.Test)
	}
	if second.RTT > 0 {
		e.gauge("hopbench_run_rtt_seconds", "Round-trip time in the trial under way, in its last second.", "path", "test")(float64(second.RTT), t.Path, t.Test)
	}
	throughput := e.gauge("hopbench_run_pair_throughput_bits_per_second", "Of one pair of the trial under way, in its last second.", "path", "test", "source", "destination")
	rtt := e.gauge("hopbench_run_pair_rtt_seconds", "Round-trip time of one pair of the trial under way, in its last second.", "path", "test", "source", "destination")
	for _, p := range second.Pairs {
		if p.Throughput != nil {
			throughput(*p.Throughput, t.Path, t.Test, p.Source, p.Destination)
		}
		if p.RTT > 0 {
			rtt(float64(p.RTT), t.Path, t.Test, p.Source, p.Destination)
		}
	}
}

// cells are the tests on the paths.
func (e exposition) cells(s event.State) {
	trials := e.gauge("hopbench_run_trials", "Trials of this session by how they ended.", "path", "test", "state")
	last := e.gauge("hopbench_run_last", "A metric of the last trial that passed, in the unit of its name.", "path", "test", "metric")
	for cell, tally := range s.Cells {
		for _, state := range event.TrialStates() {
			trials(float64(tally.Trials[state]), cell.Path, cell.Test, string(state))
		}
		if tally.Last != nil {
			for name, v := range tally.Last.Metrics {
				last(v, cell.Path, cell.Test, name)
			}
		}
	}
}

// hops are the counters of hops.
func (e exposition) hops(s event.State) {
	bytes := e.gauge("hopbench_run_hop_bytes", "What a hop has counted in the trial under way or the last one.", "hop", "instance", "direction")
	packets := e.gauge("hopbench_run_hop_packets", "What a hop has counted in the trial under way or the last one.", "hop", "instance", "direction")
	dropped := e.gauge("hopbench_run_hop_dropped_packets", "Packets that a hop has dropped in the trial under way or the last one.", "hop", "instance")
	for _, h := range s.Hops {
		instance := strconv.Itoa(h.Instance)
		bytes(h.Counted.ForwardBytes, h.Name, instance, "forward")
		bytes(h.Counted.BackwardBytes, h.Name, instance, "backward")
		packets(h.Counted.ForwardPackets, h.Name, instance, "forward")
		packets(h.Counted.BackwardPackets, h.Name, instance, "backward")
		dropped(h.Counted.DroppedPackets, h.Name, instance)
	}
}
