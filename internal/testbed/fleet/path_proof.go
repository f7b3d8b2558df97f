package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/trial"
)

// errNotReached is why a trace proves nothing.
var errNotReached = errors.New("the trace does not reach it")

// learnWay finds out what the path of a pair shows before the first trial: the time to live
// with which the proof of the token arrived and, where its source can trace its destination,
// the hops. Each later trial has to show the same. An error is why the path cannot be what the
// testbed file says.
func (b *Bed) learnWay(ctx context.Context, path inventory.Path, m *member, pair *testbed.Pair, proof probe.Proof) error {
	pair.Expect.Before = &measurement.Fingerprint{ReceivedTTL: proof.ReceivedTTL}
	if want := path.Expect.ReceivedTTL; want > 0 && proof.ReceivedTTL > 0 && want != proof.ReceivedTTL {
		return fmt.Errorf("packets arrive with a TTL of %d, but `expect:` has %d: this is another path", proof.ReceivedTTL, want)
	}
	var why error
	switch {
	case path.Proof == result.ProofTTL:
		return nil
	case path.Device != "":
		why = fmt.Errorf("a trace follows the routes, which interface %q of the path need not", path.Device)
	default:
		var hops []measurement.TraceHop
		if hops, why = traceWay(ctx, m, pair.Request); why == nil {
			pair.Expect.Before.Hops, pair.Expect.Traced = hops, true
			if n := hops[len(hops)-1].TTL; path.Expect.Hops > 0 && n != path.Expect.Hops && !slices.ContainsFunc(hops, func(h measurement.TraceHop) bool { return h.Varies }) {
				return fmt.Errorf("a trace shows %d hops, and `expect:` says %d: it is another path", n, path.Expect.Hops)
			}
			return nil
		}
	}
	if path.Proof == result.ProofTrace {
		return fmt.Errorf("must be proven by a trace, but %w; leave `proof:` out, or name a possible proof", why)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.untraced[path.Name] == nil {
		b.untraced[path.Name] = map[string]string{}
	}
	b.untraced[path.Name][m.Name] = why.Error()
	return nil
}

// mostSilent is how often a path is traced of which a trace does not show the end.
const mostSilent = 2

// traceWay traces a path to which its source has proved the token, up to its destination.
func traceWay(ctx context.Context, m *member, r probe.Request) ([]measurement.TraceHop, error) {
	r.ID, r.Spec = "proof", testbed.TraceSpec()
	reached := func(h measurement.TraceHop) bool { return h.Reached }
	for range mostSilent {
		o, err := m.client.Run(ctx, r, nil)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(o.Hops, reached) {
			continue
		}
		hops, err := trial.Learn(ctx, m.client, nil, r)
		if err == nil && len(hops) > 0 && hops[len(hops)-1].Reached {
			return hops, nil
		}
		return nil, errors.Join(err, errNotReached)
	}
	return nil, errNotReached
}

// chooseProofs, called with mu held, says of each path what proves it, which is the weakest that proves or, in an
// earlier session of the run, has proven one of its pairs.
func (b *Bed) chooseProofs() {
	for i := range b.places {
		p := &b.places[i]
		p.Proof = result.ProofTrace
		if slices.ContainsFunc(b.paths[i].Pairs, func(pair testbed.Pair) bool { return !pair.Expect.Traced }) ||
			slices.ContainsFunc(b.fleet.Before, func(q result.TestbedPath) bool { return q.Name == p.Name && q.Proof == result.ProofTTL }) {
			p.Proof = result.ProofTTL
		}
	}
}

// unproven says which machines cannot trace, though they were to.
func (b *Bed) unproven() (facts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.paths {
		var all []string
		for _, pair := range p.Pairs {
			if why := b.untraced[p.Name][pair.Source]; why != "" && !pair.Expect.Traced {
				all = append(all, fmt.Sprintf("%s (%s)", pair.Source, why))
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			facts = append(facts, fmt.Sprintf("Path %s: %d of %d sources cannot trace it, %s; the time to live on arrival proves theirs.", p.Name, len(all), len(p.Pairs), strings.Join(all[:min(len(all), mostNames)], ", ")))
		}
	}
	return facts
}
