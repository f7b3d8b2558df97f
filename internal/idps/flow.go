package idps

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFlows have their place. Where a shard is full, the flow in it
	// that has been silent for longest makes room.
	maxFlows = 16384
	shards   = 16
	// flowsPerShard has room for what a hash does unevenly: it is five standard
	// deviations more than the share of a shard in maxFlows.
	flowsPerShard = 1200
	// idleTimeout is how long a silent flow keeps its place for certain.
	idleTimeout = 2 * time.Minute
)

// flowKey is the same for both directions.
type flowKey struct {
	low, high netip.AddrPort
	protocol  uint8
}

// keyOf also tells which side of the flow sent p: 0 is the lower address.
func keyOf(p *packet) (key flowKey, side int) {
	if p.source.Compare(p.destination) <= 0 {
		return flowKey{p.source, p.destination, p.protocol}, 0
	}
	return flowKey{p.destination, p.source, p.protocol}, 1
}

// flow is a TCP connection, or the datagrams between two UDP ports. Each
// direction's thread works on one side; what both need is atomic or guarded.
type flow struct {
	key    flowKey
	client int // side that began it
	// opened by a SYN with the number opening; else it was come across later.
	opened  bool
	opening uint32

	older, newer *flow         // in the order of use, guarded by the shard
	used         time.Duration // likewise

	sides [2]side
	// confirmed is a connection whose client acknowledged the server's SYN, and
	// datagrams that were answered.
	confirmed atomic.Bool
	denied    atomic.Bool
	// passed flows matched a pass rule.
	passed  atomic.Bool
	limited atomic.Bool

	mu      sync.Mutex // guards what follows
	bits    []uint64   // flowbits, nil until one is set
	alerted []*Rule
}

// side is one sender of a flow.
type side struct {
	// acked is what this side acknowledged last, of the other side's numbers;
	// bit 32 says that there is such a number.
	acked atomic.Uint64
	// finished says that everything up to the FIN has passed.
	finished atomic.Bool

	mu sync.Mutex // guards what follows
	reassembler
	stream
	started bool
	gone    bool // the flow was dropped from the table
	ends    bool // a FIN was seen, at fin
	fin     uint32
}

const acknowledged = 1 << 32

// began tells whether anything of the side came by: of a connection whose opening did,
// its SYN does, or nothing ever will.
func (s *side) began() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// established tells of a connection that its handshake is over, or was before
// it was come across; of a UDP flow that both sides have sent.
func (f *flow) established() bool {
	return f.key.protocol == protocolTCP && !f.opened || f.confirmed.Load()
}

// advance follows the handshake by what the client sends, so that it does not
// matter whether the reverse direction comes by here.
func (f *flow) advance(p *packet, side int) {
	if f.confirmed.Load() {
		return
	}
	if p.protocol == protocolTCP && side == f.client && p.flags&flagACK != 0 || p.protocol == protocolUDP && side != f.client {
		f.confirmed.Store(true)
	}
}

// allows tells whether the rule's flowbits are as it asks.
func (f *flow) allows(r *Rule) bool {
	if len(r.bits) == 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range r.bits {
		set := f.bits != nil && f.bits[b.bit/64]&(1<<(b.bit%64)) != 0
		if b.verb == bitIsSet && !set || b.verb == bitIsNotSet && set {
			return false
		}
	}
	return true
}

// apply changes the flowbits as a rule that matched wants it; all is how many
// there are.
func (f *flow) apply(r *Rule, all int) {
	if !r.sets() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bits == nil {
		f.bits = make([]uint64, (all+63)/64)
	}
	for _, b := range r.bits {
		word, mask := &f.bits[b.bit/64], uint64(1)<<(b.bit%64)
		switch b.verb {
		case bitSet:
			*word |= mask
		case bitUnset:
			*word &^= mask
		case bitToggle:
			*word ^= mask
		}
	}
}

// knows tells whether the rule was reported for the flow before.
func (f *flow) knows(r *Rule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.alerted, r)
}

