package metrics

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunMetrics(t *testing.T) {
	stream := event.NewStream()
	address := served(t, func(ctx context.Context, ln net.Listener) error { return ServeRun(ctx, ln, stream.State) })
	get := func() string {
		t.Helper()
		text, err := fetch(t, "http://"+address+"/metrics")
		testutil.OK(t, err)
		return text
	}
	if text := get(); strings.Contains(text, "\nhopbench_run_") {
		t.Errorf("there is no run yet:\n%s", text)
	}
	trial := &event.PlannedTrial{ID: "t", Path: "fw \xff", Test: "x", Kind: measurement.TCP}
	stream.Publish(event.Event{Code: event.RunStarted, Run: &event.RunStart{Name: "n"}, Planned: 4, Left: 60})
	stream.Publish(event.Event{Code: event.TrialEnded, Trial: trial, Done: 1, Planned: 4, Ended: &event.TrialEnd{Gate: measurement.Gate{Passed: true}, Metrics: measurement.Metrics{"goodput_bits_per_second": 7}, Stored: 0.25}})
	stream.Publish(event.Event{Code: event.Spread, Trial: trial, Done: 1, Planned: 4, Clocks: &event.ClockSpread{Start: 0.5}})
	stream.Publish(event.Event{Code: event.TrialStarted, Trial: trial, Done: 1, Planned: 4})
	twice := event.PairSecond{Source: "c1", Destination: "s1", Throughput: new(5.)}
	stream.Publish(event.Event{Code: event.Measured, Trial: trial, Done: 1, Planned: 4, Left: 30, Second: &event.Second{Throughput: new(9.), RTT: 0.5, Pairs: []event.PairSecond{twice, twice, {Source: "c2", Destination: "s2", Throughput: new(4.)}}},
		Hops: []event.HopTotals{{Name: "fw", Instance: 2, Counted: measurement.HopSample{ForwardBytes: 11, DroppedPackets: 3}}}})
	stream.Publish(event.Event{Code: event.Joined, Done: 1, Planned: 4, Left: 30, Fleet: &event.Fleet{Machines: 6, Seats: event.Seats{Waiting: 1, Leased: 2, Lost: 3}}})
	stream.Publish(event.Event{Code: event.StoreLag, Done: 1, Planned: 4, Left: 30, Lag: &event.Lag{Coarsened: 8, Dropped: 9}})
	text := get()
	for _, want := range []string{
		`hopbench_fleet_agents 6`, `hopbench_fleet_seats{state="waiting"} 1`, `hopbench_fleet_seats{state="leased"} 2`, `hopbench_fleet_seats{state="lost"} 3`,
		`hopbench_fleet_blocks_coarsened_total 8`, `hopbench_fleet_samples_dropped_total 9`,
		`hopbench_run_events_total{code="machine-joined"} 1`, `hopbench_run_events_total{code="fault"} 0`,
		`hopbench_run_running{run="n"} 1`, `hopbench_run_trials_done 1`, `hopbench_run_trials_planned 4`, `hopbench_run_left_seconds 30`,
		"hopbench_run_throughput_bits_per_second{path=\"fw \uFFFD\",test=\"x\"} 9", "hopbench_run_rtt_seconds{path=\"fw \uFFFD\",test=\"x\"} 0.5",
		"hopbench_run_pair_throughput_bits_per_second{destination=\"s1\",path=\"fw \uFFFD\",source=\"c1\",test=\"x\"} 5",
		"hopbench_run_trials{path=\"fw \uFFFD\",state=\"passed\",test=\"x\"} 1", "hopbench_run_trials{path=\"fw \uFFFD\",state=\"broken\",test=\"x\"} 0",
		"hopbench_run_last{metric=\"goodput_bits_per_second\",path=\"fw \uFFFD\",test=\"x\"} 7",
		`hopbench_run_hop_bytes{direction="forward",hop="fw",instance="2"} 11`, `hopbench_run_hop_dropped_packets{hop="fw",instance="2"} 3`,
		`hopbench_run_store_lag_seconds 0.25`, `hopbench_run_start_spread_seconds 0.5`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "\nhopbench_run_pair_rtt_seconds") {
		t.Errorf("a round-trip time that nobody measured:\n%s", text)
	}
	stream.Publish(event.Event{Code: event.RunEnded, End: &event.RunEnd{}})
	if text := get(); !strings.Contains(text, `hopbench_run_running{run="n"} 0`) || strings.Contains(text, "\nhopbench_run_throughput") {
		t.Errorf("the run is over:\n%s", text)
	}
	stream.Close()
}

// A test of round trips carries nothing that could be 0; one that stands still carries nothing.
func TestThroughputOfTestsThatHaveOne(t *testing.T) {
	for rate, has := range map[*float64]bool{new(0.): true, nil: false} {
		stream := event.NewStream()
		trial := &event.PlannedTrial{ID: "t", Path: "fw", Test: "x"}
		stream.Publish(event.Event{Code: event.RunStarted, Run: &event.RunStart{Name: "n"}})
		stream.Publish(event.Event{Code: event.TrialStarted, Trial: trial})
		stream.Publish(event.Event{Code: event.Measured, Trial: trial, Second: &event.Second{Throughput: rate, RTT: 0.5, Pairs: []event.PairSecond{{Source: "c", Destination: "s", Throughput: rate, RTT: 0.5}}}})
		registry := prometheus.NewRegistry()
		registry.MustRegister(run(stream.State))
		families, err := registry.Gather()
		testutil.OK(t, err)
		for _, name := range []string{"hopbench_run_throughput_bits_per_second", "hopbench_run_pair_throughput_bits_per_second"} {
			got := false
			for _, f := range families {
				got = got || f.GetName() == name
			}
			if got != has {
				t.Errorf("%v bit/s: %s is there: %v", rate, name, got)
			}
		}
		stream.Close()
	}
}
