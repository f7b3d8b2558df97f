package live

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/words"
)

// Progress publishes a run on a stream of events, and shows it on the terminal, which
// reads that stream as every other view does.
type Progress struct {
	Stream *event.Stream
	step   func(runner.Event)
	began  time.Time

	stop    context.CancelFunc // of the terminal's reader
	reading sync.WaitGroup

	mu       sync.Mutex // of the terminal
	terminal *terminalView
}

// NewProgress shows what a stream is told from now on, at w. The caller ends it.
func NewProgress(w io.Writer, quiet bool, stream *event.Stream) *Progress {
	p := &Progress{
		Stream: stream, step: runner.Publish(stream), began: time.Now(),
		terminal: &terminalView{w: w, quiet: quiet, live: NewLine(w, quiet)},
	}
	reader := stream.Follow()
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	p.reading.Go(func() {
		defer p.Above(func() {})
		for {
			events, err := reader.Next(ctx)
			if err != nil {
				return // there is nothing more to read
			}
			p.mu.Lock()
			for _, e := range events {
				p.terminal.show(e)
			}
			p.mu.Unlock()
		}
	})
	return p
}

// Begin announces the run, its folder if there is one, and how many of its trials are
// stored already.
func (p *Progress) Begin(e *experiment.Experiment, plan experiment.Plan, dir string, stored int) {
	start := &event.RunStart{Name: e.Name, Title: e.Title, Folder: dir, Blocks: e.Blocks, TwoStage: e.TwoStage, Expected: measurement.SecondsOf(plan.ExpectedDuration(0))}
	for _, path := range e.Paths {
		start.Paths = append(start.Paths, path.Name)
	}
	for _, test := range e.Tests {
		start.Tests = append(start.Tests, test.Name)
	}
	p.Stream.Publish(event.Event{
		Format: event.Format, Code: event.RunStarted, Run: start, Done: stored, Planned: len(plan.Trials),
		Left: start.Expected * measurement.Seconds(1-float64(stored)/float64(max(len(plan.Trials), 1))),
	})
	if fewest := analysis.FewestBlocks(); e.Blocks < fewest {
		Publish(p.Stream, event.Event{Code: event.Warning, Text: words.BlocksToClaim(e.Blocks, fewest, runner.Comparisons(e))})
	}
}

// BeginTests announces tests of one path, of which how many there are is not known yet.
func (p *Progress) BeginTests(start event.RunStart) {
	p.Stream.Publish(event.Event{Format: event.Format, Code: event.RunStarted, Run: &start})
}

// Facts tells sentences on the run, such as what the testbed could not do as wished.
func (p *Progress) Facts(facts []string) {
	for _, fact := range facts {
		Publish(p.Stream, event.Event{Code: event.Note, Text: fact})
	}
}

// Above has something printed where the live line is, which comes back below it.
func (p *Progress) Above(print func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terminal.live.Clear()
	print()
}

// Event tells one step.
func (p *Progress) Event(e runner.Event) { p.step(e) }

// End shows on the terminal what was told so far, and nothing after it. A second End does
// nothing.
func (p *Progress) End() {
	p.stop()
	p.reading.Wait()
}

// Ended tells that the run is over, and why if that was early.
func (p *Progress) Ended(why error) {
	end := &event.RunEnd{Elapsed: measurement.SecondsOf(time.Since(p.began))}
	at := p.Stream.State()
	end.Complete = at.Planned > 0 && at.Done == at.Planned
	if why != nil {
		end.Why = why.Error()
	}
	Publish(p.Stream, event.Event{Code: event.RunEnded, End: end})
}

// Publish publishes what is no step of the runner, with where the run is.
func Publish(stream *event.Stream, e event.Event) {
	e.Done, e.Planned, e.Left = stream.Progress()
	stream.Publish(e)
}