// report notes that the rule is reported; first tells that none was before,
// fresh that this rule was not.
func (f *flow) report(r *Rule) (first, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.alerted, r) {
		return false, false
	}
	first = len(f.alerted) == 0
	f.alerted = append(f.alerted, r)
	return first, true
}

// release gives the memory of a flow that left the table back.
func (f *flow) release(b *budget) {
	for i := range f.sides {
		s := &f.sides[i]
		s.mu.Lock()
		s.gone = true
		s.reassembler.release(b)
		s.mu.Unlock()
	}
}

// table holds the flows. A shard's lock is never asked for by who holds that of
// a side.
type table struct {
	shards [shards]shard
	seed   maphash.Seed // of their hash
	budget budget
	start  time.Time
}

type shard struct {
	mu    sync.Mutex
	flows map[flowKey]*flow
	// oldest and newest in the order of use.
	oldest, newest *flow
}

// of is the shard of a flow, by a hash of the whole key: clients choose ports by rules of
// their own, such as one parity first (connect(2)), that would fill some shards only.
func (t *table) of(key flowKey) *shard {
	return &t.shards[maphash.Comparable(t.seed, key)%shards]
}

// find is the flow of p and the side that sent it. A flow that is not there is
// begun when p is more than a bare acknowledgement. began tells that it was,
// and pushed is a flow that lost its place for it although it was in use.
func (t *table) find(p *packet) (f *flow, side int, began bool, pushed *flow) {
	key, side := keyOf(p)
	now := time.Since(t.start)
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	opens := p.protocol == protocolTCP && p.flags&(flagSYN|flagACK|flagRST) == flagSYN
	f = s.flows[key]
	if f != nil && opens && !(f.opened && f.opening == p.sequence && !f.denied.Load()) {
		s.drop(f, &t.budget) // its ports are used again
		f = nil
	}
	if f == nil {
		if p.protocol == protocolTCP && !opens && len(p.payload) == 0 {
			return nil, side, false, nil
		}
		pushed = s.makeRoom(now, &t.budget)
		f = &flow{key: key, client: clientOf(p, side, opens), opened: opens, opening: p.sequence}
		if s.flows == nil {
			s.flows = make(map[flowKey]*flow)
		}
		s.flows[key] = f
		began = true
	} else {
		s.unlink(f)
	}
	f.used = now
	s.link(f)
	return f, side, began, pushed
}

// clientOf is who began a flow: who sent its first packet, but of a connection
// that was come across in the middle the end with the higher port.
func clientOf(p *packet, side int, opens bool) int {
	if p.protocol == protocolTCP && !opens && p.source.Port() < p.destination.Port() {
		return 1 - side
	}
	return side
}

// makeRoom drops flows that were idle for long, and one that was not when there
// is no room otherwise, which it returns.
func (s *shard) makeRoom(now time.Duration, b *budget) *flow {
	for range 2 {
		if f := s.oldest; f != nil && now-f.used > idleTimeout {
			s.drop(f, b)
		}
	}
	if len(s.flows) < flowsPerShard {
		return nil
	}
	f := s.oldest
	s.drop(f, b)
	return f
}

func (s *shard) drop(f *flow, b *budget) {
	delete(s.flows, f.key)
	s.unlink(f)
	f.release(b)
}

func (s *shard) link(f *flow) {
	f.older, f.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = f
	} else {
		s.oldest = f
	}
	s.newest = f
}

func (s *shard) unlink(f *flow) {
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		s.oldest = f.newer
	}
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		s.newest = f.older
	}
}

// end drops a flow that is over.
func (t *table) end(f *flow) {
	s := t.of(f.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows[f.key] == f {
		s.drop(f, &t.budget)
	}
}

// clear drops all flows.
func (t *table) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for s.oldest != nil {
			s.drop(s.oldest, &t.budget)
		}
		s.mu.Unlock()
	}
}

// count is how many flows there are.
func (t *table) count() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.flows)
		s.mu.Unlock()
	}
	return n
}
