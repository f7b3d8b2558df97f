package report

import (
	"context"
	"iter"
	"math"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// Samples reads what the agents of a fleet sent.
type Samples interface {
	// Agents are the machines of a trial's seats 1, 2 and so on.
	Agents(ctx context.Context, trial string) ([]string, error)
	Samples(ctx context.Context, trial string) iter.Seq2[samples.Block, error]
}

// Bounds of what is kept of the samples of a trial, and how long a trial has steps that are
// shorter than a second.
const (
	mostSteps    = 4096
	mostCells    = 4 << 20 // steps of all clients together
	leastStep    = 0.1     // seconds
	fineUpTo     = 60.0    // seconds
	longest      = 1e7     // seconds
	tornFraction = 0.1     // of a step, which may be missing
	negligible   = 1e-6    // of a step
)

// AddSampled adds the samples of the trials that a report shows: of each test on each path
// the median one. Of a run of no fleet there are none. Those that cannot be read keep no
// report from being made: it says so.
func AddSampled(ctx context.Context, r *result.Result, from Samples) {
	if r.Testbed.Kind != result.TestbedFleet {
		return
	}
	r.Sampled = map[string]*result.Sampled{}
	for _, test := range r.Tests {
		primary, _ := measurement.PrimaryOf(test.Spec.Kind)
		for _, p := range r.Paths {
			t := MedianTrial(r, p.Name, test.Name, primary.Name, 0)
			if t == nil {
				continue
			}
			s, err := sampledTrial(ctx, t, from)
			if err != nil {
				s = &result.Sampled{Error: err.Error()}
			}
			if s != nil {
				r.Sampled[t.ID] = s
			}
		}
	}
}

func sampledTrial(ctx context.Context, t *measurement.Trial, from Samples) (*result.Sampled, error) {
	agents, err := from.Agents(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	coder, err := samples.NewCoder()
	if err != nil {
		return nil, err
	}
	return fold(from.Samples(ctx, t.ID), coder, agents, t)
}

// folding adds samples up in steps of one width.
type folding struct {
	width   float64 // of a step, seconds
	steps   int
	clients []client
	samples int64
}

// client is the part of a client. Its slices are nil before its first sample.
type client struct {
	bytes []float64 // of each step, NaN where nothing is known
	torn  []bool    // only a part of the step is known
	until float64   // what is known, seconds
}

// fold is nil where there are no samples. A sample is spread evenly over its time. What is
// later than the trial can be is left out, and so are blocks that are damaged, which may be of
// a single machine: they are an error only where there are no others.
func fold(blocks iter.Seq2[samples.Block, error], coder *samples.Coder, agents []string, t *measurement.Trial) (*result.Sampled, error) {
	var f *folding
	var why error
	damaged := map[int]int{} // blocks, by seat
	for b, err := range blocks {
		if err != nil {
			return nil, err
		}
		all, err := coder.Samples(b)
		if err != nil {
			why = err
			damaged[b.Seat]++
			continue
		}
		if f == nil {
			f = newFolding(len(agents), float64(t.Elapsed), b.Step.Seconds())
		}
		f.add(b, all, float64(measurement.StartOfSeat(t.Pairs, b.Seat)))
	}
	if f == nil || f.samples == 0 {
		return nil, why
	}
	out := &result.Sampled{Step: measurement.Seconds(f.width), Samples: f.samples}
	for i, c := range f.clients {
		out.Clients = append(out.Clients, result.SampledClient{Name: agents[i], Parts: f.parts(c), Damaged: damaged[i+1]})
	}
	return out, nil
}

// newFolding chooses the steps by the time of a trial and the step of its first block, both
// in seconds.
func newFolding(clients int, seconds, step float64) *folding {
	most := float64(min(mostSteps, mostCells/max(clients, 1)))
	seconds = min(max(seconds, 0), longest)
	width := 1.0
	if seconds < fineUpTo {
		width = min(max(step, leastStep), 1)
	}
	for i := 0; seconds/width > most; i++ {
		width *= []float64{2, 2.5, 2}[i%3]
	}
	return &folding{width: width, steps: int(math.Ceil(max(seconds/width, 1))), clients: make([]client, clients)}
}

// add adds the samples of a block, whose times are from delay seconds on: its pair's own start.
func (f *folding) add(b samples.Block, all []samples.Sample, delay float64) {
	if b.Seat < 1 || b.Seat > len(f.clients) {
		return
	}
	c := &f.clients[b.Seat-1]
	if c.bytes == nil {
		c.bytes, c.torn = make([]float64, f.steps), make([]bool, f.steps)
		for i := range c.bytes {
			c.bytes[i] = math.NaN()
		}
	}
	if from := delay + b.From.Seconds(); from > c.until+f.width/2 {
		f.tear(c, c.until)
		f.tear(c, from)
	}
	long := b.Step.Seconds()
	for _, s := range all {
		from := delay + s.At.Seconds()
		end := from + long
		c.until = max(c.until, min(end, float64(f.steps)*f.width))
		f.samples++
		for i := int(min(from/f.width, float64(f.steps))); i < f.steps && float64(i)*f.width < end; i++ {
			part := min(end, float64(i+1)*f.width) - max(from, float64(i)*f.width)
			if part < negligible*f.width {
				continue
			}
			if math.IsNaN(c.bytes[i]) {
				c.bytes[i] = 0
			}
			c.bytes[i] += float64(s.Bytes) * part / long
		}
	}
}

// tear says that something is known only before or only after a moment.
func (f *folding) tear(c *client, at float64) {
	i := math.Floor(at / f.width)
	if part := at/f.width - i; part > tornFraction && part < 1-tornFraction && i < float64(f.steps) {
		c.torn[int(i)] = true
	}
}

// parts are the steps of a client that are known as a whole.
func (f *folding) parts(c client) (out []result.SampledPart) {
	if c.bytes == nil {
		return nil
	}
	f.tear(&c, c.until)
	open := false
	for i, n := range c.bytes {
		known := !math.IsNaN(n) && !c.torn[i] && float64(i+1)*f.width <= c.until+tornFraction*f.width
		if known && !open {
			out = append(out, result.SampledPart{First: i})
		}
		if open = known; known {
			last := &out[len(out)-1]
			last.Bytes = append(last.Bytes, int64(math.Round(n)))
		}
	}
	return out
}
