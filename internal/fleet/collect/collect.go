// Package collect takes the samples that the agents of a fleet send, and has them on the
// disk before it says so. What a disk takes long for, or does not take, holds up no test:
// agents keep what was not acknowledged, within their credit.
package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// Keeper keeps samples, and who may send which; store.Store is one.
type Keeper interface {
	// PutSamples keeps blocks, all of them or none, each key once. They are on the disk
	// when it returns.
	PutSamples(ctx context.Context, blocks []samples.Block) error
	// BeginAttempt keeps which agents do a trial, of seats 1, 2 and so on, and says which
	// attempt at it that is, counted from 1.
	BeginAttempt(ctx context.Context, trial string, agents []string) (int, error)
	// Assigned says whether a block is of a test that the agent was to do.
	Assigned(ctx context.Context, agent string, of samples.Key) (bool, error)
	// PutLate keeps results that came after their trials were over, all of them or none, each
	// key once, and says how many that are. Those that a stored trial has are kept there.
	PutLate(ctx context.Context, results []samples.Result) (kept int, err error)
}

// Agent is the connection to one; agent.Client is one.
type Agent interface {
	TakeSamples(take func(b samples.Block, more bool) error)
	SayKept(k agent.Kept) error
	TakeResults(take func(agent.SeatResult) error)
	SaySettled(of samples.Key) error
	// Refuse ends the connection for a reason, without waiting.
	Refuse(why error)
}

// Options of a Collector. Keeper and Run are required.
type Options struct {
	Keeper Keeper
	// Run names the run, the same whenever it is resumed: what agents hold of another is
	// not wanted.
	Run string
	// OnLag hears, once a second, that samples have waited for the disk for longer than
	// Late, once when they do not any more, and when agents have given up more. May be nil.
	OnLag func(Lag)
	// Every is how often samples are put on the disk: a second if it is 0.
	Every time.Duration
	// Late is how long they may wait before that is told: 3 s if it is 0.
	Late time.Duration
}

// Lag is what waits for the disk.
type Lag struct {
	// Behind is how long the oldest block waits, 0 if none is late.
	Behind time.Duration
	Blocks int
	Bytes  int
	// Err is why the disk did not take them, nil where it is only slow.
	Err error
	GivenUp
}

// GivenUp is what agents that could not send gave up of their samples.
type GivenUp struct {
	Coarsened int64 // blocks that were made coarser
	Dropped   int64 // samples that are lost
}

func (g GivenUp) plus(other GivenUp) GivenUp {
	return GivenUp{g.Coarsened + other.Coarsened, g.Dropped + other.Dropped}
}

const (
	storeEvery = time.Second
	// lateAfter is how long samples wait for a disk that is in order, at most.
	lateAfter = 3 * time.Second
	// maxCredit is what one agent may have under way, leastCredit how much it may have
	// however many there are, and allCredit what all together may have.
	maxCredit   = 1 << 20
	leastCredit = 32 << 10
	allCredit   = 256 << 20
	// transactionBytes bounds what is put on the disk at once.
	transactionBytes = 64 << 20
)

// ErrForeign says that an agent sent samples that are not those of a test of its own, or
// not in their order, or more than it may.
var ErrForeign = errors.New("samples that it may not send")

// Collector takes samples of all agents of a run.
type Collector struct {
	o      Options
	ctx    context.Context //nolint:containedctx // from Open to Close
	cancel context.CancelFunc
	works  sync.WaitGroup
	wake   chan struct{} // asks for a transaction at once

	mu      sync.Mutex
	senders map[*Sender]struct{}
	waiting []arrived // in the order in which they came
	bytes   int       // of waiting
	late    bool      // OnLag knows
	told    GivenUp
	err     error // of the last transaction
	stored  chan struct{}
	lost    map[subject.Agent]GivenUp // by what each says; of a key it only grows
	results []result                  // that are not on the disk
	over    int                       // results that are
	present attempt                   // that began last
	stays   bool                      // its trial is not stored
	// begun are the agents of each attempt of this process, of seats 1, 2 and so on. A name may
	// pass to another machine, which has another key.
	begun map[attempt][]subject.Agent
}

