package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// seats are the places of a run, from its first testbed to its last: at which server each is,
// and which client has it. The coordinator takes them from the queue for its clients.
type seats struct {
	fleet   *Fleet
	queue   seat.Queue
	ledger  *ledger.Ledger
	lease   time.Duration
	secret  []byte // of the tokens
	session string // tells what this process offers from what another does
	ended   chan struct{}
	works   sync.WaitGroup

	seen map[int]uint64 // latest generation that the queue gave, by id; of the taking goroutine alone

	mu    sync.Mutex
	taken []*place // by their ids, from 1; nil where nobody has had it yet
}

// place is a generation of a seat that a client has.
type place struct {
	ledger.Seat
	server, client *member
	lease          seat.Lease
	token          string
	renewed        time.Time // of the renewing goroutine alone
}

// openSeats opens the queue of the run, at its first testbed.
func (f *Fleet) openSeats(ctx context.Context) (*seats, error) {
	f.mu.Lock()
	s := f.seats
	f.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = &seats{
		fleet: f, lease: cmp.Or(f.Inventory.Queue.Lease, inventory.LeaseOf(f.Inventory.Broker.MaxAgents)),
		secret: make([]byte, sha256.Size), session: rand.Text(), ended: make(chan struct{}), seen: map[int]uint64{},
	}
	_, _ = rand.Read(s.secret) // never fails
	var err error
	if s.ledger, err = ledger.Open(ctx, f.Ledger); err != nil {
		return nil, err
	}
	if s.queue, err = f.openQueue(ctx, cmp.Or(f.Run, f.Secret.File.Fleet), s.lease); err != nil {
		return nil, fmt.Errorf("the queue of seats: %w", err)
	}
	s.works.Go(s.attend)
	f.mu.Lock()
	f.seats = s
	f.mu.Unlock()
	return s, nil
}

// token is the secret that server and client of a generation prove to each other.
func (s *seats) token(id int, generation uint64) string {
	h := hmac.New(sha256.New, s.secret)
	fmt.Fprintf(h, "hopbench/1 seat\x00%d\x00%d", id, generation)
	return hex.EncodeToString(h.Sum(nil))
}

// body is what a seat in the queue says of itself, for who looks into the broker.
type body struct {
	Session string `json:"session"`
	Server  string `json:"server"`
}

// there says whether a machine is in the fleet and can measure.
func (f *Fleet) there(m *member) bool {
	if m == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[m.Name] == m && m.unfit == nil
}

// whole says that a seat is as it was taken: both machines are there, and the lease goes on.
func (s *seats) whole(p *place) bool {
	return p != nil && !closed(p.lease.Lost()) && s.fleet.there(p.server) && s.fleet.there(p.client)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// offered is a seat on its way to a client.
type offered struct {
	server, client *member
	generation     uint64 // offered last
	body           []byte
	given          bool
	strays         int // how often the queue gave what was not offered in its place
}

// errVanished says that machines went away while seats were given.
var errVanished = errors.New("machines went away meanwhile")

// take has n clients have a seat each, and returns the seats by their ids. Seats that are
// whole stay as they are. Of the others all are offered, as a later generation, before any is
// leased: what an earlier process left in the queue is nobody's from then on.
func (s *seats) take(ctx context.Context, clients, servers []*member, n int) ([]*place, error) {
	s.mu.Lock()
	before := slices.Clone(s.taken)
	s.mu.Unlock()
	before = append(before, make([]*place, max(0, n-len(before)))...)[:n]
	want, busy := map[int]*offered{}, map[*member]bool{}
	for i, p := range before {
		o := &offered{}
		if p != nil && s.fleet.there(p.server) {
			o.server = p.server
		}
		if p != nil && s.fleet.there(p.client) {
			o.client = p.client
		}
		busy[o.server], busy[o.client] = true, true
		if !s.whole(p) {
			want[i+1] = o
		}
	}
	spare := func(of *[]*member) *member {
		for len(*of) > 0 {
			m := (*of)[0]
			*of = (*of)[1:]
			if !busy[m] {
				return m
			}
		}
		return nil
	}
	for id := 1; id <= n; id++ {
		o := want[id]
		if o == nil {
			continue
		}
		if o.server == nil {
			o.server = spare(&servers)
		}
		if o.client == nil {
			o.client = spare(&clients)
		}
		if o.server == nil || o.client == nil {
			return nil, errVanished
		}
	}
	if len(want) > 0 {
		ctx, cancel := s.patience(ctx)
		defer cancel()
		if err := s.offer(ctx, want); err != nil {
			return nil, err
		}
		if err := s.giveAll(ctx, want); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken[:n]), nil
}

// patience bounds how long the queue may take: its broker may be away for a while.
func (s *seats) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := s.fleet.Inventory.Broker.Wait
	return context.WithTimeoutCause(ctx, wait, fmt.Errorf("the queue does not give all seats in %v (wait: in the testbed file); its broker is away, or %w", wait, errShared))
}

