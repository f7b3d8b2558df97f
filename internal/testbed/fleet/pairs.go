package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// pair is a seat whose server listens with the token of its generation, and no other.
type pair struct {
	*place
	at     map[netip.Addr]netip.AddrPort // where it listens, by its addresses
	on     []testbed.Pair                // by the paths of the experiment
	proven bool                          // the client reached it on all of them
	why    error                         // it did not
}

// seat sees to it that every pair has its two machines: it waits for enough, has them take
// seats, and then the servers listen and the clients prove that they reach them.
func (b *Bed) seat(ctx context.Context, tell func([]Role)) error {
	for reopened := 0; ; {
		sources, destinations, err := b.fleet.gather(ctx, b.e, tell)
		if err != nil {
			return err
		}
		if interval := b.fleet.signsEvery(); b.seats.lease < 3*interval {
			return fmt.Errorf("a lease of %v is too short for so many machines, each of which gives a sign of life every %v: write lease: %v or more", b.seats.lease, interval, 3*interval)
		}
		places, err := b.seats.take(ctx, sources, destinations, b.e.Pairs)
		unfit := map[*member]error{}
		if err == nil {
			unfit, err = b.adopt(ctx, places)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, errMute):
			if reopened++; reopened > mostStrays {
				return b.seats.reason(fmt.Errorf("%w, opened %d times: %w", err, reopened, errShared))
			}
			b.fleet.note("%v: it is opened anew", b.seats.reason(err))
			if err := b.seats.reopen(ctx); err != nil {
				return err
			}
		case errors.Is(err, errVanished) || !b.there(places): // it says so when it is asked something
		case !b.setAside(unfit):
			return err
		}
	}
}

// there says whether the machines of all places are.
func (b *Bed) there(places []*place) bool {
	return !slices.ContainsFunc(places, func(p *place) bool { return !b.fleet.there(p.server) || !b.fleet.there(p.client) })
}

// adopt has the pairs that were not as they are now listen and prove. With an error it says
// which machines are why, as far as that is known.
func (b *Bed) adopt(ctx context.Context, places []*place) (unfit map[*member]error, err error) {
	var changed []int
	for i, p := range places {
		if now := b.pairs[i]; now == nil || now.place != p || !now.proven {
			changed = append(changed, i)
		}
	}
	if err := each(ctx, changed, func(ctx context.Context, _, i int) error { return b.unlisten(ctx, b.pairs[i]) }); err != nil {
		return nil, err
	}
	b.mu.Lock()
	for _, i := range changed {
		b.pairs[i] = &pair{place: places[i], at: map[netip.Addr]netip.AddrPort{}}
	}
	b.mu.Unlock()
	unfit = map[*member]error{}
	var noting sync.Mutex
	note := func(m *member, err error) error {
		if err != nil {
			noting.Lock()
			defer noting.Unlock()
			unfit[m] = err
		}
		return err
	}
	if err := each(ctx, changed, func(_ context.Context, _, i int) error {
		client, server := b.pairs[i].client, b.pairs[i].server
		return errors.Join(note(client, b.permitted(client, true)), note(server, b.permitted(server, false)))
	}); err != nil {
		return unfit, err
	}
	if err := each(ctx, changed, func(ctx context.Context, _, i int) error {
		return note(b.pairs[i].server, b.listen(ctx, b.pairs[i]))
	}); err != nil {
		return unfit, err
	}
	if err := each(ctx, changed, func(ctx context.Context, _, i int) error {
		p := b.pairs[i]
		p.why = b.prove(ctx, p, p.client)
		p.proven = p.why == nil
		return p.why
	}); err != nil {
		return b.blame(ctx), err
	}
	b.lay()
	for _, i := range changed {
		b.fleet.leased(i+1, b.pairs[i].client.Name, b.pairs[i].server.Name)
	}
	return nil, nil
}

// atOnce bounds how many machines are asked something at the same time.
const atOnce = 256

// mostErrors bounds how many machines an error tells of.
const mostErrors = 20

// each asks something of all of a list of machines, some at the same time, and returns what
// those that failed said, of many of them the first.
func each[T any](ctx context.Context, all []T, do func(context.Context, int, T) error) error {
	return eachOf(ctx, atOnce, all, do)
}

