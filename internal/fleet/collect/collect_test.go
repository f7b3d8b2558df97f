package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	trial  = "b01-a-bulk"
	second = time.Second
	most   = 1 << 20
)

// disk is a store that can fail: before it keeps something, or after, as one whose process
// is killed before it can say so.
type disk struct {
	*store.Store
	mu            sync.Mutex
	before, after error
}

func (d *disk) set(before, after error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = before, after
}

func (d *disk) PutSamples(ctx context.Context, blocks []samples.Block) error {
	d.mu.Lock()
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		return before
	}
	return errors.Join(d.Store.PutSamples(ctx, blocks), after)
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	s, err := store.Create(t.TempDir(), store.Head{Name: "x"})
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, s.Close()) })
	return &disk{Store: s}
}

// machine is an agent and its connection, if there is one.
type machine struct {
	t      testing.TB
	who    subject.Agent // with a key of its process
	coder  *samples.Coder
	box    *samples.Outbox
	key    samples.Key   // of what it counts
	added  map[int]int64 // bytes, by attempt, of the present process
	near   net.Conn      // nil without a connection
	client *agent.Client //
	sender *Sender       //
	served chan error    //
}

func newMachine(t testing.TB, name string, coder *samples.Coder) *machine {
	m := &machine{t: t, who: subject.Agent{Name: name}, coder: coder}
	m.restart()
	return m
}

// restart is a new process of the agent.
func (m *machine) restart() {
	m.who.Key += "k"
	m.box, m.added = samples.NewOutbox(m.coder, 1<<30), map[int]int64{}
	m.box.Begin("r") // no test counts before a coordinator has asked
}

func (m *machine) connect(c *Collector) {
	near, far := net.Pipe()
	m.near, m.served = near, make(chan error, 1)
	box, served := m.box, m.served
	go func() { served <- agent.Serve(context.Background(), far, agent.Options{Samples: box}) }()
	m.client = agent.NewClient(near)
	m.sender = c.Join(m.who, m.client)
}

// cut ends the connection at whatever byte it is.
func (m *machine) cut() {
	if m.near == nil {
		return
	}
	_ = m.near.Close()
	<-m.served
	<-m.client.Done()
	m.sender.Gone()
	_ = m.client.Close()
	m.near = nil
}

// count has a second of samples of the present attempt come.
func (m *machine) count(bytes int64) {
	var all []samples.Sample
	for flow := 1; flow <= 4; flow++ {
		all = append(all, samples.Sample{At: time.Duration(len(m.added)) * second, Flow: flow, Bytes: bytes + int64(flow)})
		m.added[m.key.Attempt] += bytes + int64(flow)
	}
	testutil.OK(m.t, m.box.Add(m.key.Trial, m.key.Seat, m.key.Attempt, second, all))
}

// poke has the agent look whether it may send: a test does so with each block.
func (m *machine) poke() {
	if m.near != nil {
		_ = m.client.SayKept(agent.Kept{Run: "r", Credit: most})
	}
}

// held are the bytes that a process of which nobody hears any more still has, by attempt.
func held(t testing.TB, box *samples.Outbox) map[int]int64 {
	out := map[int]int64{}
	box.Reconnected()
	testutil.OK(t, box.Acknowledge(0, 1<<40))
	for {
		b, ok := box.Next()
		if !ok {
			return out
		}
		out[b.Attempt] += b.Bytes
	}
}

// TestKilledFleet kills agents, connections and the coordinator at random moments, on a disk that
// fails now and then, also after it has written. What was acknowledged is on the disk once,
// and what a living agent counted is there in the end, all of it.
func TestKilledFleet(t *testing.T) {
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	for seed := range uint64(testutil.Repeat(3, 60)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { kills(t, coder, rand.New(rand.NewPCG(17, seed))) })
	}
}