// offer writes the next generation of seats into the ledger, and then into the queue: a later
// one than all that the queue has given, as it takes an earlier one for a repetition.
func (s *seats) offer(ctx context.Context, want map[int]*offered) error {
	servers := map[int]string{}
	for id, o := range want {
		servers[id] = o.server.Name
	}
	now, err := s.ledger.Offer(ctx, servers, s.seen)
	if err != nil {
		return err
	}
	for _, x := range now {
		o := want[x.ID]
		o.generation = x.Generation
		o.body, _ = json.Marshal(body{Session: s.session, Server: x.Server}) // texts, which JSON has
	}
	err = each(ctx, now, func(ctx context.Context, _ int, x ledger.Seat) (err error) {
		for tries := 0; tries < mostOffers; {
			err = s.queue.Offer(ctx, seat.Seat{ID: strconv.Itoa(x.ID), Generation: x.Generation, Body: want[x.ID].body})
			if err == nil || ctx.Err() != nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) { // who does not answer may be away
				tries++
			}
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = s.reason(context.Cause(ctx)) // what each seat says is that
	}
	return err
}

// reason adds to what may be wrong with the queue why the connection to its broker ended last,
// where its driver knows that.
func (s *seats) reason(err error) error {
	q, knows := s.queue.(interface{ Broke() error })
	if !knows || q.Broke() == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w (the connection to its broker ended last with: %v)", err, q.Broke())
}

const (
	// queueTime is how long a queue may give nothing until it is opened anew.
	queueTime = time.Minute
	// reopenPause is between two attempts at that.
	reopenPause = time.Second
	// mostStrays bounds how often it may give another than was offered: once is what an
	// earlier process left there.
	mostStrays = 3
	// mostOffers bounds how often a seat is offered that the queue answers and does not take.
	mostOffers = 3
)

// errMute says that a queue takes seats and gives none.
var errMute = fmt.Errorf("the queue gives no seat in %v that it has taken", queueTime)

// reopen opens the queue anew. All leases end.
func (s *seats) reopen(ctx context.Context) error {
	if err := s.queue.Close(); err != nil {
		return err
	}
	ctx, cancel := s.patience(ctx)
	defer cancel()
	for {
		q, err := s.fleet.openQueue(ctx, cmp.Or(s.fleet.Run, s.fleet.Secret.File.Fleet), s.lease)
		if err == nil {
			s.queue = q
			return nil
		}
		select {
		case <-time.After(reopenPause):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// giveAll leases all seats that were offered, for the clients that are to have them.
func (s *seats) giveAll(ctx context.Context, want map[int]*offered) error {
	ctx, cancel := context.WithCancelCause(ctx)
	leased := make(chan seat.Lease)
	var leasing sync.WaitGroup
	defer leasing.Wait()
	defer cancel(nil) // before it is waited for
	for range min(len(want), atOnce) {
		leasing.Go(func() {
			for ctx.Err() == nil {
				l, err := s.queue.Lease(ctx)
				if err != nil {
					cancel(fmt.Errorf("lease a seat: %w", err))
					return
				}
				select {
				case leased <- l:
				case <-ctx.Done():
					_ = l.Return(context.WithoutCancel(ctx)) // else its lease runs out
				}
			}
		})
	}
	lacking := maps.Clone(want)
	s.fleet.waiting(len(lacking))
	defer s.fleet.waiting(0) // what is left has no client to come
	late := time.NewTimer(queueTime)
	defer late.Stop()
	for len(lacking) > 0 {
		var all []seat.Lease
		select {
		case l := <-leased:
			all = append(all, l)
		case <-s.queue.Emptied():
			if err := s.offer(ctx, lacking); err != nil {
				return err
			}
			continue
		case <-late.C:
			return errMute
		case <-ctx.Done():
			return s.reason(context.Cause(ctx))
		}
		late.Reset(queueTime)
		for more := true; more && len(all) < len(lacking); { // what else is there goes to the disk with it
			select {
			case l := <-leased:
				all = append(all, l)
			default:
				more = false
			}
		}
		if err := s.give(ctx, want, all); err != nil {
			return err
		}
		maps.DeleteFunc(lacking, func(_ int, o *offered) bool { return o.given })
		s.fleet.waiting(len(lacking))
	}
	return nil
}

// errShared says that this coordinator is not the only one at its queue.
var errShared = errors.New("another coordinator works on the same run or something else reads its queue: end it, or use a queue of your own")

// give gives leased seats to the clients that are to have them, once the ledger has it on the
// disk. What was not offered here is replaced by a later generation; of an earlier one than
// was offered last nothing is done, as that is in the queue too.
func (s *seats) give(ctx context.Context, want map[int]*offered, all []seat.Lease) error {
	var claims []ledger.Claim
	leases := map[ledger.Claim]seat.Lease{}
	strays := map[int]*offered{}
	for _, l := range all {
		x := l.Seat()
		id, err := strconv.Atoi(x.ID)
		o := want[id]
		if err == nil && (o != nil || id >= 1 && id <= len(s.taken)) { // and no stranger's number
			s.seen[id] = max(s.seen[id], x.Generation)
		}
		switch {
		case err != nil || o == nil:
			_ = l.Done(ctx) // of no use; one that is lost is gone anyway
		case x.Generation < o.generation:
		case !bytes.Equal(x.Body, o.body):
			strays[id] = o
			o.strays++
		default:
			c := ledger.Claim{ID: id, Generation: x.Generation, Client: o.client.Name}
			claims, leases[c] = append(claims, c), l
		}
	}
	refused, err := s.ledger.Lease(ctx, claims)
	if err != nil {
		return err
	}
	for _, c := range refused { // it has been given
		delete(leases, c)
	}
	s.mu.Lock()
	for _, c := range claims { // in their order: of two generations of a seat the ledger has the later
		l, given := leases[c]
		if !given {
			continue
		}
		o := want[c.ID]
		for len(s.taken) < c.ID {
			s.taken = append(s.taken, nil)
		}
		o.given = true
		s.taken[c.ID-1] = &place{
			Seat:   ledger.Seat{ID: c.ID, Server: o.server.Name, Generation: c.Generation, Client: c.Client, State: ledger.Leased},
			server: o.server, client: o.client, lease: l, token: s.token(c.ID, c.Generation), renewed: time.Now(),
		}
	}
	s.mu.Unlock()
	for id, o := range strays {
		if o.strays > mostStrays {
			return fmt.Errorf("seat %d was not offered as the queue gives it: %w", id, errShared)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	return s.offer(ctx, strays)
}

// attend renews the leases of clients that are well, and ends the connections of machines
// that are silent, until the seats are closed.
func (s *seats) attend() {
	ticker := time.NewTicker(max(s.lease/12, time.Millisecond))
	defer ticker.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-s.ended:
			return
		case now := <-ticker.C:
			s.fleet.endSilent(now, s.lease)
			s.renew(ctx, now)
		}
	}
}

// endSilent ends the connections of members that were not heard of for so long. One that wakes
// finds that out, ends all that it does, and joins anew.
func (f *Fleet) endSilent(now time.Time, lease time.Duration) {
	f.mu.Lock()
	var silent []*member
	for _, m := range f.members {
		if now.Sub(m.client.Heard()) >= lease {
			silent = append(silent, m)
		}
	}
	f.mu.Unlock()
	for _, m := range silent {
		m.client.Refuse(fmt.Errorf("nothing was heard of it for %v", lease))
	}
}

// renew renews the leases of clients that have given a sign of life since the last time, at
// most every third of a lease. What cannot be renewed is noticed by its lease.
func (s *seats) renew(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var due []*place
	for _, p := range s.taken {
		if p != nil && now.Sub(p.renewed) >= s.lease/3 && p.client.client.Heard().After(p.renewed) && s.whole(p) {
			due = append(due, p)
		}
	}
	s.mu.Unlock()
	_ = each(ctx, due, func(ctx context.Context, _ int, p *place) error {
		if err := p.lease.Renew(ctx); err == nil {
			p.renewed = now
		}
		return nil
	})
}

// closeQueueTime is how long a queue may take to be left empty.
const closeQueueTime = 10 * time.Second

// close gives up all seats: the run needs them no more.
func (s *seats) close() error {
	close(s.ended)
	s.works.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeQueueTime)
	defer cancel()
	var err error
	if q, ok := s.queue.(interface{ Remove(context.Context) error }); ok {
		err = q.Remove(ctx)
	} else {
		err = each(ctx, s.taken, func(ctx context.Context, _ int, p *place) error {
			if p == nil {
				return nil
			}
			if err := p.lease.Done(ctx); err != nil && !errors.Is(err, seat.ErrLost) {
				return fmt.Errorf("take seat %d out of the queue: %w", p.ID, err)
			}
			return nil
		})
	}
	// Whatever the queue took: the disk has a time of its own.
	return errors.Join(err, s.queue.Close(), s.ledger.Finish(context.Background()))
}
