package samples

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Outbox holds an agent's blocks, and the results of its tests, until they are acknowledged. A
// test never waits for it: what does not fit is first made coarser, from 100 ms to 1 s to 10 s,
// the oldest first, and dropped in the end. A block that was sent once stays as it is. It may
// be used by several goroutines.
type Outbox struct {
	coder *Coder
	limit int // bytes in memory

	mu      sync.Mutex
	run     string   // of which the blocks are
	results []Result // the oldest first
	blocks  []*held  // likewise
	// numbered are those of blocks that have a seq, sent those that were sent over the
	// present connection. Both are the first of blocks.
	numbered, sent int
	seq            int64 // of the last that has one
	bytes          int   // of all blocks and results in memory
	credit         int   // bytes that may be sent and not acknowledged
	inFlight       int   // bytes that are
	counts         Counts
}

// held is a block in an Outbox. It has Data once it has a seq.
type held struct {
	Block
	coarse time.Duration // the step to which it was made coarser last, 0 if it was not
}

// finer says whether a block can be made coarser, to a step.
func (h *held) finer(step time.Duration) bool { return max(h.Step, h.coarse) < step }

// overhead is what a held block takes of memory besides its samples, roughly.
const overhead = 512

func (h *held) size() int { return overhead + len(h.packed) }

// Counts says what an Outbox did in its present run.
type Counts struct {
	// Added are the samples that came, Dropped those that were given up, in so many
	// blocks.
	Added, Dropped, DroppedBlocks int64
	// Coarsened are the blocks that were made coarser, by their new step.
	Coarsened map[time.Duration]int64
	// HeldBytes are in memory now, InFlightBytes of them were sent and are not yet
	// acknowledged.
	HeldBytes, InFlightBytes int
	// LastSeq is that of the last block that was sent.
	LastSeq int64
}

// tornPart of a step may lack until it is not called that long any more.
const tornPart = 10

// steps are those to which an Outbox makes blocks coarser, one after the other.
var steps = []time.Duration{time.Second, 10 * time.Second}

// NewOutbox makes an Outbox that takes at most limit bytes of memory. It sends nothing
// before the first credit.
func NewOutbox(coder *Coder, limit int) *Outbox {
	return &Outbox{coder: coder, limit: limit, counts: Counts{Coarsened: map[time.Duration]int64{}}}
}

// Begin says of which run the samples are from now on. Those of another run can be kept
// nowhere any more: what is left of them, and of their results, is let go of. Another says
// whether it is another run than before.
func (o *Outbox) Begin(run string) (another bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.run == run {
		return false
	}
	o.results = nil
	o.run, o.blocks, o.numbered, o.sent, o.bytes, o.inFlight = run, nil, 0, 0, 0, 0
	o.counts = Counts{Coarsened: map[time.Duration]int64{}}
	return true
}

// Add takes the samples of a seat's test, each over one step. It is an error if they
// are out of bounds; then none is taken.
func (o *Outbox) Add(trial string, seat, attempt int, step time.Duration, samples []Sample) error {
	if trial == "" || len(trial) > maxTrial {
		return fmt.Errorf("the name of a trial must have 1 to %d bytes: %.40q", maxTrial, trial)
	}
	if len(samples) == 0 {
		return nil
	}
	blocks, err := o.split(Key{Trial: trial, Seat: seat, Attempt: attempt}, step, samples)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range blocks {
		o.counts.Added += int64(b.Samples)
		o.bytes += b.size()
	}
	o.blocks = append(o.blocks, blocks...)
	o.shrink()
	return nil
}

// split packs samples into as many blocks as they need.
func (o *Outbox) split(key Key, step time.Duration, samples []Sample) ([]*held, error) {
	b, err := o.hold(key, step, samples)
	if !errors.Is(err, errTooLarge) || len(samples) < 2 {
		return []*held{b}, err
	}
	half := len(samples) / 2
	first, err := o.split(key, step, samples[:half])
	if err != nil {
		return nil, err
	}
	second, err := o.split(key, step, samples[half:])
	return append(first, second...), err
}

func (o *Outbox) hold(key Key, step time.Duration, samples []Sample) (*held, error) {
	h, err := sum(samples)
	if err != nil {
		return nil, err
	}
	if step <= 0 || step > maxValue {
		return nil, fmt.Errorf("a step of %v is out of bounds", step)
	}
	h.Key, h.Step = key, step
	raw, packed := o.coder.pack(samples)
	if len(packed)+overhead > MaxBlockBytes {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, len(packed))
	}
	return &held{Block: Block{Header: h, packed: packed, raw: raw}}, nil
}

