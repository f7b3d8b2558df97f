package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// fullDisk has room for trials and none for samples.
type fullDisk struct{ *store.Store }

func (fullDisk) PutSamples(context.Context, []samples.Block) error { return errors.New("disk full") }

func (fullDisk) Assigned(context.Context, string, samples.Key) (bool, error) { return true, nil }

// sender is an agent that sends one block.
type sender struct{ block samples.Block }

func (s sender) TakeSamples(take func(samples.Block, bool) error) { _ = take(s.block, false) }

func (sender) SayKept(agent.Kept) error { return nil }

func (sender) TakeResults(func(agent.SeatResult) error) {}

func (sender) SaySettled(samples.Key) error { return nil }

func (sender) Refuse(error) {}

// A run whose samples cannot be kept ends after the trial, which is stored, and says what to
// do.
func TestRunEndsWhereSamplesCannotBeKept(t *testing.T) {
	st, err := store.Create(t.TempDir(), store.Head{Name: "fw"})
	testutil.OK(t, err)
	defer st.Close()
	taken := collect.Open(collect.Options{Keeper: fullDisk{st}, Run: "fw", Every: time.Millisecond})
	defer taken.Close()
	run := sampledRun{st, taken, 10 * time.Millisecond}
	testutil.OK(t, run.Put(t.Context(), measurement.Trial{ID: "first"}))
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	box := samples.NewOutbox(coder, 1<<20)
	testutil.OK(t, errors.Join(box.Add("second", 1, 1, time.Second, []samples.Sample{{Flow: 1}}), box.Acknowledge(0, 1<<20)))
	block, _ := box.Next()
	taken.Join(subject.Agent{Name: "c1"}, sender{block})
	for taken.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	err = run.Put(t.Context(), measurement.Trial{ID: "second", Order: 1})
	for _, want := range []string{"trial second is stored", "disk full", "free space there, and continue with --resume " + st.Dir()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if trials, err := st.Trials(t.Context()); err != nil || len(trials) != 2 {
		t.Errorf("%d trials are stored, %v", len(trials), err)
	}
}
