package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
)

// Table is where samples are on the disk; store.Store is one.
type Table interface {
	// SamplesAfter reads blocks in the order in which they were kept: those after a position,
	// until they have so many bytes, and the position of the last.
	SamplesAfter(ctx context.Context, position int64, bytes int) ([]samples.Block, int64, error)
	// Fed is the position up to which a place has them.
	Fed(ctx context.Context, place string) (int64, error)
	SetFed(ctx context.Context, place string, position int64) error
}

// FeedOptions of a Feeder. Table and Open are required.
type FeedOptions struct {
	Table Table
	// Open opens the sink, and again after an error.
	Open func(ctx context.Context) (samples.Sink, error)
	// OnState hears that the sink took nothing, and why, and nil once it does again. May be
	// nil.
	OnState func(error)
	// Every is how often the table is looked at: a second if it is 0.
	Every time.Duration
	// Bytes are how many are put at a time, roughly: 2 MiB if it is 0.
	Bytes int
}

const (
	feedEvery = time.Second
	feedBytes = 2 << 20
	// mostPatience is how long it waits at most until it tries a sink again that failed, and
	// putTime how long a sink may take.
	mostPatience = 30 * time.Second
	putTime      = time.Minute
)

// Feeder puts into a sink what is on the disk, while a run goes on. It begins where the sink
// is said to be, so after a restart it goes on; what it put and could not write down before
// is put again, which changes nothing.
type Feeder struct {
	o      FeedOptions
	cancel context.CancelFunc
	works  sync.WaitGroup
	wake   chan struct{}

	place string
	// The goroutine's until it ends.
	sink   samples.Sink // nil after an error
	closed error        // of the sink

	mu     sync.Mutex
	err    error         // of the last try
	looked chan struct{} // closed when it has looked at the table, or tried the sink
	done   int64         // how often it found nothing more there
}

// Feed opens the sink and begins, until Close.
func Feed(ctx context.Context, o FeedOptions) (*Feeder, error) {
	o.Every, o.Bytes = cmp.Or(o.Every, feedEvery), cmp.Or(o.Bytes, feedBytes)
	sink, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	f := &Feeder{o: o, place: sink.Place(), sink: sink, wake: make(chan struct{}, 1), looked: make(chan struct{})}
	position, err := o.Table.Fed(ctx, f.place)
	if err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.works.Go(func() { f.feed(ctx, position) })
	return f, nil
}

// feed looks at the table again and again.
func (f *Feeder) feed(ctx context.Context, position int64) {
	wait, bytes := f.o.Every, f.o.Bytes
	for ctx.Err() == nil {
		began := time.Now()
		more, err := f.step(ctx, bytes, &position)
		if ctx.Err() != nil {
			break
		}
		switch {
		case errors.Is(err, errSlow): // or it never has any of them
			bytes = max(bytes/2, 1)
		case err == nil && time.Since(began) < putTime/4:
			bytes = min(2*bytes, f.o.Bytes)
		}
		f.tell(more, err)
		if wait = min(2*wait, mostPatience); err == nil {
			wait = f.o.Every
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-f.wake:
		}
	}
	if f.sink != nil {
		f.closed = f.sink.Close()
	}
}

// errSlow says that a sink did not take what was put in time.
var errSlow = fmt.Errorf("it takes longer than %v", putTime)

// step puts the next blocks, roughly so many bytes, and says whether there were any.
func (f *Feeder) step(ctx context.Context, bytes int, position *int64) (more bool, err error) {
	blocks, last, err := f.o.Table.SamplesAfter(ctx, *position, bytes)
	if err != nil || len(blocks) == 0 {
		return false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, putTime, errSlow)
	defer cancel()
	if f.sink == nil {
		sink, err := f.o.Open(ctx)
		if err != nil {
			return true, err
		}
		if at := sink.Place(); at != f.place { // of which position says nothing
			return true, errors.Join(fmt.Errorf("samples of this run go to %s, and the connection is to %s now", f.place, at), sink.Close())
		}
		f.sink = sink
	}
	if err := f.sink.Put(ctx, blocks); err != nil {
		_ = f.sink.Close() // it said already that it is broken
		f.sink = nil
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return true, err
	}
	if err := f.o.Table.SetFed(ctx, f.place, last); err != nil {
		return true, err
	}
	*position = last
	return true, nil
}

// tell says how a step went.
func (f *Feeder) tell(more bool, err error) {
	f.mu.Lock()
	changed := (err == nil) != (f.err == nil)
	f.err = err
	if !more && err == nil {
		f.done++
	}
	close(f.looked)
	f.looked = make(chan struct{})
	f.mu.Unlock()
	if changed && f.o.OnState != nil {
		f.o.OnState(err)
	}
}

// Drain waits until the sink has all that is in the table now. The error says why it has not.
func (f *Feeder) Drain(ctx context.Context) error {
	f.mu.Lock()
	// The look that goes on may have begun before the last samples came.
	want := f.done + 2
	f.mu.Unlock()
	for {
		f.mu.Lock()
		done, looked, err := f.done, f.looked, f.err
		f.mu.Unlock()
		if done >= want {
			return nil
		}
		if err == nil { // one that failed has its time
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not have all samples yet: %w", f.place, context.Cause(ctx)), err)
		}
	}
}

// Close ends it. What the sink lacks stays in the table.
func (f *Feeder) Close() error {
	f.cancel()
	f.works.Wait()
	return f.closed
}
