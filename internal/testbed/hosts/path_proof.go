package hosts

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/reach"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
)

// chooseProofs finds out what proves that a trial took its path, for each that is in
// force: a trace by the source, where that sees anything; else a trace back by the
// destination, where that does; else the time to live on arrival.
func (h *Hosts) chooseProofs(ctx context.Context) {
	h.eachInForce(func(p *place) { h.chooseProof(ctx, p) })
}

func (h *Hosts) chooseProof(ctx context.Context, p *place) {
	where := "path " + p.Name
	if p.Proof == result.ProofTTL {
		h.found(testbed.Note, where, "is not traced: the TTL on arrival is the proof", "")
		return
	}
	way, shows, errs := h.bestWay(ctx, *p)
	switch want := p.Expect.Hops; {
	case want > 0 && shows.hops > 0 && want != shows.hops:
		h.found(testbed.Wrong, where, fmt.Sprintf("a trace shows %s, %s, but `expect:` has %d: this is another path", quantity.Count(shows.hops, "hop"), shows.text, want), "find out which path they take, or correct `hops:`")
	case way == result.ProofTrace:
		h.found(testbed.Note, where, "a trace shows "+shows.text, "")
	case way == result.ProofTraceBack:
		text := fmt.Sprintf("%s traces back to %s and sees %s; that proves the way back, and the time to live on arrival the way there", h.e.Destination, h.e.Source, shows.text)
		if len(errs) > 0 {
			text = joined(errs) + ", so " + text
		}
		h.found(testbed.Note, where, text, "")
	case p.Proof != "":
		h.found(testbed.Wrong, where, fmt.Sprintf("must be proven by %s, but %v", p.Proof, joined(errs)), "leave `proof:` out, or name a possible proof")
	default:
		h.found(testbed.Warning, where, fmt.Sprintf("a trace does not show where it leads: %s", joined(errs)), "the TTL on arrival proves it, if nothing else does")
	}
	p.Proof, p.shows = cmp.Or(way, result.ProofTTL), shows
}

// chooseSwitched does so for the paths that are switched and that no trace had to prove
// in the rehearsal. One that leads nowhere now is traced before its trials as far as that
// can be.
func (h *Hosts) chooseSwitched(ctx context.Context) {
	for i := range h.places {
		p := &h.places[i]
		if len(p.Set) == 0 || p.Proof != "" {
			continue
		}
		if _, err := h.proveToken(ctx, *p); err == nil {
			h.chooseProof(ctx, p)
		} else if ways := h.ways(*p); len(ways) > 0 {
			p.Proof = ways[0]
		}
	}
}

// joined are errors in one line.
func joined(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// ways are the traces that may prove a path, the best first. What the first trial of the
// run saw can be compared with a trace of the same way only.
func (h *Hosts) ways(p place) (ways []result.PathProof) {
	if p.Proof != "" {
		return []result.PathProof{p.Proof}
	}
	// A trace follows the routes, which a bound interface may not.
	if p.Device == "" {
		ways = append(ways, result.ProofTrace)
	}
	if h.destination().client != nil {
		ways = append(ways, result.ProofTraceBack)
	}
	if p.before != "" {
		ways = slices.DeleteFunc(ways, func(way result.PathProof) bool { return way != p.before })
	}
	return ways
}

// trace is what a trace of a path that is switched shows now, as a text. Which way it goes
// is found out by the first that shows something, and is then the same for all paths
// with the same ends: traces of different ways cannot be compared.
func (h *Hosts) trace(ctx context.Context, path string) (string, error) {
	p, err := h.at(path)
	if err != nil {
		return "", err
	}
	if _, err := h.proveToken(ctx, p); err != nil { // who does not prove is not traced
		return "", err
	}
	way, shows, errs := h.bestWay(ctx, p)
	if way == "" {
		return "", fmt.Errorf("%s; if that stays so, give the switch proof: canary or proof: command", joined(errs))
	}
	for i := range h.places {
		if q := &h.places[i]; len(q.Set) > 0 && q.Proof == "" && q.SameAddresses(p.Path) {
			q.Proof = way
		}
	}
	return shows.text, nil
}

// bestWay is the first of the ways that shows something, empty where none does, and why
// those before it do not.
func (h *Hosts) bestWay(ctx context.Context, p place) (way result.PathProof, shows sight, errs []error) {
	ways := h.ways(p)
	if len(ways) == 0 {
		errs = append(errs, fmt.Errorf("a trace follows the routes, which interface %q of the path need not", p.Device))
	}
	for _, way := range ways {
		shows, err := h.traceAs(ctx, p, way)
		if err == nil {
			return way, shows, errs
		}
		errs = append(errs, err)
	}
	return "", sight{}, errs
}

// mostSilent is how often a path is traced of which a trace shows nothing.
const mostSilent = 2

// traceAs traces a path to which the source has proved the token. A trace by the source
// has to reach the destination. One back to it need not: few hosts answer who asks them for
// a connection, and a translator on the way lets nothing through.
func (h *Hosts) traceAs(ctx context.Context, p place, way result.PathProof) (sight, error) {
	who, towards, r := h.source(), h.e.Destination, h.request(p)
	if way == result.ProofTraceBack {
		who, towards, r = h.destination(), h.e.Source, h.back(p)
	}
	r.ID, r.Spec = "proof", testbed.TraceSpec()
	for range mostSilent {
		o, err := who.client.Run(ctx, r, nil)
		if err != nil {
			return sight{}, fmt.Errorf("%s cannot trace %s: %w", who.Name, towards, err)
		}
		if shows := shown(o.Hops); shows.reached || way == result.ProofTraceBack && shows.text != "" {
			return shows, nil
		}
	}
	return sight{}, fmt.Errorf("a trace by %s does not reach %s", who.Name, towards)
}

// sight is what a trace shows: its hops up to the last that answered, as a text, whether
// that is the end, and how many they are then, 0 where that varies with the flow.
type sight struct {
	text    string
	reached bool
	hops    int
}

// routers are its hops without the end.
func (s sight) routers() string {
	if !s.reached {
		return s.text
	}
	return s.text[:max(0, strings.LastIndexByte(s.text, ' '))]
}

func shown(hops []measurement.TraceHop) (s sight) {
	var all []string
	last := 0
	for _, hop := range hops {
		all = append(all, cmp.Or(hop.Address, switching.Silent))
		if hop.Address != "" {
			last = len(all)
		}
		if s.reached = hop.Reached; s.reached {
			if !slices.ContainsFunc(hops, func(h measurement.TraceHop) bool { return h.Varies }) {
				s.hops = hop.TTL
			}
			break
		}
	}
	s.text = strings.Join(all[:last], " ")
	return s
}

// proveToken has the source prove the token over a path, and keeps as whom the destination
// saw it.
func (h *Hosts) proveToken(ctx context.Context, p place) (probe.Proof, error) {
	proof, err := h.source().client.Prove(ctx, h.request(p))
	if err == nil {
		h.mu.Lock()
		h.clients[p.Name] = proof.Client.Addr()
		h.mu.Unlock()
	}
	return proof, err
}

// back is what the destination traces to see the way back: the source as it saw it last,
// at a port that is likely to answer.
func (h *Hosts) back(p place) probe.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	port := uint16(measurement.DefaultPort)
	if to := h.source().Reach; to.Scheme == inventory.ReachTLS {
		port = cmp.Or(to.Port, reach.DefaultPort)
	}
	return probe.Request{Source: p.listen.Addr(), Target: netip.AddrPortFrom(h.clients[p.Name], port), Token: h.token}
}
