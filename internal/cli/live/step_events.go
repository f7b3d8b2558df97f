package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Follow is a command that measures nothing: it publishes what the command does, step by
// step, and how it ends. JSON says that the result goes to standard output.
func (f Flags) Follow(ctx context.Context, s *base.Streams, json bool, what string, do func(Steps) error) (err error) {
	views, err := f.Open(ctx, s, json)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, views.Close()) }()
	began := time.Now()
	views.Stream.Publish(event.Event{Format: event.Format, Code: event.Note, Text: what})
	err = do(Steps{views.Stream})
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
type Steps struct{ stream *event.Stream }

// Tell publishes a step.
func (t Steps) Tell(code event.Code, text string) {
	if t.stream != nil {
		t.stream.Publish(event.Event{Code: code, Text: text})
	}
}

// Note publishes what was done.
func (t Steps) Note(format string, args ...any) { t.Tell(event.Note, fmt.Sprintf(format, args...)) }