// eachOf is each for so many of them at the same time.
func eachOf[T any](ctx context.Context, most int, all []T, do func(context.Context, int, T) error) error {
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(most)
	for i, one := range all {
		group.Go(func() error {
			errs[i] = do(ctx, i, one)
			return nil
		})
	}
	_ = group.Wait() // no function has an error
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - mostErrors; more > 0 {
		errs = append(errs[:mostErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// permitted says which tests the own limits of a machine refuse. A server takes no part in some.
func (b *Bed) permitted(m *member, client bool) error {
	h := m.client.Hello()
	l := probe.Limits{MaxRateBitsPerSecond: h.MaxRateBitsPerSecond, MaxDuration: h.MaxDuration.Duration(), MaxFlows: h.MaxFlows}
	var errs []error
	for _, test := range b.e.Tests {
		spec := test.Spec.Defaults()
		if k, _ := kind.Of(spec.Kind); !client && k.NoServer {
			continue
		}
		if err := l.Refuse(spec); err != nil {
			errs = append(errs, fmt.Errorf("test %s is refused by machine %s: %w; start its agent with higher limits, or ask for less", test.Name, m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// listen has the server of a pair listen on every path, and lays the pair there.
func (b *Bed) listen(ctx context.Context, p *pair) error {
	var errs []error
	for _, way := range b.ways {
		address, err := addressIn(p.server.client.Hello(), way.Network)
		if err != nil {
			errs = append(errs, fmt.Errorf("path %s: machine %s %w", way.Name, p.server.Name, err))
			continue
		}
		at, is := p.at[address]
		if !is {
			at, err = p.server.client.Listen(ctx, netip.AddrPortFrom(address, measurement.DefaultPort), agent.Serving{Token: p.token})
			if err != nil {
				errs = append(errs, fmt.Errorf("path %s: machine %s cannot listen at %v: %w; TCP and UDP port %d have to be free there, and no two machines can share an address", way.Name, p.server.Name, address, err, measurement.DefaultPort))
				continue
			}
			p.at[address] = at
		}
		p.on = append(p.on, testbed.Pair{
			Source: p.client.Name, Destination: p.server.Name, Request: p.request(way, at),
			Expect: testbed.Expectation{ReceivedTTL: way.Expect.ReceivedTTL, HopCount: way.Expect.Hops, PathMTUBytes: way.Expect.PathMTUBytes, Learned: true},
		})
	}
	return errors.Join(errs...)
}

// unlisten has the server of a pair, which may be nil, listen no more: connections that proved
// the token of its generation end, and nobody can prove it any more.
func (b *Bed) unlisten(ctx context.Context, p *pair) error {
	if p == nil {
		return nil
	}
	var errs []error
	for address, at := range p.at {
		if err := p.server.client.Unlisten(ctx, at); err != nil && p.server.client.Err() == nil {
			errs = append(errs, fmt.Errorf("machine %s: %w", p.server.Name, err)) // what is gone does not listen
			continue
		}
		delete(p.at, address)
	}
	return errors.Join(errs...)
}

// lay says where the paths are.
func (b *Bed) lay() {
	var paths []testbed.Path
	for k, way := range b.ways {
		path := testbed.Path{Name: way.Name, Limits: b.limits}
		for _, p := range b.pairs {
			path.Pairs = append(path.Pairs, p.on[k])
		}
		paths = append(paths, path)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths, b.seatOf = paths, make(map[string]int, 2*len(b.pairs))
	for i, p := range b.pairs {
		b.seatOf[p.client.Name], b.seatOf[p.server.Name] = i, i
	}
	b.chooseProofs()
}

// addressIn is the one address of a machine in a network.
func addressIn(h agent.Hello, network netip.Prefix) (netip.Addr, error) {
	var found, others []netip.Addr
	for _, i := range h.Interfaces {
		for _, a := range i.Addresses {
			switch {
			case slices.Contains(found, a): // on another interface, too
			case network.Contains(a):
				found = append(found, a)
			case !a.IsLoopback() && !a.IsLinkLocalUnicast():
				others = append(others, a)
			}
		}
	}
	switch len(found) {
	case 0:
		return netip.Addr{}, fmt.Errorf("has no address in %v; correct `to:`, its addresses are %v", network, others)
	case 1:
		return found[0], nil
	}
	return netip.Addr{}, fmt.Errorf("has several addresses in %v, %v: give a network in which it has one", network, found)
}

// request is what all tests of a pair on a path have in common.
func (p *pair) request(way inventory.Path, to netip.AddrPort) probe.Request {
	r := probe.Request{Target: to, Token: p.token, Spec: measurement.Spec{Device: way.Device}}
	if way.DSCP > 0 {
		r.Spec.DSCP = way.DSCP
	}
	return r
}

// prove has a client prove the token of a pair to its server on every path, without load. The
// client of the pair learns what shows that path.
func (b *Bed) prove(ctx context.Context, p *pair, client *member) error {
	var errs []error
	for k := range p.on {
		to := p.on[k].Request.Target
		proof, err := client.client.Prove(ctx, p.on[k].Request)
		if err != nil {
			errs = append(errs, fmt.Errorf("path %s: machine %s does not reach %s at %v: %w; open port %d of TCP and UDP on the way",
				b.ways[k].Name, client.Name, p.server.Name, to, err, to.Port()))
			continue
		}
		if client != p.client {
			continue
		}
		if err := b.learnWay(ctx, b.ways[k], client, &p.on[k], proof); err != nil {
			errs = append(errs, fmt.Errorf("path %s of %s: %w", b.ways[k].Name, p.on[k], err))
		}
	}
	return errors.Join(errs...)
}