func kills(t *testing.T, coder *samples.Coder, random *rand.Rand) {
	d := newDisk(t)
	broken := errors.New("no space is left")
	open := func() *Collector { return Open(Options{Keeper: d, Run: "r", Every: time.Millisecond}) }
	c := open()
	defer func() { c.Close() }()
	var machines []*machine
	for i := range 4 {
		machines = append(machines, newMachine(t, fmt.Sprint("m", i), coder))
	}
	begin := func() {
		var agents []subject.Agent
		for _, m := range machines {
			agents = append(agents, m.who)
		}
		attempt, err := c.Begin(t.Context(), trial, agents)
		testutil.OK(t, err)
		for i, m := range machines {
			m.key = samples.Key{Trial: trial, Seat: i + 1, Attempt: attempt}
		}
	}
	begin()
	// What there is at most and at least of each seat and attempt.
	type part struct{ seat, attempt int }
	atMost, atLeast := map[part]int64{}, map[part]int64{}
	bury := func(m *machine, left map[int]int64) {
		for attempt, n := range m.added {
			atMost[part{m.key.Seat, attempt}] += n
			atLeast[part{m.key.Seat, attempt}] += n - left[attempt]
		}
	}
	killed := map[string]int{}
	for range 300 {
		m := machines[random.IntN(len(machines))]
		switch n := random.IntN(20); {
		case n > 4 && n < 13 && m.near == nil:
			m.connect(c)
		case n < 13:
			m.count(random.Int64N(1000))
			m.poke()
		case n < 14:
			m.cut()
			killed["connection"]++
		case n == 14:
			m.cut()
			bury(m, held(t, m.box))
			m.restart()
			killed["agent"]++
			for _, one := range machines { // its test is over, and with it the trial
				one.cut()
			}
			begin()
		case n == 15:
			c.Close()
			for _, one := range machines {
				one.cut()
			}
			c = open()
			begin()
			killed["coordinator"]++
		case n == 16:
			d.set(broken, nil)
		case n == 17:
			d.set(nil, broken)
		default:
			d.set(nil, nil)
		}
	}
	d.set(nil, nil)
	for _, m := range machines {
		m.cut()
		m.connect(c)
		m.poke()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, m := range machines {
		for m.box.Counts().HeldBytes > 0 && ctx.Err() == nil {
			m.poke()
			testutil.OK(t, c.Drain(ctx))
		}
		m.cut()
		bury(m, nil)
	}
	got := map[part]int64{}
	rows := 0
	for _, b := range all(t, d.Store) {
		got[part{b.Seat, b.Attempt}] += b.Bytes
		rows++
	}
	for p := range atMost {
		if got[p] < atLeast[p] || got[p] > atMost[p] {
			t.Errorf("seat %d, attempt %d: %d bytes are on the disk, %d were counted and %d acknowledged", p.seat, p.attempt, got[p], atMost[p], atLeast[p])
		}
		delete(got, p)
	}
	if len(got) > 0 || rows == 0 {
		t.Errorf("nobody counted %v (%d blocks)", got, rows)
	}
	if n := c.Dropped(); len(n) > 0 {
		t.Errorf("dropped: %v", n)
	}
	t.Logf("%d blocks; killed %v", rows, killed)
}

// all reads the blocks of every attempt at every trial.
func all(t *testing.T, s *store.Store) (out []samples.Block) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.Dir(), store.FileName))
	testutil.OK(t, err)
	defer db.Close()
	rows, err := db.Query("SELECT data FROM sample")
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return nil // none was ever kept
	}
	testutil.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var data []byte
		testutil.OK(t, rows.Scan(&data))
		b, err := samples.Read(data)
		testutil.OK(t, err)
		out = append(out, b)
	}
	testutil.OK(t, rows.Err())
	return out
}

// joined is a machine that may send samples of a trial, and a Collector.
func joined(t *testing.T, d *disk, o Options) (*machine, *Collector) {
	t.Helper()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	o.Keeper, o.Run = d, "r"
	o.Every = time.Millisecond
	c := Open(o)
	t.Cleanup(c.Close)
	m := newMachine(t, "m", coder)
	attempt, err := c.Begin(t.Context(), trial, []subject.Agent{{Name: "other"}, m.who})
	testutil.OK(t, err)
	m.key = samples.Key{Trial: trial, Seat: 2, Attempt: attempt}
	m.connect(c)
	t.Cleanup(m.cut)
	return m, c
}

// An agent cannot send samples of another's test, nor of one that was never begun.
func TestForeignSamples(t *testing.T) {
	for name, key := range map[string]samples.Key{
		"another's seat": {Trial: trial, Seat: 1, Attempt: 1}, "another attempt": {Trial: trial, Seat: 2, Attempt: 9}, "another trial": {Trial: "b02-a-bulk", Seat: 2, Attempt: 1},
	} {
		d := newDisk(t)
		m, _ := joined(t, d, Options{})
		own := m.key
		m.count(1)
		m.key = key
		m.count(1000)
		m.key = own
		m.poke()
		<-m.client.Done()
		if err := m.client.Err(); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
		for _, b := range all(t, d.Store) {
			if b.Seat != 2 || b.Attempt != 1 || b.Trial != trial {
				t.Errorf("%s: %+v is on the disk", name, b.Key)
			}
		}
	}
}

