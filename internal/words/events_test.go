package words

import (
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Every event has a line.
func TestEvents(t *testing.T) {
	trial := &event.PlannedTrial{ID: "b01-a-x", Path: "a", Test: "x", Kind: measurement.TCP}
	for code, c := range map[event.Code]struct {
		event.Event
		want string
	}{
		event.RunStarted:   {event.Event{Run: &event.RunStart{Name: "n", Paths: []string{"a", "b"}, Tests: []string{"x"}, Blocks: 2, Expected: 30, Folder: "dir"}}, "n: 2 paths × 1 test × 2 blocks, about 30 s, into dir"},
		event.BlockStarted: {event.Event{Block: 3}, "block 3"},
		event.TrialStarted: {event.Event{Trial: trial}, "trial b01-a-x begins"},
		event.Switched:     {event.Event{Trial: trial, Switch: &measurement.PathSwitch{Set: map[string]string{"fw": "on"}, Took: 2, Proof: "trace"}}, "path a is in force: fw=on, after 2.00\u00a0s, proof trace"},
		event.Measured:     {event.Event{Second: &event.Second{Throughput: new(1e9)}}, "1.00\u00a0Gbit/s"},
		event.TrialEnded: {event.Event{Trial: trial, Ended: &event.TrialEnd{Gate: measurement.Gate{Passed: true}, Metrics: measurement.Metrics{"goodput_bits_per_second": 1e9}}},
			"trial b01-a-x counts: 1.00\u00a0Gbit/s"},
		event.StoreLag: {event.Event{Lag: &event.Lag{Behind: 5, Error: "full"}}, "samples cannot be written to the disk for 5s, and the machines keep them: full"},
		event.Spread:   {event.Event{Clocks: &event.ClockSpread{Start: 0.002, Uncertainty: 0.001}}, "pairs began within 2.00\u00a0ms, clocks are known within 1.00\u00a0ms"},
		event.Joined:   {event.Event{Fleet: &event.Fleet{Machine: "c1", Machines: 7}}, "machine c1 joined: 7 there"},
		event.Left:     {event.Event{Fleet: &event.Fleet{Machine: "c1", Machines: 6}, Text: "it is silent"}, "machine c1 left, 6 there: it is silent"},
		event.Queued:   {event.Event{Fleet: &event.Fleet{Seats: event.Seats{Waiting: 2}}}, "2 seats waiting for a client"},
		event.Leased:   {event.Event{Fleet: &event.Fleet{Seat: 2, Client: "c1", Server: "s1", Seats: event.Seats{Leased: 2}}}, "seat 2 at s1 is c1’s: 2 pairs ready"},
		event.Vacated:  {event.Event{Fleet: &event.Fleet{Seat: 2, Client: "c1", Server: "s1"}, Text: "it is silent"}, "seat 2 at s1, which c1 had, is lost: it is silent"},
		event.Fault:    {event.Event{Text: "a hop died"}, "the testbed broke and was rebuilt: a hop died"},
		event.Note:     {event.Event{Text: "A note."}, "A note."},
		event.Warning:  {event.Event{Text: "A warning."}, "A warning."},
		event.RunEnded: {event.Event{End: &event.RunEnd{Elapsed: 61}}, "the run ended after 1m1s"},
		event.Lost:     {event.Event{LostEvents: 2}, "2 events came too fast for this view and are missing here; the run has all of them"},
	} {
		c.Code = code
		if got := Event(c.Event); got != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", code, got, c.want)
		}
	}
	for _, code := range event.Codes() {
		e := event.Event{Code: code, Text: "text", Run: &event.RunStart{}, Trial: trial, Second: &event.Second{RTT: 1}, Ended: &event.TrialEnd{}, Clocks: &event.ClockSpread{}, Lag: &event.Lag{}, Fleet: &event.Fleet{}, End: &event.RunEnd{}}
		if Event(e) == "" {
			t.Errorf("%s has no line", code)
		}
	}
	given := StoreLag(event.Lag{Coarsened: 1, Dropped: 30})
	if want := "all received samples are on the disk; so far machines thinned 1 block and dropped 30 samples"; given != want {
		t.Errorf("%q", given)
	}
}

func TestAbout(t *testing.T) {
	for d, want := range map[string]string{"0s": "0 s", "400ms": "0 s", "89.6s": "90 s", "90s": "2 min", "119m29s": "119 min", "119m40s": "2 h", "2h25m": "2 h 25 min",
		"47h59m": "47 h 59 min", "47h59m40s": "2.0 days", "60h": "2.5 days", "720h": "30 days", "8760h": "365 days"} {
		length, err := time.ParseDuration(d)
		testutil.OK(t, err)
		if got := About(length); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestFleet(t *testing.T) {
	f := event.Fleet{Machines: 61, Seats: event.Seats{Leased: 29, Lost: 1, Waiting: 2}}
	second := &event.Second{Throughput: new(2.), Pairs: []event.PairSecond{{Throughput: new(1.)}, {Throughput: new(1.), RTT: 1}, {RTT: 1}}}
	for want, got := range map[string][]string{
		"61 machines; 29 pairs ready, 1 lost; 2 seats waiting for a client":       Fleet(f, nil),
		"61 machines; 2 of 3 pairs running, 1 lost; 2 seats waiting for a client": Fleet(f, second),
		"1 machine; 0 pairs ready": Fleet(event.Fleet{Machines: 1}, nil),
	} {
		if strings.Join(got, "; ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a run that goes on announces is the time that is left.
func TestRunStarted(t *testing.T) {
	run := &event.RunStart{Name: "mine", Paths: []string{"a", "b"}, Tests: []string{"x"}, Blocks: 6, Expected: 60, Folder: "dir"}
	for want, e := range map[string]event.Event{
		"mine: 2 paths × 1 test × 6 blocks, about 60 s, into dir":                             {Run: run, Planned: 12, Left: 60},
		"mine: 2 paths × 1 test × 6 blocks, 3 of 12 trials stored, about 45 s left, into dir": {Run: run, Done: 3, Planned: 12, Left: 45},
		"mine: 2 paths × 1 test × 6 blocks, all 12 trials stored, into dir":                   {Run: run, Done: 12, Planned: 12},
	} {
		if got := RunStarted(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A trial that its path broke counts, as the worst; one that a gate excluded does not.
func TestTrialsThatDidNotPass(t *testing.T) {
	findings := []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "reset", Fatal: true}}
	for _, c := range []struct {
		gate measurement.Gate
		want string
	}{
		{measurement.Gate{Findings: findings}, "trial b01-a-x does not count: reset"},
		{measurement.Gate{Broken: true, Findings: findings}, "trial b01-a-x was broken by its path: reset"},
	} {
		if got := Event(event.Event{Code: event.TrialEnded, Trial: &event.PlannedTrial{ID: "b01-a-x"}, Ended: &event.TrialEnd{Gate: c.gate}}); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
