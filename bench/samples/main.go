// Command samples prints how fast the samples of a fleet get to the disk: simulated
// agents pack a block a second each, and one transaction a second keeps them all, with
// full synchronisation, as a coordinator does. Every block is checked at the end. Then
// the run is exported, or shown on a page.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/export"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
)

func main() {
	b := bench{}
	flag.IntVar(&b.agents, "agents", 10_000, "how many agents send")
	flag.IntVar(&b.flows, "flows", 10, "how many flows each has")
	flag.DurationVar(&b.step, "step", 100*time.Millisecond, "over how long a sample is")
	flag.IntVar(&b.seconds, "seconds", 20, "how many seconds of a test they send, as fast as they are kept")
	flag.BoolVar(&b.export, "export", false, "export the run, too")
	flag.StringVar(&b.page, "page", "", "write the page of the run into this file, too")
	dir := flag.String("dir", "", "where the run is kept meanwhile (default the folder for temporary files)")
	flag.Parse()
	if b.agents < 1 || b.flows < 1 || b.seconds < 1 || b.step <= 0 || b.step > time.Second {
		fmt.Fprintln(os.Stderr, "samples: at least one agent, flow and second are needed, and a step of at most 1s")
		os.Exit(2)
	}
	if err := b.run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

type bench struct {
	agents, flows, seconds int
	step                   time.Duration
	export                 bool
	page                   string // file
	coder                  *samples.Coder
	boxes                  []*samples.Outbox
}

// trial is the one that the agents take part in.
const trial = "b01-hopped-flows-64"

func (b *bench) run(ctx context.Context, dir string) (err error) {
	if b.coder, err = samples.NewCoder(); err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "hopbench-samples-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st, err := store.Create(filepath.Join(dir, "run"), store.Head{Name: "samples"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	b.boxes = make([]*samples.Outbox, b.agents)
	for i := range b.boxes {
		b.boxes[i] = samples.NewOutbox(b.coder, 64<<20)
		if err := b.boxes[i].Acknowledge(0, 1<<20); err != nil {
			return err
		}
	}
	if _, err := st.BeginAttempt(ctx, trial, b.names()); err != nil {
		return err
	}
	var packing, storing time.Duration
	var transactions []time.Duration
	var blocks []samples.Block
	bytes := 0
	for second := range b.seconds {
		from := time.Now()
		if blocks, err = b.second(second, blocks[:0]); err != nil {
			return err
		}
		packed := time.Now()
		packing += packed.Sub(from)
		if err := st.PutSamples(ctx, blocks); err != nil {
			return err
		}
		took := time.Since(packed)
		storing += took
		transactions = append(transactions, took)
		for _, block := range blocks {
			bytes += len(block.Data)
		}
		// Acknowledged is what is on the disk, and nothing before that.
		for _, box := range b.boxes {
			if err := box.Acknowledge(box.Counts().LastSeq, 1<<20); err != nil {
				return err
			}
		}
	}
	total := b.agents * b.flows * int(time.Second/b.step) * b.seconds
	slices.Sort(transactions)
	fmt.Printf("%d agents × %d flows × %v, %d s: %d samples in %d blocks, %.1f bytes each\n", b.agents, b.flows, b.step, b.seconds, total, b.agents*b.seconds, float64(bytes)/float64(total))
	fmt.Printf("  packed by the agents   %10.0f samples/s on one CPU\n", float64(total)/packing.Seconds())
	fmt.Printf("  to disk, synchronised  %10.0f samples/s, %.0f blocks/s; a transaction takes %v (%v to %v)\n", float64(total)/storing.Seconds(), float64(b.agents*b.seconds)/storing.Seconds(),
		transactions[len(transactions)/2].Round(time.Millisecond), transactions[0].Round(time.Millisecond), transactions[len(transactions)-1].Round(time.Millisecond))
	from := time.Now()
	if err := b.check(ctx, st, total); err != nil {
		return err
	}
	fmt.Printf("  read and checked       %10.0f samples/s; %s in the run\n", float64(total)/time.Since(from).Seconds(), fileSize(filepath.Join(dir, "run", store.FileName)))
	if b.export {
		if err := b.exports(ctx, st, dir); err != nil {
			return err
		}
	}
	if b.page != "" {
		return b.report(ctx, st)
	}
	return nil
}

func (b *bench) names() []string {
	names := make([]string, b.agents)
	for i := range names {
		names[i] = fmt.Sprintf("client-%d", i+1)
	}
	return names
}

// report writes the page of the run.
func (b *bench) report(ctx context.Context, st *store.Store) error {
	r := b.result()
	runtime.GC()
	from := time.Now()
	report.AddSampled(ctx, r, st)
	if s := r.Sampled[trial]; s == nil || s.Error != "" {
		return fmt.Errorf("the samples cannot be shown: %+v", s)
	}
	read := time.Since(from)
	var page bytes.Buffer
	if err := html.Write(&page, r); err != nil {
		return err
	}
	fmt.Printf("  page of the run        %10.2f s, of which %.2f s to read the samples; %.2f MB\n", time.Since(from).Seconds(), read.Seconds(), float64(page.Len())/1e6)
	return os.WriteFile(b.page, page.Bytes(), 0o666)
}

// result is that of a run of one trial.
func (b *bench) result() *result.Result {
	t := measurement.Trial{ID: trial, Block: 1, Order: 1, Path: "hopped", Test: "flows", Gate: measurement.Gate{Passed: true}, Elapsed: measurement.Seconds(b.seconds)}
	for i, name := range b.names() {
		t.Pairs = append(t.Pairs, measurement.Pair{Source: name, Destination: fmt.Sprintf("server-%d", i+1)})
	}
	return &result.Result{
		Format: result.Format, Testbed: result.Testbed{Kind: result.TestbedFleet}, Trials: []measurement.Trial{t},
		Paths: []result.PathInfo{{Name: "hopped", Baseline: true}}, Tests: []result.TestInfo{{Name: "flows", Spec: measurement.Spec{Kind: measurement.TCP, Flows: b.flows}.Defaults()}},
	}
}

// second has every agent pack one second of its flows.
func (b *bench) second(second int, blocks []samples.Block) ([]samples.Block, error) {
	random := rand.New(rand.NewPCG(1, uint64(second)))
	steps := int(time.Second / b.step)
	all := make([]samples.Sample, 0, b.flows*steps)
	for seat, box := range b.boxes {
		all = all[:0]
		for flow := 1; flow <= b.flows; flow++ {
			for i := range steps {
				all = append(all, samples.Sample{
					At: time.Duration(second)*time.Second + time.Duration(i)*b.step, Flow: flow, Bytes: 1_000_000 + random.Int64N(200_000),
					RTT: time.Millisecond + time.Duration(random.Int64N(500))*time.Microsecond, CongestionWindow: 1448 * (40 + random.Int64N(20)), Retransmits: random.Int64N(40) / 39,
				})
			}
		}
		if err := box.Add(trial, seat+1, 1, b.step, all); err != nil {
			return nil, err
		}
		for {
			block, ok := box.Next()
			if !ok {
				break
			}
			blocks = append(blocks, block)
		}
	}
	return blocks, nil
}

// check reads all that was kept.
func (b *bench) check(ctx context.Context, st *store.Store, want int) error {
	got := 0
	for block, err := range st.Samples(ctx, trial) {
		if err != nil {
			return err
		}
		unpacked, err := b.coder.Samples(block)
		if err != nil {
			return err
		}
		got += len(unpacked)
	}
	if got != want {
		return fmt.Errorf("%d samples were kept of %d", got, want)
	}
	return nil
}

// exports writes the run in each format.
func (b *bench) exports(ctx context.Context, st *store.Store, dir string) error {
	run := export.Run{
		Result: b.result(), Blocks: func(trial string) iter.Seq2[samples.Block, error] { return st.Samples(ctx, trial) },
		Agents: func(trial string) ([]string, error) { return st.Agents(ctx, trial) },
	}
	for _, format := range []struct {
		name  string
		write func(io.Writer, export.Run) error
	}{{"xlsx", export.XLSX}, {"parquet", export.Parquet}, {"csv", export.CSV}} {
		file := filepath.Join(dir, "run."+format.name)
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		runtime.GC()
		from := time.Now()
		if err := errors.Join(format.write(out, run), out.Close()); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		took := time.Since(from)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fmt.Printf("  exported as %-8s   %10.1f s, %s; %d MB of memory taken from the system so far\n", format.name, took.Seconds(), fileSize(file), memory.Sys>>20)
	}
	return nil
}

func fileSize(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.1f MB", float64(info.Size())/1e6)
}
