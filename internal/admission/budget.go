// Package admission keeps what a server may spend on clients whom it does not
// trust: one budget for its tests, threads, descriptors and memory with a share
// per client address, a door at which connections wait that have not yet said
// what they want, and the containment of what goes wrong in one of them.
package admission

import (
	"fmt"
	"net/netip"
	"sync"
)

// Resource is something of which a server has only so much.
type Resource int

// The resources.
const (
	Tests       Resource = iota // at the same time
	Descriptors                 // of sockets and pipes
	Threads                     // of the operating system
	Bytes                       // of memory of the process
	resources
)

// Resources lists all of them.
func Resources() []Resource { return []Resource{Tests, Descriptors, Threads, Bytes} }

// String is the resource's name in a metric.
func (r Resource) String() string {
	return [resources]string{"tests", "descriptors", "threads", "bytes"}[r]
}

// things are the resources in a sentence, and raise is how a server gets more.
var (
	things = [resources]string{"tests at the same time", "descriptors for tests", "threads for tests", "bytes of memory for tests"}
	raise  = [resources]string{"--max-clients", "ulimit -n", "ulimit -u or pids.max", "memory.max or --max-memory"}
)

// Cost is an amount of each resource: what something takes of a server at most,
// or what a server has, where 0 is no bound.
type Cost [resources]int64

// share is the part of each resource that the tests of one client address may hold
// where nobody else holds any; it lets a test of 10 000 flows run where a process may
// open 20 000 files. fairShare is that of what others leave: 8 addresses that each
// take all they get leave a tenth of a fair start, and each time one of theirs ends,
// more (the dynamic threshold of Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998, with
// α = 1/3).
const (
	share     = 0.75
	fairShare = 0.25
)

// Options of a Budget.
type Options struct {
	Limits Cost
	// Shared bounds what one client address holds by share and fairShare.
	Shared bool
	// Reserved keeps half of everything for clients that proved a token.
	Reserved bool
}

// Refusal says which limit refused a client.
type Refusal struct {
	Resource Resource
	// Asked, and Most that this client could have had with nobody else there.
	Asked, Most int64
	// Now is what it may have in addition to what others and its own tests have.
	Now, Limit int64
	// Shared says that some are left, but not for this client.
	Shared bool
}

// Ever says that the same would be refused with nobody else there.
func (r *Refusal) Ever() bool { return r.Asked > r.Most }

func (r *Refusal) Error() string {
	thing, how := things[r.Resource], raise[r.Resource]
	switch {
	case r.Ever() && r.Most == r.Limit:
		return fmt.Sprintf("this takes %d %s, and this server has %d: ask for less, or raise its limit (%s)", r.Asked, thing, r.Limit, how)
	case r.Ever():
		return fmt.Sprintf("this takes %d %s, and this server gives one client at most %d of %d: ask for less, or raise its limit (%s)", r.Asked, thing, r.Most, r.Limit, how)
	case r.Shared:
		return fmt.Sprintf("this takes %d of this server's %d %s, and your address may have %d more in addition to what it and others have: try again when a test has ended, or raise the server's limit (%s)", r.Asked, r.Limit, thing, r.Now, how)
	}
	return fmt.Sprintf("of this server's %d %s not %d are left: try again later, or raise its limit (%s)", r.Limit, thing, r.Asked, how)
}

// Budget is what a server spends on all its clients together.
type Budget struct {
	o Options

	mu      sync.Mutex
	used    Cost
	clients map[netip.Prefix]*Cost
	freed   chan struct{} // closed, and made anew, when something is given back
}

// NewBudget returns a budget of which nothing is spent.
func NewBudget(o Options) *Budget {
	return &Budget{o: o, clients: map[netip.Prefix]*Cost{}, freed: make(chan struct{})}
}

// Address is an address without what may differ between two sockets of one host.
func Address(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Client is what an address counts as: itself, or its /64 with IPv6, of which
// every host has all addresses.
func Client(a netip.Addr) netip.Prefix {
	a = Address(a)
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address is a client, too
	}
	return p
}

// Take spends a cost on a client until the returned function is called, which may
// be more than once. Proven says that the client holds the server's token. The
// error is a *Refusal.
func (b *Budget) Take(client netip.Addr, proven bool, c Cost) (giveBack func(), err error) {
	key := Client(client)
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.clients[key]
	if own == nil {
		own = new(Cost)
	}
	for r, limit := range b.o.Limits {
		if limit == 0 || c[r] == 0 {
			continue
		}
		most := limit
		if b.o.Reserved && !proven {
			most = max(limit/2, 1)
		}
		free := most - b.used[r]
		refusal := &Refusal{Resource: Resource(r), Asked: c[r], Most: most, Limit: limit, Now: free}
		if b.o.Shared {
			others := b.used[r] - own[r]
			refusal.Most = min(most, part(share, limit))
			now := part(fairShare, limit-others)
			if others == 0 {
				now = refusal.Most
			}
			refusal.Now = max(min(free, now-own[r]), 0)
		}
		if c[r] > refusal.Now {
			refusal.Shared = c[r] <= free
			return nil, refusal
		}
	}
	b.clients[key] = own
	for r := range c {
		own[r] += c[r]
		b.used[r] += c[r]
	}
	return sync.OnceFunc(func() { b.give(key, own, c) }), nil
}

// part is a share of an amount, at least one.
func part(share float64, amount int64) int64 { return max(int64(share*float64(amount)), 1) }

func (b *Budget) give(key netip.Prefix, own *Cost, c Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range c {
		own[r] -= c[r]
		b.used[r] -= c[r]
	}
	if *own == (Cost{}) {
		delete(b.clients, key)
	}
	close(b.freed)
	b.freed = make(chan struct{})
}

// Freed is closed when something is given back.
func (b *Budget) Freed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.freed
}

// Limits is what there is of each resource.
func (b *Budget) Limits() Cost { return b.o.Limits }

// Used is what is spent, and on how many clients.
func (b *Budget) Used() (used Cost, clients int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.clients)
}
