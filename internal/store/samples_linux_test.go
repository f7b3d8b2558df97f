package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// sampleSeats send writeSamples theirs, for sampleSeconds.
const (
	sampleSeats   = 5
	sampleSeconds = 400
)

// agents are the outboxes of all seats.
func agents() (all []*samples.Outbox, err error) {
	for seat := 1; seat <= sampleSeats; seat++ {
		o, err := outbox("t", seat, 1, sampleSeconds)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// put has every agent send so many blocks, and keeps them.
func put(s *store.Store, agents []*samples.Outbox, most int) error {
	var blocks []samples.Block
	for _, o := range agents {
		blocks = append(blocks, sent(o, most)...)
	}
	return s.PutSamples(background, blocks)
}

// writeSamples keeps samples, and says on standard output what may be acknowledged.
func writeSamples(dir string) error {
	s, err := store.Create(dir, head())
	if err != nil {
		return err
	}
	all, err := agents()
	if err != nil {
		return err
	}
	for stored := 0; stored < sampleSeconds; {
		if err := put(s, all, 2); err != nil {
			return err
		}
		stored += 2
		fmt.Println(stored)
	}
	return s.Close()
}

// TestKilledWhileItKeepsSamples kills a coordinator at random moments. What it had
// acknowledged is there, second by second for all seats alike; agents send the rest
// again and nothing is doubled.
func TestKilledWhileItKeepsSamples(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 4))
	torn := 0
	for try := range testutil.Repeat(4, 60) {
		after, spin := random.IntN(sampleSeconds/2-20), random.IntN(10_000)
		dir := runIn(t)
		c := helper(t, "samples", dir)
		out, err := c.StdoutPipe()
		testutil.OK(t, err)
		testutil.OK(t, c.Start())
		lines := bufio.NewScanner(out)
		said := int64(0)
		for lines.Scan() {
			said, err = strconv.ParseInt(lines.Text(), 10, 64)
			testutil.OK(t, err)
			if after--; after == 0 {
				for range spin { // less than a transaction takes
					runtime.Gosched()
				}
				testutil.OK(t, c.Process.Kill())
			}
		}
		_ = c.Wait()
		stored, err := everything(dir, sampleSeats, said)
		if err != nil {
			t.Fatalf("try %d: %v", try, err)
		}
		if stored > said {
			torn++ // on the disk, and nobody was told
		}
		// The agents begin with what was not acknowledged.
		s, err := store.Resume(dir)
		testutil.OK(t, err)
		all, err := agents()
		testutil.OK(t, err)
		for _, o := range all {
			sent(o, int(said))
			testutil.OK(t, o.Acknowledge(said, 1<<30))
		}
		testutil.OK(t, put(s, all, sampleSeconds))
		testutil.OK(t, s.Close())
		if stored, err := everything(dir, sampleSeats, sampleSeconds); err != nil || stored != sampleSeconds {
			t.Fatalf("try %d, gone on after %d s: %d s, %v", try, said, stored, err)
		}
	}
	t.Logf("%d times more was stored than acknowledged", torn)
}

// fillSamples keeps samples until a small disk is full, then makes it larger.
func fillSamples(dir string) error {
	for pages := 20; pages <= 60; pages += 8 {
		if err := onDisk(dir, pages, func() error { return fillWithSamples(dir) }); err != nil {
			return err
		}
	}
	return nil
}

func fillWithSamples(disk string) error {
	dir := filepath.Join(disk, "run")
	s, err := store.Create(dir, head())
	if err != nil {
		return err
	}
	all, err := agents()
	if err != nil {
		return err
	}
	acknowledged := int64(0)
	for {
		err := put(s, all, 1)
		if err != nil {
			if !strings.Contains(err.Error(), "full") {
				return fmt.Errorf("%w, want it to say that the disk is full", err)
			}
			break
		}
		if acknowledged++; acknowledged == sampleSeconds {
			return errors.New("a small disk never gets full")
		}
	}
	// Nothing more is acknowledged, and what was is there.
	if stored, err := everything(dir, sampleSeats, acknowledged); err != nil || stored != acknowledged {
		return fmt.Errorf("%d s of %d are there: %w", stored, acknowledged, err)
	}
	for _, o := range all {
		if err := o.Acknowledge(acknowledged, 1<<30); err != nil {
			return err
		}
		o.Reconnected()
		if err := o.Acknowledge(acknowledged, 1<<30); err != nil {
			return err
		}
	}
	if err := enlarge(disk); err != nil {
		return err
	}
	if err := errors.Join(put(s, all, sampleSeconds), s.Close()); err != nil {
		return err
	}
	stored, err := everything(dir, sampleSeats, sampleSeconds)
	if err == nil && stored != sampleSeconds {
		err = fmt.Errorf("%d s in the end", stored)
	}
	return err
}
