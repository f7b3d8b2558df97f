package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a database lacks at the end of a run is told, also where a machine still holds samples.
func TestDatabaseLacksSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := store.Create(filepath.Join(t.TempDir(), "run"), store.Head{Name: "fw"})
		testutil.OK(t, err)
		defer func() { testutil.OK(t, st.Close()) }()
		stream := event.NewStream()
		r := &session{store: st, flags: runFlags{sink: sinkFlags{to: "postgres"}, views: &live.Views{Stream: stream}}}
		r.samples = collect.Open(collect.Options{Keeper: st, Run: "run"})
		var holds holder
		r.samples.Join(subject.Agent{Fleet: "fw", Name: "c1", Key: "k"}, &holds)
		testutil.OK(t, holds.take(samples.Block{}, true))
		coder, err := samples.NewCoder()
		testutil.OK(t, err)
		box := samples.NewOutbox(coder, 1<<20)
		testutil.OK(t, box.Acknowledge(0, 1<<20))
		testutil.OK(t, box.Add("t", 1, 1, time.Second, []samples.Sample{{Flow: 1, Bytes: 1}}))
		block, _ := box.Next()
		testutil.OK(t, st.PutSamples(t.Context(), []samples.Block{block}))
		r.feeder, err = collect.Feed(t.Context(), collect.FeedOptions{Table: st, Open: func(context.Context) (samples.Sink, error) { return slowSink{}, nil }})
		testutil.OK(t, err)
		if err := r.settleSamples(t.Context()); err == nil || !strings.Contains(err.Error(), "1 machines hold some") {
			t.Error(err)
		}
		testutil.OK(t, r.endSamples())
		stream.Close()
		said, err := stream.Read(0).Next(t.Context())
		testutil.OK(t, err)
		told := slices.ContainsFunc(said, func(e event.Event) bool {
			return e.Code == event.Warning && strings.Contains(e.Text, "far away does not have all samples yet") && strings.Contains(e.Text, "; hopbench export ")
		})
		if !told {
			t.Error("nobody is told that the database lacks samples")
		}
	})
}

// A password that was replaced during a run is used for the next connection.
func TestConnectionFileIsReplaced(t *testing.T) {
	var used []string
	sinks["test"] = func(_ context.Context, connection, _ string) (samples.Sink, error) {
		used = append(used, connection)
		return slowSink{}, nil
	}
	defer delete(sinks, "test")
	file := filepath.Join(t.TempDir(), "connection")
	flags := sinkFlags{to: "test", connection: file}
	if _, err := flags.opener(store.Head{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	testutil.OK(t, os.WriteFile(file, []byte("first\n"), 0o600))
	open, err := flags.opener(store.Head{})
	testutil.OK(t, err)
	for _, text := range []string{"first", "second"} {
		testutil.OK(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		_, err := open(t.Context())
		testutil.OK(t, err)
	}
	if !slices.Equal(used, []string{"first", "second"}) {
		t.Errorf("connected with %v", used)
	}
	testutil.OK(t, os.Remove(file))
	if _, err := open(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once the file is gone: %v", err)
	}
}

// holder is a machine that holds samples.
type holder struct {
	take func(samples.Block, bool) error
}

func (h *holder) TakeSamples(take func(samples.Block, bool) error) { h.take = take }
func (*holder) SayKept(agent.Kept) error                           { return nil }
func (*holder) TakeResults(func(agent.SeatResult) error)           {}
func (*holder) SaySettled(samples.Key) error                       { return nil }
func (*holder) Refuse(error)                                       {}

// slowSink takes longer than there is time.
type slowSink struct{}

func (slowSink) Put(ctx context.Context, _ []samples.Block) error {
	<-ctx.Done()
	return ctx.Err()
}

func (slowSink) Place() string { return "far away" }
func (slowSink) Close() error  { return nil }
