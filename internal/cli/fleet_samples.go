package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

// collectSamples begins to take samples of the run's fleet, and to put them into a database
// if that is wanted.
func (r *session) collectSamples(ctx context.Context) error {
	stream := r.flags.views.Stream
	if r.flags.sink.to != "" {
		open, err := r.flags.sink.opener(r.head)
		if err != nil {
			return err
		}
		r.feeder, err = collect.Feed(ctx, collect.FeedOptions{Table: r.store, Open: open, OnState: func(err error) {
			text := fmt.Sprintf("%s takes samples again", r.flags.sink.to)
			if err != nil {
				text = fmt.Sprintf("%s does not take samples, which stay in the run meanwhile: %v", r.flags.sink.to, err)
			}
			live.Publish(stream, event.Event{Code: event.Warning, Text: text})
		}})
		if err != nil {
			return err
		}
	}
	r.samples = collect.Open(collect.Options{
		Keeper: r.store, Run: runName(r.head),
		OnLag: func(l collect.Lag) {
			lag := event.Lag{Behind: measurement.SecondsOf(l.Behind), Blocks: l.Blocks, Bytes: l.Bytes, Coarsened: l.Coarsened, Dropped: l.Dropped}
			if l.Err != nil {
				lag.Error = l.Err.Error()
			}
			live.Publish(stream, event.Event{Code: event.StoreLag, Lag: &lag})
		},
	})
	return nil
}

// endSamples ends what takes samples, before what it writes to. A second call does nothing.
func (r *session) endSamples() (err error) {
	if r.samples != nil {
		r.samples.Close()
	}
	if r.feeder != nil {
		err = r.feeder.Close()
		r.feeder = nil
	}
	return err
}

// settleTime is how long samples may take to get to the disk after the last trial, or once
// the disk did not take them.
const settleTime = 10 * time.Second

// settleSamples waits for the samples that machines still hold, and says what is lacking.
func (r *session) settleSamples(ctx context.Context) error {
	if r.samples == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := r.samples.Drain(ctx)
	var given int64
	dropped := r.samples.Dropped()
	for _, n := range dropped {
		given += n
	}
	if given > 0 {
		r.note(words.SamplesGivenUp(len(dropped), given))
	}
	if late := r.samples.Late(); late > 0 {
		r.note(words.ResultsLate(late))
	}
	r.samples.Close()
	if r.feeder == nil {
		return err
	}
	// Whatever machines hold: what is on the disk is to be there, too.
	feeding, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer stop()
	if lacks := r.feeder.Drain(feeding); lacks != nil {
		live.Publish(r.flags.views.Stream, event.Event{Code: event.Warning, Text: fmt.Sprintf("%v; hopbench export %s%s puts them there", lacks, printable.ShellWord(r.store.Dir()), r.flags.sink.words())})
	}
	return err
}

// sampledRun keeps the trials of a run, and ends it after one whose samples cannot be kept.
type sampledRun struct {
	*store.Store
	samples *collect.Collector
	settle  time.Duration // what the disk may take to be in order again
}

// Put keeps a trial.
func (s sampledRun) Put(ctx context.Context, t measurement.Trial) error {
	if err := s.Store.Put(ctx, t); err != nil {
		return err
	}
	s.samples.Stored(t.ID)
	if s.samples.Err() == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, s.settle)
	defer cancel()
	if err := s.samples.Drain(limited); err != nil {
		return fmt.Errorf("trial %s is stored; the run ends, because its samples cannot be: %w; free space there, and continue with --resume %s", t.ID, err, s.Dir())
	}
	return nil
}
