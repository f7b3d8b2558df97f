package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// witnessAtOnce bounds what one machine is asked: an agent refuses what is more than 64 things.
const witnessAtOnce = 32

// blame finds out which machine of each pair is why its client did not reach its server: the
// server, unless a client that reached its own reaches this one, too. Without such a client
// nothing is known.
func (b *Bed) blame(ctx context.Context) map[*member]error {
	unfit := map[*member]error{}
	i := slices.IndexFunc(b.pairs, func(p *pair) bool { return p.proven })
	if i < 0 {
		return nil
	}
	witness := b.pairs[i].client
	var noting sync.Mutex
	_ = eachOf(ctx, witnessAtOnce, b.pairs, func(ctx context.Context, _ int, p *pair) error {
		if p.proven || !b.there([]*place{p.place}) { // what is gone is not to blame
			return nil
		}
		other := b.prove(ctx, p, witness)
		noting.Lock()
		defer noting.Unlock()
		if other != nil {
			unfit[p.server] = fmt.Errorf("neither %s nor %s reaches it: %w", p.client.Name, witness.Name, other)
		} else {
			unfit[p.client] = fmt.Errorf("%s reaches %s: %w", witness.Name, p.server.Name, p.why)
		}
		return nil
	})
	return unfit
}

// setAside has spares take the places of machines that cannot measure, and says whether there
// are enough: then each is named, with what is wrong with it.
func (b *Bed) setAside(unfit map[*member]error) bool {
	f := b.fleet
	f.change(func() {
		for m, why := range unfit {
			m.unfit = why
		}
	})
	sources, destinations, _ := f.ends(b.e)
	enough := len(unfit) > 0 && len(sources) >= b.e.Pairs && len(destinations) >= b.e.Pairs
	for m, why := range unfit {
		if enough {
			f.note("machine %s is not used: %v", m.Name, why)
		}
	}
	if !enough {
		f.change(func() {
			for m := range unfit {
				m.unfit = nil // what is wrong may be put right before the next testbed
			}
		})
	}
	return enough
}