// What an agent holds of another run is not wanted.
func TestAnotherRun(t *testing.T) {
	d := newDisk(t)
	m, c := joined(t, d, Options{})
	m.cut()
	m.box.Begin("earlier")
	m.count(1000)
	m.connect(c)
	for m.box.Counts().HeldBytes > 0 {
		m.poke()
	}
	m.count(1)
	for m.box.Counts().HeldBytes > 0 {
		m.poke()
		testutil.OK(t, c.Drain(t.Context()))
	}
	blocks := all(t, d.Store)
	if len(blocks) != 1 || blocks[0].Bytes != 4+10 {
		t.Errorf("%d blocks are on the disk", len(blocks))
	}
}

// A disk that takes nothing holds up nobody, is told of, and nothing is acknowledged.
func TestDiskFails(t *testing.T) {
	d := newDisk(t)
	broken := errors.New("no space is left")
	d.set(broken, nil)
	lags := make(chan Lag, 1)
	m, c := joined(t, d, Options{Late: 10 * time.Millisecond, OnLag: func(l Lag) {
		select {
		case <-lags:
		default:
		}
		lags <- l
	}})
	for range 20 {
		m.count(1000)
		m.poke()
	}
	for l := range lags {
		if errors.Is(l.Err, broken) && l.Blocks == 20 && l.Behind > 0 && l.Bytes > 0 {
			break
		}
	}
	if err := c.Err(); !errors.Is(err, broken) {
		t.Errorf("the disk is full: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Drain(ctx); !errors.Is(err, broken) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drained: %v", err)
	}
	if n := m.box.Counts().InFlightBytes; n == 0 {
		t.Error("what is not on the disk was acknowledged")
	}
	d.set(nil, nil)
	testutil.OK(t, c.Drain(t.Context()))
	for l := range lags {
		if l.Behind == 0 {
			break
		}
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	if n := len(all(t, d.Store)); n != 20 {
		t.Errorf("%d blocks are on the disk", n)
	}
}

// What agents gave up of their samples is told once, also of a process that came after
// another, which counts anew.
func TestGivenUpIsTold(t *testing.T) {
	lags := make(chan Lag, 8)
	d := newDisk(t)
	d.set(errors.New("no space is left"), nil)
	_, c := joined(t, d, Options{Late: time.Hour, OnLag: func(l Lag) { lags <- l }})
	s := &Sender{c: c, who: subject.Agent{Name: "m", Key: "k"}}
	block := func(seq, coarsened, dropped int64) samples.Block {
		return samples.Block{Header: samples.Header{Key: samples.Key{Trial: trial, Seat: 2, Attempt: 1, Seq: seq}, Coarsened: coarsened, Dropped: dropped}, Data: []byte{1}}
	}
	testutil.OK(t, s.take(block(1, 2, 30), false))
	testutil.OK(t, s.take(block(2, 3, 30), false))
	for l := range lags {
		if l.GivenUp == (GivenUp{Coarsened: 3, Dropped: 30}) && l.Behind == 0 {
			break
		}
	}
	later := subject.Agent{Name: "m", Key: "kk"}
	_, err := c.Begin(t.Context(), trial, []subject.Agent{{Name: "other"}, later})
	testutil.OK(t, err)
	b := block(1, 1, 0)
	b.Attempt = 2
	testutil.OK(t, (&Sender{c: c, who: later}).take(b, false))
	if l := <-lags; l.GivenUp != (GivenUp{Coarsened: 4, Dropped: 30}) {
		t.Errorf("told %+v", l)
	}
}

// What an agent gave up is counted once, however often it sends its first block again because it
// did not hear that it was kept.
func TestGivenUpOnce(t *testing.T) {
	d := newDisk(t)
	m, c := joined(t, d, Options{})
	m.cut()
	m.box = samples.NewOutbox(m.coder, 1500) // too small for what follows
	m.box.Begin("r")
	for i := range 3 {
		var all []samples.Sample
		for flow := 1; flow <= 15; flow++ {
			all = append(all, samples.Sample{At: time.Duration(i) * 100 * second, Flow: flow, Bytes: 1})
		}
		testutil.OK(t, m.box.Add(trial, 2, 1, 10*second, all))
	}
	want := m.box.Counts().Dropped
	if want == 0 {
		t.Fatal("the agent gave up nothing")
	}
	for range 3 {
		m.box.Reconnected()
		testutil.OK(t, m.box.Acknowledge(0, most))
		s := c.Join(m.who, noAgent{})
		for b, ok := m.box.Next(); ok; b, ok = m.box.Next() {
			testutil.OK(t, s.take(b, false))
		}
		s.Gone()
		testutil.OK(t, c.Drain(t.Context()))
	}
	if got := c.Dropped()["m"]; got != want {
		t.Errorf("the agent gave up %d samples, and %d are said", want, got)
	}
}

// Who takes the name of a machine that is away sends nothing for it, and a machine whose attempt is
// under way keeps what it counted.
func TestNameTaken(t *testing.T) {
	d := newDisk(t)
	m, c := joined(t, d, Options{})
	m.cut()
	m.count(1000)
	other := newMachine(t, "m", m.coder)
	other.who.Key = "another"
	other.key = m.key
	other.count(999_999)
	other.connect(c)
	defer other.cut()
	other.poke()
	<-other.client.Done()
	if err := other.client.Err(); !errors.Is(err, ErrForeign) {
		t.Errorf("samples under the name of another: %v", err)
	}
	other.cut()
	other.restart()
	other.who.Key = "another"
	other.finish(m.key)
	c.Stored(trial) // results of it are looked at now
	other.connect(c)
	<-other.client.Done()
	if err := other.client.Err(); !errors.Is(err, ErrForeign) {
		t.Errorf("a result under the name of another: %v", err)
	}
	m.connect(c)
	for m.box.Counts().HeldBytes > 0 {
		m.poke()
		testutil.OK(t, c.Drain(t.Context()))
	}
	if blocks := all(t, d.Store); len(blocks) != 1 || blocks[0].Bytes != m.added[1] {
		t.Errorf("kept are %d blocks", len(blocks))
	}
}

// An agent that sends more than its credit, or not in order, is refused at once.
func TestMoreThanCredit(t *testing.T) {
	d := newDisk(t)
	d.set(errors.New("no space is left"), nil)
	_, c := joined(t, d, Options{})
	s := &Sender{c: c, who: subject.Agent{Name: "m", Key: "k"}}
	b := samples.Block{Header: samples.Header{Key: samples.Key{Trial: trial, Seat: 2, Attempt: 1}}, Data: make([]byte, 100<<10)}
	var err error
	for b.Seq = 1; err == nil && b.Seq < 100; b.Seq++ {
		err = s.take(b, true)
	}
	if b.Seq-1 != (maxCredit+samples.MaxBlockBytes)/(100<<10)+1 || !errors.Is(err, ErrForeign) {
		t.Errorf("block %d: %v", b.Seq-1, err)
	}
	s = &Sender{c: c, who: subject.Agent{Name: "m", Key: "k"}}
	testutil.OK(t, s.take(samples.Block{Header: samples.Header{Key: samples.Key{Seq: 4}}}, false))
	if err := s.take(samples.Block{Header: samples.Header{Key: samples.Key{Seq: 4}}}, false); !errors.Is(err, ErrForeign) {
		t.Errorf("the same block twice: %v", err)
	}
}

// What an agent has no credit for is waited for, also where it came after the last block that
// was sent.
func TestDrainWaitsForWhatHasNoCredit(t *testing.T) {
	d := newDisk(t)
	d.set(errors.New("no space is left"), nil)
	m, c := joined(t, d, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	large := func() { // of some 400 KB
		var all []samples.Sample
		for i := range 26_000 {
			all = append(all, samples.Sample{
				At: time.Duration(i) * second, Flow: 1, Bytes: random.Int64N(1 << 40), CongestionWindow: random.Int64N(1 << 40), RTT: time.Duration(random.Int64N(1 << 40)),
			})
		}
		testutil.OK(t, m.box.Add(m.key.Trial, m.key.Seat, m.key.Attempt, second, all))
	}
	for range 2 {
		large()
		large()
		m.poke()
		// Answered after what was said before.
		_ = m.client.Unlisten(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"))
	}
	d.set(nil, nil)
	testutil.OK(t, c.Drain(t.Context()))
	if n := len(all(t, d.Store)); n != 4 {
		t.Errorf("%d of 4 blocks are on the disk", n)
	}
}
