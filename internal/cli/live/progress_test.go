package live

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is told before the end is shown, what a stranger named is made harmless, and the
// stream has all of it.
func TestProgressIsOneReader(t *testing.T) {
	var told bytes.Buffer
	stream := event.NewStream()
	defer stream.Close()
	show := NewProgress(&told, false, stream)
	plan := experiment.Plan{Trials: []experiment.PlannedTrial{{ID: "b01-a-x", Block: 1, Path: "a", Test: "x"}}}
	show.Begin(&experiment.Experiment{Name: "mine" + testutil.Hostile, Blocks: 1}, plan, "dir", 0)
	show.Facts([]string{"a fact"})
	show.Event(runner.Event{Trial: plan.Trials[0], Planned: 1})
	show.Event(runner.Event{Trial: plan.Trials[0], Done: 1, Planned: 1, Finished: &measurement.Trial{ID: "b01-a-x", Block: 1, Gate: measurement.Gate{
		Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "it was refused", Fatal: true}}}}})
	for range 3 {
		stream.Publish(event.Event{Code: event.StoreLag, Done: 1, Planned: 1, Lag: &event.Lag{Behind: 5, Error: "the disk is full"}})
	}
	show.End()
	text := told.String()
	if strings.Count(text, "the disk is full") != 1 {
		t.Errorf("that the disk is behind is not said once:\n%s", text)
	}
	for _, want := range []string{"mine", ", into dir\n", "\nwarning: 1 block is too few", "\nnote: a fact\n", "\ntrial b01-a-x does not count: ", "it was refused", "\nblock 1/1, trial 1/1, 0:00 left\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	testutil.OnlyPrintable(t, text)
	show.Ended(errors.New("stopped"))
	show.End()
	if told.String() != text {
		t.Error("something is shown after the end")
	}
	if s := stream.State(); s.End == nil || !s.End.Complete || s.End.Why != "stopped" || s.Run.Blocks != 1 {
		t.Errorf("%+v", s)
	}
}

// A run that goes on begins with what is stored; one that was complete still is.
func TestProgressOfACompleteRun(t *testing.T) {
	stream := event.NewStream()
	defer stream.Close()
	show := NewProgress(&bytes.Buffer{}, true, stream)
	show.Begin(&experiment.Experiment{Name: "mine", Blocks: 1}, experiment.Plan{Trials: []experiment.PlannedTrial{{ID: "b01-a-x", Block: 1, Path: "a", Test: "x"}}}, "dir", 1)
	show.Ended(nil)
	show.End()
	if s := stream.State(); s.Done != 1 || s.Left != 0 || !s.End.Complete {
		t.Errorf("%+v, %+v", s, s.End)
	}
}

// What is printed while the live line is shown takes its place.
func TestAboveTheLiveLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		stream := event.NewStream()
		defer stream.Close()
		show := NewProgress(&told, false, stream)
		show.terminal.live.Shown = true
		show.Event(runner.Event{Trial: experiment.PlannedTrial{ID: "b01-a-x", Block: 1, Path: "a", Test: "x"}, Planned: 1})
		synctest.Wait()
		show.Above(func() { told.WriteString("a row\n") })
		show.End()
		if text := told.String(); !strings.Contains(text, "0:00 left  a x\r\x1b[Ja row\n") {
			t.Errorf("%q", text)
		}
	})
}

func TestQuietProgress(t *testing.T) {
	var told bytes.Buffer
	stream := event.NewStream()
	defer stream.Close()
	show := NewProgress(&told, true, stream)
	show.Facts([]string{"a fact"})
	show.End()
	if told.Len() > 0 || stream.State().Number != 1 {
		t.Errorf("%q, %d events", told.String(), stream.State().Number)
	}
}

// A fleet has a line of its own below, which goes with the other.
func TestFleetLine(t *testing.T) {
	var told bytes.Buffer
	v := &terminalView{w: &told, live: &Line{w: &told, Shown: true}}
	trial := &event.PlannedTrial{ID: "b01-a-x", Block: 1, Path: "a", Test: "x"}
	v.show(event.Event{Code: event.Leased, Fleet: &event.Fleet{Machines: 4, Seats: event.Seats{Leased: 2}}})
	v.show(event.Event{Code: event.Spread, Clocks: &event.ClockSpread{Start: 0.003}})
	v.show(event.Event{Code: event.StoreLag, Lag: &event.Lag{Behind: 5}})
	told.Reset()
	v.show(event.Event{Code: event.Measured, Trial: trial, Second: &event.Second{Throughput: new(1e9), Pairs: []event.PairSecond{{Throughput: new(1.)}, {}}}})
	v.show(event.Event{Code: event.Note, Text: "a note"})
	const want = "\r\x1b[J  0/0  block 1/0  0:00 left  a x  1.00\u00a0Gbit/s █\r\n         4 machines; 1 of 2 pairs running; pairs began within 3.00\u00a0ms; samples of 5s wait for the d" +
		"\x1b[1A\r\x1b[Jnote: a note\n"
	if got := told.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLiveLine(t *testing.T) {
	v := &terminalView{}
	got := ""
	for i := range 30 {
		got = v.second(event.Second{Throughput: new(float64(i%8+1) * 1e6), Pairs: []event.PairSecond{{Throughput: new(1.)}, {}}})
	}
	if want := "  6.00\u00a0Mbit/s " + bars([]float64{3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6}) + "  1 of 2 pairs"; got != want {
		t.Errorf("%q", got)
	}
	if got := bars([]float64{0, 1, 4, 8}); got != "▁▂▅█" {
		t.Errorf("%q", got)
	}
	if got := bars([]float64{0}); got != "▁" {
		t.Errorf("%q", got)
	}
	if got := v.second(event.Second{}); got != "" {
		t.Errorf("%q", got)
	}
	if got, want := v.second(event.Second{Throughput: new(0.)}), "  0\u00a0bit/s "+bars([]float64{4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 0}); got != want {
		t.Errorf("of a standstill: %q, want %q", got, want)
	}
}