// result is one that came over another connection than the one that asked for it.
type result struct {
	samples.Result
	from *Sender
}

// attempt is one at a trial.
type attempt struct {
	trial  string
	number int
}

func attemptOf(k samples.Key) attempt { return attempt{k.Trial, k.Attempt} }

// arrived is a block that is not on the disk.
type arrived struct {
	samples.Block
	from *Sender
	at   time.Time
}

// Open begins to take samples, until Close.
func Open(o Options) *Collector {
	o.Every, o.Late = cmp.Or(o.Every, storeEvery), cmp.Or(o.Late, lateAfter)
	c := &Collector{o: o, wake: make(chan struct{}, 1), senders: map[*Sender]struct{}{}, stored: make(chan struct{}), lost: map[subject.Agent]GivenUp{}, begun: map[attempt][]subject.Agent{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.works.Go(c.store)
	c.works.Go(c.watch)
	return c
}

// Close ends it. What is not on the disk was not acknowledged; see Drain.
func (c *Collector) Close() {
	c.cancel()
	c.works.Wait()
}

// Begin has the agents of a trial's pairs, in their order, send its samples, and says as
// which attempt.
func (c *Collector) Begin(ctx context.Context, trial string, agents []subject.Agent) (int, error) {
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	n, err := c.o.Keeper.BeginAttempt(ctx, trial, names)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.begun[c.present] // thousands of agents are kept once, not for each trial
	if !slices.Equal(same, agents) {
		same = slices.Clone(agents)
	}
	c.present, c.stays = attempt{trial, n}, true
	c.begun[c.present] = same
	return n, nil
}

// may says whether an agent may send what is of a test. Of an attempt of an earlier process only
// its name is known.
func (c *Collector) may(who subject.Agent, of samples.Key) (bool, error) {
	c.mu.Lock()
	agents, known := c.begun[attemptOf(of)]
	c.mu.Unlock()
	if known {
		return of.Seat >= 1 && of.Seat <= len(agents) && agents[of.Seat-1] == who, nil
	}
	return c.o.Keeper.Assigned(c.ctx, who.Name, of)
}

// Stored tells the agents of a trial that what they brought is on the disk, if it is the one
// that began last. One that does not hear of it sends that again, when it comes again. One whose
// result came again meanwhile hears of it once it is known whether the trial has it.
func (c *Collector) Stored(trial string) {
	c.mu.Lock()
	seats := map[subject.Agent]int{}
	t := c.present
	if t.trial == trial {
		for i, a := range c.begun[t] {
			seats[a] = i + 1
		}
		c.stays = false
	}
	for _, r := range c.results {
		if attemptOf(r.Key) == t {
			delete(seats, r.from.who)
		}
	}
	tell := map[Agent]int{}
	for s := range c.senders {
		if seat := seats[s.who]; seat > 0 {
			tell[s.agent] = seat
		}
	}
	c.mu.Unlock()
	for a, seat := range tell {
		_ = a.SaySettled(samples.Key{Trial: trial, Seat: seat, Attempt: t.number})
	}
	c.hurry()
}

// hurry asks for a transaction at once.
func (c *Collector) hurry() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// due are the results of trials that are over. Whether that of the present trial is in it is
// known once it is stored, or another begins. The caller holds the lock.
func (c *Collector) due() (out []result) {
	for _, r := range c.results {
		if !c.stays || attemptOf(r.Key) != c.present {
			out = append(out, r)
		}
	}
	return out
}

// Late is how many results came after their trials were over, which do not count.
func (c *Collector) Late() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Err is why samples cannot be kept, nil if they can.
func (c *Collector) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Dropped is how many samples agents have given up because they could not send them, by
// their names.
func (c *Collector) Dropped() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int64{}
	for who, l := range c.lost {
		if l.Dropped > 0 {
			out[who.Name] += l.Dropped
		}
	}
	return out
}

// Sender is the connection of one agent.
type Sender struct {
	c     *Collector
	who   subject.Agent
	agent Agent

	// The rest is under the Collector's lock.
	last    int64 // number of the last block that came
	ahead   int   // bytes that came and are not acknowledged
	more    bool  // the agent holds blocks
	allowed samples.Key
	refused error
}

// Join takes the samples of an agent, until Gone.
func (c *Collector) Join(who subject.Agent, a Agent) *Sender {
	s := &Sender{c: c, who: who, agent: a}
	a.TakeSamples(s.take)
	a.TakeResults(s.takeResult)
	c.mu.Lock()
	c.senders[s] = struct{}{}
	credit := c.credit()
	c.mu.Unlock()
	_ = a.SayKept(agent.Kept{Run: c.o.Run, Credit: credit}) // it is gone, which is seen elsewhere
	return s
}

// Gone says that the connection has ended. What came is kept all the same.
func (s *Sender) Gone() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.senders, s)
	s.more = false
}