// Next is the next block to be sent, if there is one and credit for it. A block is
// numbered here.
func (o *Outbox) Next() (Block, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sent == len(o.blocks) {
		return Block{}, false
	}
	b := o.blocks[o.sent]
	if o.sent == o.numbered {
		h := b.Header
		h.Seq, h.Dropped = o.seq+1, o.counts.Dropped
		for _, n := range o.counts.Coarsened {
			h.Coarsened += n
		}
		block := assemble(h, b.raw, b.packed)
		if !o.mayGo(len(block.Data)) {
			return Block{}, false
		}
		b.Block = block
		o.seq++
		o.numbered++
	} else if !o.mayGo(len(b.Data)) {
		return Block{}, false
	}
	o.sent++
	o.inFlight += len(b.Data)
	return b.Block, true
}

// mayGo says whether there is credit for so many bytes. One block may go beyond it, or a
// credit smaller than a block would be none for ever.
func (o *Outbox) mayGo(bytes int) bool {
	return o.credit > 0 && (o.inFlight == 0 || o.inFlight+bytes <= o.credit)
}

// Waiting says whether there are blocks that were not sent over the present connection.
func (o *Outbox) Waiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent < len(o.blocks)
}

// Acknowledge says that all blocks up to seq are on the other end's disk, and how many
// bytes may be under way from now on, 0 to stop. It is an error if seq was never sent;
// nothing changes then.
func (o *Outbox) Acknowledge(seq int64, credit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seq < 0 || seq > o.seq || credit < 0 {
		return fmt.Errorf("acknowledged are block %d and a credit of %d bytes; %d blocks were sent", seq, credit, o.seq)
	}
	o.credit = credit
	n := 0
	for n < o.numbered && o.blocks[n].Seq <= seq {
		o.bytes -= o.blocks[n].size()
		if n < o.sent {
			o.inFlight -= len(o.blocks[n].Data)
		}
		n++
	}
	o.blocks = slices.Delete(o.blocks, 0, n)
	o.numbered -= n
	o.sent = max(0, o.sent-n)
	return nil
}

// Reconnected says that a new connection is there: what is not acknowledged is to be
// sent again, once there is credit.
func (o *Outbox) Reconnected() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent, o.inFlight, o.credit = 0, 0, 0
}

// Counts says what was done so far.
func (o *Outbox) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.counts
	c.Coarsened = maps.Clone(o.counts.Coarsened)
	c.HeldBytes, c.InFlightBytes, c.LastSeq = o.bytes, o.inFlight, o.seq
	return c
}

// shrink makes blocks coarser or drops them until they take no more than the limit.
// What was numbered stays, as it may be on the other end's disk.
func (o *Outbox) shrink() {
	for o.bytes > o.limit && o.numbered < len(o.blocks) {
		if !slices.ContainsFunc(steps, o.coarsen) {
			oldest := o.blocks[o.numbered]
			o.counts.Dropped += int64(oldest.Samples)
			o.counts.DroppedBlocks++
			o.replace(o.numbered, o.numbered+1, nil)
		}
	}
	o.shrinkResults()
}

// coarsen makes the oldest blocks of a finer step than step, all of them of one test,
// into one of that step. It says whether there were any.
func (o *Outbox) coarsen(step time.Duration) bool {
	from := o.numbered + slices.IndexFunc(o.blocks[o.numbered:], func(b *held) bool { return b.finer(step) })
	if from < o.numbered {
		return false
	}
	first := o.blocks[from]
	var all []Sample
	end := time.Duration(0) // of the last of them
	to := from
	for to < len(o.blocks) {
		b := o.blocks[to]
		if to > from && (b.Key != first.Key || !b.finer(step) || b.From < first.From || b.From-first.From >= step || len(all)+b.Samples > maxSamples) {
			break
		}
		samples, err := o.coder.Samples(b.Block)
		if err != nil {
			panic(fmt.Sprintf("samples: a block of our own: %v", err))
		}
		all = append(all, samples...)
		for _, s := range samples {
			end = max(end, s.At+b.Step)
		}
		to++
	}
	merged, err := o.hold(first.Key, step, coarsen(all, step))
	if err != nil {
		// The sums of many large values may leave the bounds: those are dropped.
		o.counts.Dropped += int64(len(all))
		o.counts.DroppedBlocks += int64(to - from)
		o.replace(from, to, nil)
		return true
	}
	merged.coarse = step
	if took := end - merged.From; took < step-step/tornPart { // a test ends, or no more has come yet
		merged.Step = took
	}
	o.counts.Coarsened[step] += int64(to - from)
	o.replace(from, to, merged)
	return true
}

// replace puts one block, or none, in the place of some.
func (o *Outbox) replace(from, to int, by *held) {
	for _, b := range o.blocks[from:to] {
		o.bytes -= b.size()
	}
	if by == nil {
		o.blocks = slices.Delete(o.blocks, from, to)
		return
	}
	o.bytes += by.size()
	o.blocks[from] = by
	o.blocks = slices.Delete(o.blocks, from+1, to)
}
