package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// fedBytes are put at a time by feedSamples, of blocks of some 70 bytes.
const fedBytes = 4096

// drawer is a sink: a folder with a file for each block, and a list of what was put.
type drawer struct {
	dir    string
	random *rand.Rand
}

func (d drawer) Put(_ context.Context, blocks []samples.Block) error {
	puts, err := os.OpenFile(filepath.Join(d.dir, "puts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer puts.Close()
	for _, b := range blocks {
		if d.random.IntN(150) == 0 {
			_, err := fmt.Fprintln(puts, "away")
			return errors.Join(errors.New("the network is away"), err)
		}
		name := filepath.Join(d.dir, fmt.Sprintf("%s-%d-%d-%d", b.Trial, b.Attempt, b.Seat, b.Seq))
		if err := os.WriteFile(name+".tmp", b.Data, 0o666); err != nil {
			return err
		}
		if err := os.Rename(name+".tmp", name); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(puts, name); err != nil {
			return err
		}
	}
	return nil
}

func (d drawer) Place() string { return "a drawer" }
func (d drawer) Close() error  { return nil }

// feedSamples keeps samples of all agents in dir/run, as one that starts again does, and
// feeds them to the sink in dir/sink meanwhile.
func feedSamples(dir string) error {
	run := filepath.Join(dir, "run")
	s, err := store.Create(run, head())
	if err != nil {
		if s, err = store.Resume(run); err != nil {
			return err
		}
	}
	random := rand.New(rand.NewPCG(23, uint64(time.Now().UnixNano())))
	f, err := collect.Feed(background, collect.FeedOptions{
		Table: s, Every: time.Millisecond, Bytes: fedBytes,
		Open: func(context.Context) (samples.Sink, error) { return drawer{filepath.Join(dir, "sink"), random}, nil },
	})
	if err != nil {
		return err
	}
	all, err := agents()
	if err != nil {
		return err
	}
	for range sampleSeconds / 2 {
		if err := put(s, all, 2); err != nil {
			return err
		}
		fmt.Println()
	}
	return errors.Join(f.Drain(background), f.Close(), s.Close())
}

// TestKilledWhileItFeeds kills a coordinator that feeds a sink, which fails now and then, at
// random moments, again and again. In the end the sink has all blocks, each as it was kept;
// and no more were put again than an error or a kill leaves open.
func TestKilledWhileItFeeds(t *testing.T) {
	for try := range testutil.Repeat(1, 40) {
		random := rand.New(rand.NewPCG(17, uint64(try)))
		dir := t.TempDir()
		sink := filepath.Join(dir, "sink")
		testutil.OK(t, os.Mkdir(sink, 0o777))
		begun := 0
		for kills := 3; ; kills-- {
			c := helper(t, "feed", dir)
			out, err := c.StdoutPipe()
			testutil.OK(t, err)
			var complaint bytes.Buffer
			c.Stderr = &complaint
			testutil.OK(t, c.Start())
			begun++
			if kills > 0 {
				// Some of the way; the pipe ends early where it was through before that.
				_, _ = io.CopyN(io.Discard, out, random.Int64N(sampleSeconds/2))
				testutil.OK(t, c.Process.Kill())
			}
			_, _ = io.Copy(io.Discard, out)
			err = c.Wait()
			if kills == 0 {
				if err != nil {
					t.Fatalf("try %d: %v: %s", try, err, complaint.Bytes())
				}
				break
			}
		}
		s, err := store.Open(filepath.Join(dir, "run"))
		testutil.OK(t, err)
		blocks, err := kept(s, "t")
		testutil.OK(t, errors.Join(err, s.Close()))
		if len(blocks) != sampleSeats*sampleSeconds {
			t.Fatalf("try %d: %d blocks are kept", try, len(blocks))
		}
		shortest := samples.MaxBlockBytes
		for _, b := range blocks {
			shortest = min(shortest, len(b.Data))
			data, err := os.ReadFile(filepath.Join(sink, fmt.Sprintf("t-%d-%d-%d", b.Attempt, b.Seat, b.Seq)))
			if err != nil || !bytes.Equal(data, b.Data) {
				t.Fatalf("try %d: block %+v in the sink: %v", try, b.Key, err)
			}
		}
		puts, err := os.ReadFile(filepath.Join(sink, "puts"))
		testutil.OK(t, err)
		errs := strings.Count(string(puts), "away\n")
		again, batch := strings.Count(string(puts), "\n")-errs-len(blocks), fedBytes/shortest+1
		if again > batch*(begun+errs) {
			t.Errorf("try %d: %d blocks were put again in %d starts and after %d errors: it does not go on where it was", try, again, begun, errs)
		}
		t.Logf("try %d: %d blocks were put again in %d starts and after %d errors", try, again, begun, errs)
	}
}