// credit is that of each agent. The caller holds the lock.
func (c *Collector) credit() int {
	return min(max(allCredit/max(len(c.senders), 1), leastCredit), maxCredit)
}

// take takes a block. It never waits for the disk.
func (s *Sender) take(b samples.Block, more bool) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.refused != nil:
		return s.refused
	case b.Seq == 0: // no block
		s.more = more
		return nil
	case s.last > 0 && b.Seq != s.last+1:
		return fmt.Errorf("%w: block %d came after block %d", ErrForeign, b.Seq, s.last)
	case s.ahead+len(b.Data) > maxCredit+samples.MaxBlockBytes:
		return fmt.Errorf("%w: %d bytes, where at most %d may be on their way", ErrForeign, s.ahead+len(b.Data), maxCredit)
	case c.bytes+len(b.Data) > 2*max(allCredit, len(c.senders)*leastCredit): // agents that come again send again
		return fmt.Errorf("%d bytes of samples wait for the disk, and no more are taken", c.bytes)
	}
	s.last, s.more = b.Seq, more
	s.ahead += len(b.Data)
	l := c.lost[s.who]
	c.lost[s.who] = GivenUp{max(l.Coarsened, b.Coarsened), max(l.Dropped, b.Dropped)}
	c.waiting = append(c.waiting, arrived{b, s, time.Now()})
	c.bytes += len(b.Data)
	return nil
}

// takeResult takes what a test brought, over another connection than it was asked for. It never
// waits for the disk.
func (s *Sender) takeResult(r agent.SeatResult) error {
	text, err := json.Marshal(r.Outcome)
	if err != nil {
		return fmt.Errorf("what a test brought cannot be kept: %w", err)
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.results, func(r result) bool { return r.from == s }) {
		return fmt.Errorf("%w: a result, where the one before is not yet kept", ErrForeign)
	}
	c.results = slices.DeleteFunc(c.results, func(has result) bool { return has.Key == r.Key && has.from.who == s.who }) // over a connection that has ended
	c.results = append(c.results, result{samples.Result{Key: r.Key, Agent: s.who.Name, Outcome: text}, s})
	return nil
}

// putResults puts results of trials that are over on the disk, and returns of whose it is to be
// said that they are.
func (c *Collector) putResults() ([]result, error) {
	c.mu.Lock()
	all := c.due()
	c.mu.Unlock()
	var put []samples.Result
	var own []result
	done := map[*Sender]bool{} // of each there is one
	for _, r := range all {
		done[r.from] = true
		known, err := c.may(r.from.who, r.Key)
		if err != nil {
			return nil, err
		}
		if !known {
			r.from.agent.Refuse(fmt.Errorf("%w: a result of trial %q, seat %d, attempt %d", ErrForeign, r.Trial, r.Seat, r.Attempt))
			continue
		}
		put, own = append(put, r.Result), append(own, r)
	}
	if len(all) == 0 {
		return nil, nil
	}
	kept, err := 0, error(nil)
	if len(put) > 0 {
		kept, err = c.o.Keeper.PutLate(c.ctx, put)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = slices.DeleteFunc(c.results, func(r result) bool { return done[r.from] })
	c.over += kept
	return own, nil
}

// store puts on the disk what came, again and again.
func (c *Collector) store() {
	ticker := time.NewTicker(c.o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		case <-c.wake:
		}
		for c.transaction() {
		}
	}
}

