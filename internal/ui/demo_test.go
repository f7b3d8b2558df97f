package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is a name that would do something if it were not escaped.
const hostile = `<img src=x onerror="document.title='taken'">`

// begun publishes a run in the middle of a trial.
func begun(s *event.Stream) {
	at := event.Event{Planned: 36, Left: 300}
	publish := func(e event.Event) {
		e.Done, e.Planned, e.Left = at.Done, at.Planned, at.Left
		s.Publish(e)
	}
	publish(event.Event{Code: event.RunStarted, Format: event.Format, Run: &event.RunStart{
		Name: "fleet", Title: "What a firewall of 20 instances carries", Folder: "hopbench-runs/fleet", Blocks: 6, Expected: 600,
		Paths: []string{"peered", "firewall"}, Tests: []string{"flows-1", "flows-64", "latency"},
	}})
	for i := range 60 {
		publish(event.Event{Code: event.Joined, Fleet: &event.Fleet{Machine: fmt.Sprint("machine-", i+1), Machines: i + 1}})
	}
	for i := range 30 {
		publish(event.Event{Code: event.Leased, Fleet: &event.Fleet{Seat: i + 1, Client: fmt.Sprint("client-", i+1), Server: fmt.Sprint("server-", i+1), Machines: 60, Seats: event.Seats{Leased: i + 1, Waiting: 29 - i}}})
	}
	publish(event.Event{Code: event.Left, Text: "it is silent " + hostile, Fleet: &event.Fleet{Machine: hostile, Machines: 59, Seats: event.Seats{Leased: 30}}})
	publish(event.Event{Code: event.Vacated, Text: "it is silent", Fleet: &event.Fleet{Seat: 8, Client: "client-8", Server: "server-8", Machines: 59, Seats: event.Seats{Leased: 29, Lost: 1}}})
	publish(event.Event{Code: event.StoreLag, Lag: &event.Lag{Behind: 4, Blocks: 120, Coarsened: 17}})
	publish(event.Event{Code: event.Spread, Clocks: &event.ClockSpread{Start: 2.1e-3, Uncertainty: 80e-6}})
	publish(event.Event{Code: event.Note, Text: "The source may not trace: " + hostile})
	publish(event.Event{Code: event.Warning, Text: "6 blocks are few."})
	trial := func(block int, path, test string, kind measurement.Kind) *event.PlannedTrial {
		return &event.PlannedTrial{ID: fmt.Sprintf("b%02d-%s-%s", block, path, test), Block: block, Path: path, Test: test, Kind: kind, Expected: 30}
	}
	ended := func(t *event.PlannedTrial, gate measurement.Gate, m measurement.Metrics) {
		at.Done++
		at.Left -= 30
		publish(event.Event{Code: event.TrialEnded, Trial: t, Ended: &event.TrialEnd{Gate: gate, Metrics: m, Elapsed: 31}})
	}
	publish(event.Event{Code: event.BlockStarted, Block: 1})
	ended(trial(1, "peered", "flows-1", measurement.TCP), measurement.Gate{Passed: true}, measurement.Metrics{"goodput_bits_per_second": 2.84e9})
	ended(trial(1, "peered", "latency", measurement.RR), measurement.Gate{Passed: true}, measurement.Metrics{"rtt_p50_seconds": 312e-6})
	publish(event.Event{Code: event.BlockStarted, Block: 2})
	ended(trial(2, "firewall", "latency", measurement.RR), measurement.Gate{Passed: true}, measurement.Metrics{"rtt_p50_seconds": 1.42e-3})
	ended(trial(2, "firewall", "flows-1", measurement.TCP), measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "hop firewall died", Fatal: true}}}, nil)
	publish(event.Event{Code: event.Switched, Trial: trial(2, "firewall", "flows-64", measurement.TCP), Switch: &measurement.PathSwitch{Set: map[string]string{"idps": "off"}, Took: 2, Proof: "trace"}})
	publish(event.Event{Code: event.TrialStarted, Trial: trial(2, "firewall", "flows-64", measurement.TCP)})
}

// seconds publishes a trial's seconds, one after the other at once.
func seconds(s *event.Stream, from, to, pairs int) {
	t := &event.PlannedTrial{ID: "b02-firewall-flows-64", Block: 2, Path: "firewall", Test: "flows-64", Kind: measurement.TCP, Expected: 30}
	for i := from; i < to; i++ {
		sum := event.Second{At: measurement.Seconds(i), Throughput: new(0.), RTT: measurement.Seconds(1.1e-3 + 2e-4*math.Sin(float64(i)/5))}
		for p := range pairs {
			rate := 60e6 + 6e6*math.Sin(float64(i)/3+float64(p))
			if p == 7 && i > 20 {
				rate = 0
			}
			sum.Pairs = append(sum.Pairs, event.PairSecond{Source: fmt.Sprintf("client-%d", p+1), Destination: fmt.Sprintf("server-%d", p+1), Throughput: new(rate), RTT: sum.RTT})
			*sum.Throughput += rate
		}
		connections := 1920.0
		s.Publish(event.Event{Code: event.Measured, Time: time.Date(2026, 11, 23, 12, 0, i, 0, time.UTC), Trial: t, Done: 4, Planned: 36, Left: 180, Second: &sum, Hops: []event.HopTotals{
			{Name: "fabric", Counted: measurement.HopSample{ForwardBytes: 1e8 * float64(i), ForwardPackets: 1e5 * float64(i)}},
			{Name: "firewall", Instance: 1, Counted: measurement.HopSample{ForwardBytes: 5e6 * float64(i), ForwardPackets: 4e3 * float64(i), DroppedPackets: float64(i), CPU: 2, Connections: &connections}},
			{Name: "firewall", Instance: 2, Counted: measurement.HopSample{ForwardBytes: 6e6 * float64(i), ForwardPackets: 4.5e3 * float64(i), KernelCPU: 1, Connections: &connections}},
		}})
	}
}

// over publishes the end of a run, with its report.
func over(t *testing.T, s *event.Stream, page *Server) {
	t.Helper()
	page.Report(reporttest.Run(t, 4))
	s.Publish(event.Event{Code: event.RunEnded, Done: 36, Planned: 36, End: &event.RunEnd{Elapsed: 612, Complete: true}})
}

// serve serves a stream's page until the test ends.
func serve(t *testing.T, s *event.Stream) *Server {
	t.Helper()
	page, err := Listen(context.Background(), Options{Address: "127.0.0.1:0", Stream: s})
	testutil.OK(t, err)
	t.Cleanup(func() {
		s.Close()
		if err := page.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return page
}
