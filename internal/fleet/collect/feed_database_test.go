package collect

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/testutil"
)

// book is a table, and what places have of it.
type book struct {
	mu     sync.Mutex
	blocks []samples.Block
	fed    map[string]int64
	broken error // of SetFed
}

func (b *book) add(seqs ...int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range seqs {
		b.blocks = append(b.blocks, samples.Block{Header: samples.Header{Key: samples.Key{Trial: "t", Seat: 1, Attempt: 1, Seq: seq}}, Data: make([]byte, 10)})
	}
}

func (b *book) SamplesAfter(_ context.Context, position int64, bytes int) ([]samples.Block, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := min(position+int64(bytes/10), int64(len(b.blocks)))
	return slices.Clone(b.blocks[position:end]), end, nil
}

func (b *book) Fed(_ context.Context, place string) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fed[place], nil
}

func (b *book) SetFed(_ context.Context, place string, position int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return b.broken
	}
	b.fed[place] = position
	return nil
}

// shelf is a sink that is opened again after an error.
type shelf struct {
	mu     sync.Mutex
	seqs   []int64 // of what was put, in order
	broken error
	opened int
	open   int
}

func (s *shelf) set(broken error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

func (s *shelf) Open(context.Context) (samples.Sink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	s.opened++
	s.open++
	return s, nil
}

func (s *shelf) Put(_ context.Context, blocks []samples.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	for _, b := range blocks {
		s.seqs = append(s.seqs, b.Seq)
	}
	return nil
}

func (s *shelf) Place() string { return "a shelf" }

func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return nil
}

func (s *shelf) holds(t *testing.T, want ...int64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.seqs, want) {
		t.Errorf("the sink has %v, want %v", s.seqs, want)
	}
}

// What is on the disk gets into the sink while a run goes on, each once; a sink that is away
// for a while delays nothing and gets the rest, and a restart goes on where it was.
func TestFeed(t *testing.T) {
	table, sink := &book{fed: map[string]int64{}}, &shelf{}
	table.add(1, 2, 3)
	states := make(chan error, 8)
	options := FeedOptions{Table: table, Open: sink.Open, OnState: func(err error) { states <- err }, Every: time.Millisecond, Bytes: 20}
	f, err := Feed(t.Context(), options)
	testutil.OK(t, err)
	testutil.OK(t, f.Drain(t.Context()))
	sink.holds(t, 1, 2, 3)
	away := errors.New("nobody is there")
	sink.set(away)
	table.add(4, 5)
	if err := <-states; !errors.Is(err, away) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Drain(ctx); err == nil || !strings.Contains(err.Error(), "a shelf does not have all samples yet") {
		t.Error(err)
	}
	table.add(6)
	sink.set(nil)
	if err := <-states; err != nil {
		t.Error(err)
	}
	testutil.OK(t, f.Drain(t.Context()))
	sink.holds(t, 1, 2, 3, 4, 5, 6)
	testutil.OK(t, f.Close())
	table.add(7)
	f, err = Feed(t.Context(), options)
	testutil.OK(t, err)
	testutil.OK(t, f.Drain(t.Context()))
	sink.holds(t, 1, 2, 3, 4, 5, 6, 7)
	// What could not be written down is put again.
	table.mu.Lock()
	table.broken = errors.New("the disk is full")
	table.mu.Unlock()
	table.add(8)
	if err := <-states; err == nil {
		t.Error("a disk that is full is passed over")
	}
	table.mu.Lock()
	table.broken = nil
	table.mu.Unlock()
	testutil.OK(t, f.Drain(t.Context()))
	testutil.OK(t, f.Close())
	if n := len(sink.seqs); n < 9 || sink.seqs[n-1] != 8 || sink.opened != 3 || sink.open != 0 {
		t.Errorf("the sink has %v; %d times opened, %d open", sink.seqs, sink.opened, sink.open)
	}
	sink.set(away)
	if _, err := Feed(t.Context(), options); !errors.Is(err, away) {
		t.Errorf("a sink that cannot be opened: %v", err)
	}
}

// otherShelf is another place.
type otherShelf struct{ *shelf }

func (otherShelf) Place() string { return "another shelf" }

// What comes after the first blocks is not put where those are not.
func TestFeedOfAnotherPlace(t *testing.T) {
	table, sink := &book{fed: map[string]int64{}}, &shelf{}
	other := otherShelf{&shelf{open: 1}}
	states := make(chan error, 8)
	places := make(chan samples.Sink, 2)
	places <- sink
	places <- other
	open := func(context.Context) (samples.Sink, error) { return <-places, nil }
	f, err := Feed(t.Context(), FeedOptions{Table: table, Open: open, OnState: func(err error) { states <- err }, Every: time.Millisecond})
	testutil.OK(t, err)
	sink.set(errors.New("nobody is there"))
	table.add(1)
	if err := <-states; err == nil {
		t.Error("a sink that is away is passed over")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for closed := false; !closed && ctx.Err() == nil; runtime.Gosched() {
		other.mu.Lock()
		closed = other.open == 0
		other.mu.Unlock()
	}
	other.holds(t)
	sink.set(nil)
	places <- sink
	if err := <-states; err != nil {
		t.Error(err)
	}
	testutil.OK(t, f.Drain(t.Context()))
	testutil.OK(t, f.Close())
	sink.holds(t, 1)
}

// slowShelf takes a second for each block.
type slowShelf struct{ shelf }

func (s *slowShelf) Open(context.Context) (samples.Sink, error) { return s, nil }

func (s *slowShelf) Put(ctx context.Context, blocks []samples.Block) error {
	select {
	case <-time.After(time.Duration(len(blocks)) * time.Second):
		return s.shelf.Put(ctx, blocks)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A sink that takes longer for what is put at a time than it may gets less at a time.
func TestFeedSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, sink := &book{fed: map[string]int64{}}, &slowShelf{}
		var want []int64
		for seq := range int64(200) {
			want = append(want, seq+1)
		}
		table.add(want...)
		var why error
		f, err := Feed(t.Context(), FeedOptions{Table: table, Open: sink.Open, Bytes: 1500, OnState: func(err error) {
			if err != nil {
				why = err
			}
		}})
		testutil.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		testutil.OK(t, f.Drain(ctx))
		testutil.OK(t, f.Close())
		sink.holds(t, want...)
		if why == nil || !strings.Contains(why.Error(), "it takes longer than 1m0s") {
			t.Error(why)
		}
	})
}
