package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// place is where a path of the experiment is.
type place struct {
	inventory.Path
	// to is what the source dials and listen where the destination does, with ports.
	to, listen netip.AddrPort
	// shows is what a trace showed when the proof of the path, which the file may leave
	// open, was chosen.
	shows sight
	// before is what proved the path in an earlier session of the run, empty without one.
	before result.PathProof
}

// place finds where the paths are, and whether the ends have their addresses.
func (h *Hosts) place(context.Context) {
	for _, path := range h.e.Paths {
		at := slices.IndexFunc(h.inventory.Paths, func(p inventory.Path) bool { return p.Name == path.Name })
		p := place{Path: h.inventory.Paths[at]}
		p.to, p.listen = p.Ends(h.serverPort())
		if !p.Listen.IsValid() {
			p.listen = netip.AddrPortFrom(h.destination().own(p.to.Addr()), p.to.Port())
		}
		if k := slices.IndexFunc(h.Before, func(b result.TestbedPath) bool { return b.Name == path.Name }); k >= 0 {
			p.before = h.Before[k].Proof
		}
		if p.before == result.ProofTTL {
			p.Proof = result.ProofTTL
		}
		if family := h.ofFamily(p.to.Addr()); len(family) == 0 {
			h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("goes to %v, and %s has no address of that family", p.to.Addr(), h.e.Source), "give `to:` one of its family; its addresses are "+listed(h.source().addresses()))
			continue
		}
		if p.From.IsValid() && !h.source().has(p.From) {
			h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("begins at %v, which is on no interface of %s", p.From, h.e.Source), "correct `from:`; its addresses are "+listed(h.source().addresses()))
		}
		if !h.destination().has(p.listen.Addr()) {
			remedy := "correct `to:`; its addresses are " + listed(h.destination().addresses())
			if !p.Listen.IsValid() {
				remedy = "if it is translated on the way (NAT), say with `listen:` which of these it becomes: " + listed(h.destination().addresses())
			}
			h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("ends at %v, which is on no interface of %s", p.listen.Addr(), h.e.Destination), remedy)
		}
		h.places = append(h.places, p)
	}
}

// ofFamily are the source's addresses of the IP version of another.
func (h *Hosts) ofFamily(a netip.Addr) []netip.Addr {
	all := h.source().addresses()
	if a.IsLinkLocalUnicast() {
		all = append(all, h.source().onLinks()...)
	}
	return slices.DeleteFunc(all, func(own netip.Addr) bool { return own.Is4() != a.Is4() && !a.IsLoopback() })
}

// serverPort is where the destination listens, if a path does not say otherwise.
func (h *Hosts) serverPort() uint16 {
	if e := h.destination(); e.client == nil {
		return cmp.Or(e.Reach.Port, measurement.DefaultPort)
	}
	return measurement.DefaultPort
}

// listen has the destination listen at every address that a path ends at.
func (h *Hosts) listen(ctx context.Context) {
	far := h.destination()
	if far.client == nil {
		return // it does already
	}
	done := map[netip.AddrPort]bool{}
	for _, p := range h.places {
		if done[p.listen] {
			continue
		}
		done[p.listen] = true
		serving := agent.Serving{Token: h.token, IPerf3: h.e.SpeaksIPerf3()}
		if _, err := far.client.Listen(ctx, p.listen, serving); err != nil {
			h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("%s cannot listen at %v: %v", far.Name, p.listen, plain(err)), "another program may have it, such as hopbench for another coordinator: wait until that has ended, or give a free port with `to: ADDRESS:PORT`, and open it along the path")
		}
	}
}

// proofToken is what the destination wants proven.
func (h *Hosts) proofToken() string {
	if h.destination().client == nil {
		return h.Token
	}
	return h.token
}

// prove proves that each path leads to the destination, by the token, without load. Those
// that are switched may not be in force now.
func (h *Hosts) prove(ctx context.Context) {
	h.eachInForce(func(p *place) { h.provePath(ctx, *p) })
}

// eachInForce does something for every path that is not switched, at the same time.
func (h *Hosts) eachInForce(do func(*place)) {
	var group sync.WaitGroup
	for i := range h.places {
		if len(h.places[i].Set) == 0 {
			group.Go(func() { do(&h.places[i]) })
		}
	}
	group.Wait()
}

