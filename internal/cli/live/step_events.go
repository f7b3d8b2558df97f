package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Follow is a command that measures nothing: it publishes what the command does, step by
// step, and how it ends. JSON says that the result goes to standard output. A terminal shows
// the newest step until the command prints something.
func (f Flags) Follow(ctx context.Context, s *base.Streams, json bool, what string, do func(Steps) error) (err error) {
	views, err := f.Open(ctx, s, json)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, views.Close()) }()
	began := time.Now()
	views.Stream.Publish(event.Event{Format: event.Format, Code: event.Note, Text: what})
	working := Working(s, what)
	err = do(Steps{views.Stream, working})
	working.End()
	_, found := errors.AsType[base.StatusError](err) // what it was to look for
	over := event.RunEnd{Elapsed: measurement.SecondsOf(time.Since(began)), Complete: err == nil || found}
	if !over.Complete {
		over.Why = err.Error()
	}
	views.Stream.Publish(event.Event{Code: event.RunEnded, End: &over})
	return err
}

// Steps are what a command that measures nothing publishes; nobody hears of those of the
// zero value.
type Steps struct {
	stream  *event.Stream
	working *Work
}

// Tell publishes a step.
func (t Steps) Tell(code event.Code, text string) {
	if t.stream != nil {
		t.stream.Publish(event.Event{Code: code, Text: text})
		t.working.draw(text)
	}
}

// Note publishes what was done.
func (t Steps) Note(format string, args ...any) { t.Tell(event.Note, fmt.Sprintf(format, args...)) }

// Work is a line of the terminal that says what a command does before it prints anything.
type Work struct {
	mu   sync.Mutex
	line *Line
}

// Working shows what is done until something is written to the streams, which it replaces,
// or until End.
func Working(s *base.Streams, what string) *Work {
	w := &Work{line: NewLine(s.Err, false)}
	if w.line.Shown {
		w.draw(what)
		s.Out, s.Err = &output{s.Out, w}, &output{s.Err, w}
	}
	return w
}

func (w *Work) draw(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.Draw("  " + base.Shown(text))
}

// End removes the line. A second End does nothing.
func (w *Work) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.Clear()
	w.line.Shown = false
}

// output removes the line before what is written.
type output struct {
	under io.Writer
	work  *Work
}

func (o *output) Write(p []byte) (int, error) {
	o.work.End()
	return o.under.Write(p)
}

func (o *output) Under() io.Writer { return o.under }
