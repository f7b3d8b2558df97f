// Package sinktest is the contract of a samples.Sink, for every kind of it.
package sinktest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Place is where sinks put what they are given.
type Place struct {
	// Open opens a sink for the samples of a run.
	Open func(ctx context.Context, run string) (samples.Sink, error)
	// Kept reads back the data of all blocks of a run, not by way of a sink.
	Kept func(t *testing.T, run string) [][]byte
}

// Run holds a kind of sink to the contract.
func Run(t *testing.T, place Place) {
	open := func(t *testing.T, run string) samples.Sink {
		t.Helper()
		s, err := place.Open(t.Context(), run)
		testutil.OK(t, err)
		t.Cleanup(func() { testutil.OK(t, s.Close()) })
		return s
	}
	holds := func(t *testing.T, run string, want []samples.Block) {
		t.Helper()
		var got []samples.Block
		for _, data := range place.Kept(t, run) {
			b, err := samples.Read(data)
			testutil.OK(t, err)
			got = append(got, b)
		}
		if want = sorted(want); !reflect.DeepEqual(sorted(got), want) {
			t.Fatalf("%d blocks are kept, want %d, each as it was put", len(got), len(want))
		}
	}
	t.Run("same blocks again", func(t *testing.T) {
		s, all := open(t, "again"), blocks(t, "t", 3, 7, 2)
		testutil.OK(t, s.Put(t.Context(), nil))
		testutil.OK(t, s.Put(t.Context(), all[:10]))
		holds(t, "again", all[:10])
		testutil.OK(t, s.Put(t.Context(), all[:10]))
		testutil.OK(t, s.Put(t.Context(), append(slices.Clone(all[5:]), all[3:]...))) // some twice at once
		holds(t, "again", all)
	})
	t.Run("place", func(t *testing.T) {
		place := open(t, "a").Place()
		if other := open(t, "b").Place(); place == "" || other != place {
			t.Errorf("the same place is %q and %q", place, other)
		}
	})
	t.Run("runs and names", func(t *testing.T) {
		// One place has many runs, with the same trials; their names are anybody's.
		for _, run := range []string{"a", "a!t", `a/b\c#d?e'f"g%h`, "ä 名", strings.Repeat("r", 60)} {
			s := open(t, run)
			var all []samples.Block
			for _, trial := range []string{"t", "t!1", `b01/x\#?'";--`, "ö", strings.Repeat("t", 200)} {
				all = append(all, blocks(t, trial, 2, 2, 1)...)
			}
			testutil.OK(t, s.Put(t.Context(), all))
			holds(t, run, all)
		}
	})
	t.Run("many and large", func(t *testing.T) {
		s, all := open(t, "large"), blocks(t, "many", 2, 250, 1)
		for _, b := range blocks(t, "large", 1, 10, 24_000) {
			if len(b.Data) < 3*samples.MaxBlockBytes/5 {
				t.Fatalf("a large block has %d bytes", len(b.Data))
			}
			all = append(all, b)
		}
		testutil.OK(t, s.Put(t.Context(), all))
		holds(t, "large", all)
	})
	t.Run("several at once", func(t *testing.T) {
		all := blocks(t, "t", 5, 40, 1)
		var group sync.WaitGroup
		for i := range 4 {
			s, err := place.Open(t.Context(), "at once")
			testutil.OK(t, err)
			group.Go(func() {
				mine := slices.Clone(all)
				rand.New(rand.NewPCG(7, uint64(i))).Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
				for part := range slices.Chunk(mine, 60) {
					// Those that meet may be refused, never half kept: then they are put again.
					err := s.Put(t.Context(), part)
					for tries := 0; err != nil && tries < 20; tries++ {
						err = s.Put(t.Context(), part)
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		holds(t, "at once", all)
	})
	t.Run("cancelled", func(t *testing.T) {
		s, all := open(t, "cancelled"), blocks(t, "t", 2, 5, 1)
		testutil.OK(t, s.Put(t.Context(), all[:3]))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Put(ctx, all); err == nil {
			t.Error("blocks were put for somebody who left")
		}
		again := open(t, "cancelled")
		testutil.OK(t, again.Put(t.Context(), all))
		holds(t, "cancelled", all)
	})
}

// blocks are those of so many seats and seconds, with so many flows.
func blocks(t *testing.T, trial string, seats, seconds, flows int) (out []samples.Block) {
	t.Helper()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for seat := 1; seat <= seats; seat++ {
		o := samples.NewOutbox(coder, 1<<30)
		testutil.OK(t, o.Acknowledge(0, 1<<30))
		for second := range seconds {
			all := make([]samples.Sample, flows)
			for i := range all {
				all[i] = samples.Sample{At: time.Duration(second) * time.Second, Flow: i + 1, Bytes: random.Int64N(1 << 40), RTT: time.Duration(random.Int64N(1 << 30)), Retransmits: random.Int64N(1 << 40)}
			}
			testutil.OK(t, o.Add(trial, seat, 1, time.Second, all))
			for b, ok := o.Next(); ok; b, ok = o.Next() {
				out = append(out, b)
			}
		}
	}
	return out
}

func sorted(blocks []samples.Block) []samples.Block {
	return slices.SortedFunc(slices.Values(blocks), func(a, b samples.Block) int {
		return cmp.Or(strings.Compare(a.Trial, b.Trial), cmp.Compare(a.Seat, b.Seat), cmp.Compare(a.Seq, b.Seq))
	})
}
