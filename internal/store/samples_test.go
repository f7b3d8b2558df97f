package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// outbox is one of an agent with so many seconds of samples, and credit for all.
func outbox(trial string, seat, attempt, seconds int) (*samples.Outbox, error) {
	coder, err := samples.NewCoder()
	if err != nil {
		return nil, err
	}
	o := samples.NewOutbox(coder, 1<<30)
	for second := range seconds {
		var all []samples.Sample
		for flow := 1; flow <= 4; flow++ {
			all = append(all, samples.Sample{At: time.Duration(second) * time.Second, Flow: flow, Bytes: int64(second*seat*1000 + flow), RTT: time.Millisecond})
		}
		if err := o.Add(trial, seat, attempt, time.Second, all); err != nil {
			return nil, err
		}
	}
	return o, o.Acknowledge(0, 1<<30)
}

// sent is what an Outbox sends next, at most so many blocks.
func sent(o *samples.Outbox, most int) (out []samples.Block) {
	for len(out) < most {
		b, ok := o.Next()
		if !ok {
			return out
		}
		out = append(out, b)
	}
	return out
}

// kept are the blocks of a trial's last attempt.
func kept(s *store.Store, trial string) (out []samples.Block, err error) {
	for b, err := range s.Samples(background, trial) {
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func TestSamplesAreKeptOnce(t *testing.T) {
	s, err := store.Create(t.TempDir(), head())
	testutil.OK(t, err)
	defer s.Close()
	if got, err := kept(s, "t"); err != nil || got != nil {
		t.Errorf("before there were any: %v, %v", got, err)
	}
	var blocks []samples.Block
	for seat := 1; seat <= 2; seat++ {
		o, err := outbox("t", seat, 1, 3)
		testutil.OK(t, err)
		blocks = append(blocks, sent(o, 10)...)
	}
	other, err := outbox("u", 1, 1, 1)
	testutil.OK(t, err)
	testutil.OK(t, s.PutSamples(t.Context(), append(sent(other, 10), blocks[:4]...)))
	testutil.OK(t, s.PutSamples(t.Context(), blocks[2:])) // some of them again
	want := []samples.Block{blocks[0], blocks[3], blocks[1], blocks[4], blocks[2], blocks[5]}
	if got, err := kept(s, "t"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d blocks, %v; want %d, second by second", len(got), err, len(want))
	}
	// Of another content, the first stays.
	changed, err := outbox("t", 1, 1, 9)
	testutil.OK(t, err)
	sent(changed, 2)
	third := sent(changed, 1)[0]
	third.Data[len(third.Data)-1]++
	testutil.OK(t, s.PutSamples(t.Context(), []samples.Block{third}))
	if got, err := kept(s, "t"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a block was replaced (%v)", err)
	}
	// A trial that was done again is its last attempt.
	again, err := outbox("t", 2, 2, 1)
	testutil.OK(t, err)
	second := sent(again, 1)
	testutil.OK(t, s.PutSamples(t.Context(), second))
	if got, err := kept(s, "t"); err != nil || !reflect.DeepEqual(got, second) {
		t.Errorf("%d blocks of the second attempt, %v", len(got), err)
	}
	// So it is where that brought none.
	for range 3 {
		_, err := s.BeginAttempt(t.Context(), "t", []string{"a", "b"})
		testutil.OK(t, err)
	}
	if got, err := kept(s, "t"); err != nil || got != nil {
		t.Errorf("%d blocks of an attempt without any, %v", len(got), err)
	}
	// All or none.
	ctx := cancelled(t)
	if err := s.PutSamples(ctx, sent(changed, 3)); err == nil {
		t.Error("samples were stored for somebody who left")
	}
	if got, err := kept(s, "u"); err != nil || len(got) != 1 {
		t.Errorf("the other trial has %d blocks, %v", len(got), err)
	}
}

// Each time that a trial begins is an attempt of its own, and its agents may send its
// samples.
func TestAttempts(t *testing.T) {
	s, err := store.Create(t.TempDir(), head())
	testutil.OK(t, err)
	defer s.Close()
	assigned := func(agent, trial string, seat, attempt int) bool {
		is, err := s.Assigned(t.Context(), agent, samples.Key{Trial: trial, Seat: seat, Attempt: attempt})
		testutil.OK(t, err)
		return is
	}
	if assigned("a", "t", 1, 1) {
		t.Error("nobody began anything")
	}
	for want, agents := range [][]string{{"a", "b"}, {"b", "a"}} {
		got, err := s.BeginAttempt(t.Context(), "t", agents)
		if err != nil || got != want+1 {
			t.Errorf("attempt %d, %v, want %d", got, err, want+1)
		}
	}
	if got, err := s.BeginAttempt(t.Context(), "u", []string{"a"}); err != nil || got != 1 {
		t.Errorf("another trial: attempt %d, %v", got, err)
	}
	for _, c := range []struct {
		agent, trial  string
		seat, attempt int
		want          bool
	}{{"a", "t", 1, 1, true}, {"b", "t", 2, 1, true}, {"a", "t", 2, 2, true}, {"a", "t", 1, 2, false}, {"b", "u", 1, 1, false}, {"a", "t", 1, 3, false}} {
		if got := assigned(c.agent, c.trial, c.seat, c.attempt); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if _, err := s.BeginAttempt(cancelled(t), "t", []string{"a"}); err == nil || assigned("a", "t", 1, 3) {
		t.Errorf("an attempt of somebody who left: %v", err)
	}
}

// What was changed on the disk is an error and no sample.
func TestDamagedSamples(t *testing.T) {
	const table = "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT; INSERT INTO head VALUES (1, '{}');" +
		"CREATE TABLE trial (id TEXT PRIMARY KEY, order_index INTEGER NOT NULL, start_utc TEXT NOT NULL, json TEXT NOT NULL) STRICT; PRAGMA user_version = 2;" +
		"CREATE TABLE sample (trial TEXT NOT NULL, seq INTEGER NOT NULL, seat INTEGER NOT NULL, attempt INTEGER NOT NULL, from_ns INTEGER NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (trial, seq, seat, attempt)) STRICT, WITHOUT ROWID;"
	o, err := outbox("t", 1, 1, 1)
	testutil.OK(t, err)
	data := sent(o, 1)[0].Data
	for name, row := range map[string]string{
		"another seat": fmt.Sprintf("('t', 1, 2, 1, 0, 4, x'%x')", data),
		"cut":          fmt.Sprintf("('t', 1, 1, 1, 0, 4, x'%x')", data[:len(data)-1]),
		"empty":        "('t', 1, 1, 1, 0, 4, x'')",
	} {
		s, err := store.Open(database(t, table, "INSERT INTO sample VALUES "+row))
		testutil.OK(t, err)
		if got, err := kept(s, "t"); err == nil || !strings.Contains(err.Error(), "samples of trial t") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		testutil.OK(t, s.Close())
	}
}

// everything holds that a run has the first seconds of samples of all seats, at least as
// many as were acknowledged, and none twice or half.
func everything(dir string, seats int, acknowledged int64) (seconds int64, err error) {
	s, err := store.Open(dir)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	blocks, err := kept(s, "t")
	if err != nil {
		return 0, err
	}
	next := map[int]int64{}
	for _, b := range blocks {
		if next[b.Seat]++; b.Seq != next[b.Seat] {
			return 0, fmt.Errorf("block %d of seat %d is kept where block %d belongs", b.Seq, b.Seat, next[b.Seat])
		}
	}
	for seat := 1; seat <= seats; seat++ {
		seconds = next[1]
		if next[seat] != seconds || seconds < acknowledged {
			return 0, fmt.Errorf("%d blocks of seat %d are kept, %d of seat 1, and %d were acknowledged", next[seat], seat, seconds, acknowledged)
		}
	}
	return seconds, nil
}

func runIn(t *testing.T) string { return filepath.Join(t.TempDir(), "run") }

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