func (h *Hosts) provePath(ctx context.Context, p place) {
	proof, err := h.proveToken(ctx, p)
	if err != nil {
		h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("%s does not reach %s at %v: %v", h.e.Source, h.e.Destination, p.to, err), h.unreached(ctx, p, err))
		return
	}
	text := fmt.Sprintf("%s reaches %s at %v", h.e.Source, h.e.Destination, p.to)
	if !h.source().has(proof.Client.Addr()) {
		text += fmt.Sprintf(", translated to %v on the way", proof.Client.Addr())
	}
	if proof.MSSBytes > 0 {
		text += fmt.Sprintf(", in segments of %d bytes", proof.MSSBytes)
	}
	if proof.ReceivedTTL > 0 {
		text += fmt.Sprintf(", with a time to live of %d left", proof.ReceivedTTL)
	}
	if want := p.Expect.ReceivedTTL; want > 0 && proof.ReceivedTTL > 0 && want != proof.ReceivedTTL {
		h.found(testbed.Wrong, "path "+p.Name, fmt.Sprintf("packets arrive with a TTL of %d, but `expect:` has %d: this is another path", proof.ReceivedTTL, want), "find out which path they take, or correct `received_ttl:`")
		return
	}
	h.found(testbed.Note, "path "+p.Name, text, "")
	h.unserved(p.Name, proof.Client.Addr())
}

// alike finds the paths in force of which traces show the same.
func (h *Hosts) alike(context.Context) {
	for i, p := range h.places {
		for _, other := range h.places[:i] {
			if p.shows.text != "" && p.Proof == other.Proof && p.shows.routers() == other.shows.routers() && other.shows.text != "" {
				h.found(testbed.Warning, fmt.Sprintf("paths %s and %s", other.Name, p.Name), "look the same to a trace", "if a hop is to be on one of them only, it is invisible to a trace (a bridge), or a route is wrong")
			}
		}
	}
}

// request is what all tests on a path have in common.
func (h *Hosts) request(p place) probe.Request {
	return probe.Request{Source: p.From, Target: p.to, Token: h.proofToken(), Spec: measurement.Spec{Device: p.Device, DSCP: max(p.DSCP, 0)}}
}

// asTestbed is a path as a trial takes it.
func (h *Hosts) asTestbed(p place) testbed.Path {
	pair := testbed.Pair{
		Source: h.e.Source, Destination: h.e.Destination, Request: h.request(p),
		Expect: testbed.Expectation{
			ReceivedTTL: p.Expect.ReceivedTTL, HopCount: p.Expect.Hops, PathMTUBytes: p.Expect.PathMTUBytes,
			Learned: true, Traced: p.Proof == result.ProofTrace,
		},
	}
	if p.Proof == result.ProofTraceBack {
		pair.Back = new(h.back(p))
	}
	return testbed.Path{
		Name: p.Name, Pairs: []testbed.Pair{pair},
		Limits: testbed.Limits{
			SourceEgressBitsPerSecond:      h.source().EgressBitsPerSecond,
			DestinationEgressBitsPerSecond: h.destination().EgressBitsPerSecond,
		},
	}
}

// info is what a result says of where a path is.
func (p place) info() result.TestbedPath {
	out := result.TestbedPath{Name: p.Name, To: p.to.String(), Device: p.Device, DSCP: max(p.DSCP, 0), Set: p.Set, Proof: cmp.Or(p.Proof, result.ProofTTL)}
	if p.From.IsValid() {
		out.From = p.From.String()
	}
	if p.listen != p.to {
		out.Listen = p.listen.String()
	}
	return out
}

// unreached says what to do about a path on which the source did not reach the
// destination.
func (h *Hosts) unreached(ctx context.Context, p place, err error) string {
	reason := probe.Failed
	if known, ok := errors.AsType[*probe.Error](err); ok {
		reason = known.Reason
	}
	switch {
	case reason == probe.Unauthorized && h.destination().client == nil:
		return "give both ends the same token: `token_file:` here, --token-file there"
	case reason == probe.Unauthorized, reason == probe.Protocol:
		return "another program or another agent answers there; correct `to:`, or give another port with it"
	case reason == probe.Unsupported:
		return "correct what the path sets, `from:`, `device:` or `dscp:`, or leave it out"
	case h.backwards(ctx, p):
		return fmt.Sprintf("the other way %s reaches %s: make %s the source of the experiment, as the source always dials", h.e.Destination, h.e.Source, h.e.Destination)
	}
	if reason == probe.Refused && h.destination().client == nil {
		return fmt.Sprintf("see that hopbench serve runs there with port %d, which a firewall may refuse as well, or correct `to:`", p.to.Port())
	}
	return fmt.Sprintf("open port %d of TCP and UDP towards %s on the way, or correct `to:`", p.to.Port(), h.e.Destination)
}

// backwards says whether the destination reaches the source.
func (h *Hosts) backwards(ctx context.Context, p place) bool {
	at := p.From
	if own := h.ofFamily(p.to.Addr()); !at.IsValid() && len(own) > 0 {
		at = own[0]
	}
	near, far := h.source().client, h.destination().client
	if far == nil || !at.IsValid() {
		return false
	}
	bound, err := near.Listen(ctx, netip.AddrPortFrom(at, 0), agent.Serving{Token: h.token})
	if err != nil {
		return false
	}
	_, err = far.Prove(ctx, probe.Request{Target: bound, Token: h.token})
	return errors.Join(err, near.Unlisten(ctx, bound)) == nil
}
