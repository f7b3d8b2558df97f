package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/watch"
)

func watchHead() watch.Head {
	return watch.Head{Name: "n", Target: "192.0.2.7", Begun: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rules: watch.Rules{Every: 900, Series: 1, FalseAlarmsPerYear: 0.2}}
}

func watchRound(number int64) watch.Round {
	return watch.Round{Number: number, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(number) * time.Minute),
		Points: []watch.Point{{Series: watch.Series{Test: "latency", Metric: "rtt_p50_seconds"}, Value: 1e-3}}, Route: []string{strings.Repeat("10.0.0.1 ", 20)}}
}

// roundsOf reads the rounds that are kept, which have to be the first ones.
func roundsOf(dir string) (int64, error) {
	w, _, err := store.OpenWatch(dir)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	rounds, missing, err := w.Rounds(background)
	if missing != (store.Missing{}) {
		return 0, fmt.Errorf("missing: %+v", missing)
	}
	for i, r := range rounds {
		if r.Number != int64(i+1) {
			return 0, fmt.Errorf("round %d is kept at place %d", r.Number, i+1)
		}
	}
	return int64(len(rounds)), err
}

func TestAWatchIsOfOneProcessAndOneSubject(t *testing.T) {
	dir := t.TempDir()
	w, _, err := store.TakeUpWatch(dir, watchHead())
	testutil.OK(t, err)
	if _, _, err := store.TakeUpWatch(dir, watchHead()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("a second watch: %v, want ErrBusy", err)
	}
	testutil.OK(t, w.Put(t.Context(), watchRound(1), []watch.Event{{Code: watch.RouteChanged, Round: 1}}))
	if n, err := roundsOf(dir); n != 1 || err != nil {
		t.Errorf("while it goes on: %d rounds, %v", n, err)
	}
	if err := w.Put(t.Context(), watchRound(1), nil); err == nil {
		t.Error("a round is kept twice")
	}
	testutil.OK(t, w.Close())
	other := watchHead()
	other.Target = "192.0.2.8"
	if _, _, err := store.TakeUpWatch(dir, other); err == nil || !strings.Contains(err.Error(), "192.0.2.7") {
		t.Errorf("a watch of something else: %v", err)
	}
	other = watchHead()
	other.Subject = "b"
	if w, _, err := store.TakeUpWatch(dir, other); err != nil { // begun by a hopbench that did not keep it
		t.Error(err)
	} else {
		testutil.OK(t, w.Close())
	}
	other = watchHead()
	other.Rules.Every = 60
	if _, _, err := store.TakeUpWatch(dir, other); err == nil || !strings.Contains(err.Error(), "--every") {
		t.Errorf("a watch with other rules: %v", err)
	}
	for _, c := range []struct {
		began, now []string
		refused    bool
	}{
		{[]string{"latency"}, []string{"latency"}, false},
		{[]string{"latency"}, []string{"datagrams", "send", "receive"}, true}, // as many series
		{nil, []string{"latency"}, false},                                     // begun by a hopbench that did not keep them
	} {
		dir, head := t.TempDir(), watchHead()
		head.Rules.Tests, head.Target = c.began, "no UTF-8 \xff\xfe.yaml"
		w, _, err := store.TakeUpWatch(dir, head)
		testutil.OK(t, err)
		testutil.OK(t, w.Close())
		head.Rules.Tests = c.now
		w, _, err = store.TakeUpWatch(dir, head)
		if err == nil {
			testutil.OK(t, w.Close())
		}
		if (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "began with other tests") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	later := watchHead()
	later.Begun = time.Now()
	w, head, err := store.TakeUpWatch(dir, later)
	testutil.OK(t, err)
	defer w.Close()
	if !head.Begun.Equal(watchHead().Begun) {
		t.Errorf("it began at %v", head.Begun)
	}
	if events, _, err := w.Announced(t.Context()); err != nil || len(events) != 1 || events[0].Code != watch.RouteChanged {
		t.Errorf("announced: %+v, %v", events, err)
	}
}

func TestWhatIsNoWatch(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := store.OpenWatch(dir); !errors.Is(err, store.ErrNoWatch) {
		t.Errorf("an empty folder: %v", err)
	}
	file := filepath.Join(dir, store.WatchFileName)
	testutil.OK(t, os.WriteFile(file, []byte(strings.Repeat("this is no database ", 100)), 0o644))
	if _, _, err := store.TakeUpWatch(dir, watchHead()); err == nil || errors.Is(err, store.ErrNoWatch) {
		t.Errorf("a file of something else: %v", err)
	}
}

// What a damaged file does not give back of a watch is left out and counted, and its number is
// not given to another round.
func TestDamagedWatch(t *testing.T) {
	const rounds = 60
	for what, c := range map[string]struct {
		damage  func(t *testing.T, file string)
		missing store.Missing // Count is 0 where SQLite decides how many share a page
		closed  bool          // no round can be added
	}{
		"a document": {damage: func(t *testing.T, file string) {
			changed(t, file, "UPDATE round SET json = replace(json, '{', '[') WHERE number = 5; UPDATE announced SET json = '' WHERE id = 1")
		}, missing: store.Missing{Count: 1}},
		"the newest document": {damage: func(t *testing.T, file string) {
			changed(t, file, "UPDATE round SET json = substr(json, 1, 40) WHERE number = 60")
		}, missing: store.Missing{Count: 1}},
		"a page": {damage: func(t *testing.T, file string) { clearPage(t, file, `{"round":17,`) }},
		"the end of the file": {damage: func(t *testing.T, file string) {
			info, err := os.Stat(file)
			testutil.OK(t, err)
			testutil.OK(t, os.Truncate(file, info.Size()/2))
		}, missing: store.Missing{More: true}, closed: true},
	} {
		dir := t.TempDir()
		w, _, err := store.TakeUpWatch(dir, watchHead())
		testutil.OK(t, err)
		for n := range int64(rounds) {
			testutil.OK(t, w.Put(t.Context(), watchRound(n+1), []watch.Event{{Code: watch.RouteChanged, Round: n + 1}}))
		}
		testutil.OK(t, w.Close())
		c.damage(t, filepath.Join(dir, store.WatchFileName))
		w, _, err = store.OpenWatch(dir)
		testutil.OK(t, err)
		all, missing, err := w.Rounds(t.Context())
		if err != nil || len(all) == 0 || len(all) == rounds || missing.More != c.missing.More || c.missing.Count > 0 && missing != c.missing || !missing.More && len(all)+missing.Count != rounds {
			t.Errorf("%s: %d rounds, missing %+v, %v", what, len(all), missing, err)
		}
		if newest, err := w.Newest(t.Context()); (err != nil) != c.closed || err == nil && newest != rounds {
			t.Errorf("%s: the newest is %d, %v", what, newest, err)
		}
		_, unheard, err := w.Announced(t.Context())
		if err != nil || what == "a document" && unheard != c.missing {
			t.Errorf("%s: announcements missing: %+v, %v", what, unheard, err)
		}
		testutil.OK(t, w.Close())
	}
}

// A number that the damage left there does not have each before it looked for.
func TestWatchOfAWrongNumber(t *testing.T) {
	dir := t.TempDir()
	w, _, err := store.TakeUpWatch(dir, watchHead())
	testutil.OK(t, err)
	testutil.OK(t, w.Put(t.Context(), watchRound(1), nil))
	testutil.OK(t, w.Close())
	changed(t, filepath.Join(dir, store.WatchFileName), "INSERT INTO round (number, json) VALUES (1 << 60, '{')")
	w, _, err = store.OpenWatch(dir)
	testutil.OK(t, err)
	if all, missing, err := w.Rounds(t.Context()); err != nil || len(all) != 1 || missing != (store.Missing{More: true}) {
		t.Errorf("%d rounds, missing %+v, %v", len(all), missing, err)
	}
	testutil.OK(t, w.Close())
}

// A round that a damaged file does not take is not said to lack room on the disk.
func TestPutIntoADamagedWatch(t *testing.T) {
	dir := t.TempDir()
	put := func(numbers ...int64) (err error) {
		w, _, err := store.TakeUpWatch(dir, watchHead())
		testutil.OK(t, err)
		for _, n := range numbers {
			err = errors.Join(err, w.Put(t.Context(), watchRound(n), nil))
		}
		return errors.Join(err, w.Close())
	}
	testutil.OK(t, put(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20))
	clearPage(t, filepath.Join(dir, store.WatchFileName), `{"round":20,`)
	if err := put(21); err == nil || !strings.Contains(err.Error(), "a part of the file was lost") || strings.Contains(err.Error(), "full") {
		t.Error(err)
	}
}

// keepRounds keeps rounds, and says so of each, until it is killed.
func keepRounds(dir string) error {
	w, _, err := store.TakeUpWatch(dir, watchHead())
	if err != nil {
		return err
	}
	done, _, err := w.Rounds(background)
	if err != nil {
		return err
	}
	for n := int64(len(done)) + 1; ; n++ {
		if err := w.Put(background, watchRound(n), nil); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A watch that is killed loses at most the round under way, and goes on.
func TestKilledWatch(t *testing.T) {
	dir := t.TempDir()
	said := int64(0)
	for kill := range testutil.Repeat(5, 30) {
		c := helper(t, "watch", dir)
		out, err := c.StdoutPipe()
		testutil.OK(t, err)
		testutil.OK(t, c.Start())
		lines := bufio.NewScanner(out)
		for range 1 + 7*kill%23 {
			if !lines.Scan() {
				t.Fatal("it ended by itself")
			}
			_, err := fmt.Sscan(lines.Text(), &said)
			testutil.OK(t, err)
		}
		testutil.OK(t, c.Process.Kill())
		for lines.Scan() { // what it said before it was dead
			_, _ = fmt.Sscan(lines.Text(), &said)
		}
		_ = c.Wait() // it was killed
		kept, err := roundsOf(dir)
		testutil.OK(t, err)
		if kept < said || kept > said+1 {
			t.Fatalf("%d rounds are kept, and %d were said to be", kept, said)
		}
	}
}

// fillWithRounds watches on a small disk until it is full, and then on a larger one.
func fillWithRounds(disk string) error {
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=128k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	dir := filepath.Join(disk, "watch")
	st, head, err := store.TakeUpWatch(dir, watchHead())
	if err != nil {
		return err
	}
	head.Rules.Every = 0.001 // the cadence of this test alone
	ctx, stop := context.WithCancel(background)
	defer stop()
	full, works := make(chan watch.Event, 1), make(chan watch.Event, 1)
	after := 0 // rounds since it works
	w := watch.New(watch.Options{
		Head: head, Keeper: st,
		Measure: func(context.Context, func(string) bool) (watch.Round, error) { return watchRound(0), nil },
		Announce: func(e watch.Event) {
			switch e.Code {
			case watch.StoreFailed:
				full <- e
			case watch.StoreWorks:
				works <- e
			case watch.RoundEnded:
				if len(works) > 0 {
					if after++; after == 5 {
						stop()
					}
				}
			}
		},
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	select {
	case e := <-full:
		if !strings.Contains(e.Text, "full") {
			return fmt.Errorf("%q does not say that the disk is full", e.Text)
		}
	case err := <-done:
		return fmt.Errorf("it ended: %w", err)
	}
	kept, err := roundsOf(dir)
	if err != nil || kept == 0 {
		return fmt.Errorf("%d rounds on the full disk: %w", kept, err)
	}
	if err := enlarge(disk); err != nil {
		return err
	}
	if err := errors.Join(<-done, st.Close()); err != nil {
		return err
	}
	all, err := roundsOf(dir)
	if err != nil || all != w.State().Rounds || all <= kept {
		return fmt.Errorf("%d of %d rounds in the end, %d of them from before: %w", all, w.State().Rounds, kept, err)
	}
	if e := <-works; e.Rounds < 1 {
		return fmt.Errorf("%+v of rounds that waited", e)
	}
	return nil
}

// A folder that is moved away keeps rounds out, says so, and takes them once it is back.
func TestAWatchWhoseFolderIsMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "watch")
	w, _, err := store.TakeUpWatch(dir, watchHead())
	testutil.OK(t, err)
	defer w.Close()
	testutil.OK(t, w.Put(t.Context(), watchRound(1), nil))
	testutil.OK(t, os.Rename(dir, dir+"-moved"))
	if err := w.Put(t.Context(), watchRound(2), nil); err == nil || !strings.Contains(err.Error(), "was the file moved") {
		t.Errorf("while it is away: %v", err)
	}
	testutil.OK(t, os.Rename(dir+"-moved", dir))
	testutil.OK(t, w.Put(t.Context(), watchRound(2), nil))
	if n, err := roundsOf(dir); n != 2 || err != nil {
		t.Errorf("%d rounds, %v", n, err)
	}
}