// transaction puts the oldest of what came on the disk, acknowledges it, and says whether
// there is more and it was of use.
func (c *Collector) transaction() (again bool) {
	c.mu.Lock()
	n, size := 0, 0
	for n < len(c.waiting) && (n == 0 || size+len(c.waiting[n].Data) <= transactionBytes) {
		size += len(c.waiting[n].Data)
		n++
	}
	batch := slices.Clone(c.waiting[:n])
	c.mu.Unlock()
	blocks, err := c.assigned(batch)
	if err == nil && len(blocks) > 0 {
		err = c.o.Keeper.PutSamples(c.ctx, blocks)
	}
	var results []result
	if err == nil {
		results, err = c.putResults()
	}
	if c.ctx.Err() != nil {
		return false
	}
	type said struct {
		*Sender
		agent.Kept
	}
	var tell []said
	c.mu.Lock()
	if c.err = err; err == nil {
		c.waiting = slices.Delete(c.waiting, 0, n)
		c.bytes -= size
		last := map[*Sender]int{}
		for _, a := range batch {
			a.from.ahead -= len(a.Data)
			if _, here := c.senders[a.from]; !here || a.from.refused != nil {
				continue
			}
			i, known := last[a.from]
			if !known {
				i = len(tell)
				last[a.from] = i
				tell = append(tell, said{a.from, agent.Kept{Run: c.o.Run, Credit: c.credit()}})
			}
			tell[i].Seq = a.Seq
		}
	}
	again = err == nil && len(c.waiting) > 0 && n > 0
	close(c.stored)
	c.stored = make(chan struct{})
	c.mu.Unlock()
	for _, s := range tell {
		_ = s.agent.SayKept(s.Kept) // it is gone, or hears of it when it comes again
	}
	for _, r := range results {
		_ = r.from.agent.SaySettled(r.Key) // likewise
	}
	return again
}

// assigned are the blocks that their agents may send.
func (c *Collector) assigned(batch []arrived) ([]samples.Block, error) {
	blocks := make([]samples.Block, 0, len(batch))
	for _, a := range batch {
		of := a.Key
		of.Seq = 0
		c.mu.Lock()
		allowed, refused := a.from.allowed == of, a.from.refused
		c.mu.Unlock()
		if refused != nil {
			continue
		}
		if !allowed {
			known, err := c.may(a.from.who, a.Key)
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			if a.from.allowed = of; !known {
				a.from.refused = fmt.Errorf("%w: of trial %q, seat %d, attempt %d", ErrForeign, a.Trial, a.Seat, a.Attempt)
			}
			refused = a.from.refused
			c.mu.Unlock()
			if !known {
				a.from.agent.Refuse(refused)
				continue
			}
		}
		blocks = append(blocks, a.Block)
	}
	return blocks, nil
}

// watch says that the disk is behind.
func (c *Collector) watch() {
	ticker := time.NewTicker(c.o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case now := <-ticker.C:
			c.mu.Lock()
			lag := Lag{Blocks: len(c.waiting), Bytes: c.bytes, Err: c.err}
			if len(c.waiting) > 0 {
				lag.Behind = now.Sub(c.waiting[0].at)
			}
			before := c.late
			if c.late = lag.Behind >= c.o.Late; !c.late {
				lag.Behind = 0
			}
			for _, l := range c.lost {
				lag.GivenUp = lag.plus(l)
			}
			tell := c.o.OnLag != nil && (c.late || before || lag.GivenUp != c.told)
			c.told = lag.GivenUp
			c.mu.Unlock()
			if tell {
				c.o.OnLag(lag)
			}
		}
	}
}

// Drain waits until all that the agents hold is on the disk, but for results of a trial that is
// not stored. The error says what is not.
func (c *Collector) Drain(ctx context.Context) error {
	for {
		c.mu.Lock()
		holding := 0
		for s := range c.senders {
			if s.more && s.refused == nil {
				holding++
			}
		}
		waiting, stored, err := len(c.waiting)+len(c.due()), c.stored, c.err
		c.mu.Unlock()
		if waiting == 0 && holding == 0 {
			return nil
		}
		if waiting > 0 {
			c.hurry()
		}
		select {
		case <-stored:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("samples are not all on the disk: %d blocks and results wait for it, and %d machines hold some: %w", waiting, holding, context.Cause(ctx)), err)
		}
	}
}
