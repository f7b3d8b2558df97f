package hosts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
)

// compareEnds looks at what the ends said of themselves.
func (h *Hosts) compareEnds() {
	var ends []*end
	for _, e := range h.needed() {
		if reached := h.ends[e.Name]; reached != nil {
			ends = append(ends, reached)
		}
	}
	for i, e := range ends {
		where := "endpoint " + e.Name
		if e.client == nil {
			h.found(testbed.Note, where, "is a server, which reports nothing about itself before the first trial", "")
			continue
		}
		h.found(testbed.Note, where, fmt.Sprintf("is host %s, %s/%s, hopbench %s", e.hello.Host, e.hello.OS, e.hello.Arch, e.hello.Version), "")
		if own := hostinfo.Version(); e.hello.Version != own {
			h.found(testbed.Warning, where, fmt.Sprintf("runs hopbench %s, and this is %s", e.hello.Version, own), "use one version at all ends")
		}
		for _, other := range ends[:i] {
			where := fmt.Sprintf("endpoints %s and %s", other.Name, e.Name)
			switch {
			case !oneMachine(e, other):
			case e.hello.NetworkID == other.hello.NetworkID:
				h.found(testbed.Wrong, where, "are one and the same host, so no packet would leave it", "correct the `reach:` of one of them")
			default:
				h.found(testbed.Warning, where, "share one machine", "")
			}
		}
		h.limits(e)
	}
}

// limits finds the tests that an agent's own limits refuse.
func (h *Hosts) limits(e *end) {
	if h.e == nil {
		return
	}
	l := probe.Limits{MaxRateBitsPerSecond: e.hello.MaxRateBitsPerSecond, MaxDuration: e.hello.MaxDuration.Duration(), MaxFlows: e.hello.MaxFlows}
	for _, test := range h.e.Tests {
		spec := test.Spec.Defaults()
		if k, _ := kind.Of(spec.Kind); e.Name != h.e.Source && (k.NoServer || spec.FilePath != "") {
			continue // the agent there takes no part in it
		}
		if err := l.Refuse(spec); err != nil {
			h.found(testbed.Wrong, "test "+test.Name, fmt.Sprintf("is refused by the agent of %s: %v", e.Name, err), "start that agent with higher limits, or reduce the test")
		}
		if e.Name == h.e.Source {
			h.unproven(e, test)
		}
	}
}

// unproven finds a test whose protocol cannot prove the token, and which the source's agent
// therefore does only where it was allowed to.
func (h *Hosts) unproven(e *end, test experiment.Test) {
	spec := test.Spec.Defaults()
	if e.hello.Lease == 0 || spec.Kind == measurement.Ping || spec.Kind == measurement.Trace || probe.Proves(spec) {
		return
	}
	for _, p := range h.inventory.Paths {
		needed := slices.ContainsFunc(h.e.Paths, func(of experiment.Path) bool { return of.Name == p.Name })
		to := p.To.Addr().Unmap().WithZone("") // which no prefix has
		if needed && !slices.ContainsFunc(e.hello.AllowTargets, func(allowed netip.Prefix) bool { return allowed.Contains(to) }) {
			h.found(testbed.Wrong, "test "+test.Name, fmt.Sprintf("cannot prove the token, and the agent of %s sends such load to no address that it was not allowed, as %v on path %s", e.Name, to, p.Name),
				fmt.Sprintf("start that agent with --allow-target %v/%d, or leave that test out", to, to.BitLen()))
		}
	}
}

// unserved finds that the destination's agent does not serve iperf3 on a path, whose clients prove
// nothing: it was not allowed the address that it sees the source come from.
func (h *Hosts) unserved(path string, from netip.Addr) {
	far := h.destination()
	from = from.Unmap().WithZone("") // which no prefix has
	if !h.e.SpeaksIPerf3() || far.client == nil || far.hello.Lease == 0 ||
		slices.ContainsFunc(far.hello.AllowTargets, func(allowed netip.Prefix) bool { return allowed.Contains(from) }) {
		return
	}
	h.found(testbed.Wrong, "path "+path, fmt.Sprintf("iperf3 cannot prove the token, and the agent of %s serves such clients from no address that it was not allowed, as %v, from which %s comes", far.Name, from, h.e.Source),
		fmt.Sprintf("start that agent with --allow-target %v/%d, or leave iperf3 out", from, from.BitLen()))
}

// oneMachine says that two ends are on one machine.
func oneMachine(a, b *end) bool {
	return a.hello.HostID != "" && a.hello.HostID == b.hello.HostID
}

const (
	// knownWithin is how long it is waited for what there is to know of the agents' clocks.
	knownWithin = 5 * time.Second
	// driftSpan is the time of exchanges over which a drift is looked for.
	driftSpan = 3 * time.Second
)

// clocks says how the clocks of the agents that were reached stand to this process's. It
// comes last: the longer an agent has been there, the better its drift is known. Nobody
// waits for that who has something else to put right.
func (h *Hosts) clocks(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	span := driftSpan
	if h.wrong() != nil {
		span = 0
	}
	for _, e := range h.needed() {
		reached := h.ends[e.Name]
		if reached == nil || reached.client == nil {
			continue
		}
		c, known := reached.client.Clock()
		for ctx.Err() == nil && (!known || c.DriftUncertainty >= clock.MaxDrift && c.Span < span) {
			select {
			case <-ctx.Done():
			case <-time.After(knownWithin / 100):
			}
			c, known = reached.client.Clock()
		}
		if known {
			h.found(testbed.Note, "endpoint "+e.Name, standing(c), "")
		} else {
			h.found(testbed.Warning, "endpoint "+e.Name, "its clock offset is unknown so far", "")
		}
	}
}

// standing says how a clock stands to this process's.
func standing(c clock.Estimate) string {
	side := "ahead"
	if c.Offset < 0 {
		side = "behind"
	}
	text := fmt.Sprintf("its clock is %v %s, known to within %v; ", c.Offset.Abs().Round(time.Microsecond), side, c.Uncertainty.Round(time.Microsecond))
	span := c.Span.Round(time.Millisecond)
	if c.DriftUncertainty >= clock.MaxDrift {
		return text + fmt.Sprintf("%v of exchanges bound its drift no better than the ± %.0f ppm that any clock may have", span, clock.MaxDrift*1e6)
	}
	return text + fmt.Sprintf("its drift is %+.1f ± %.1f ppm, from exchanges over %v", c.Drift*1e6, c.DriftUncertainty*1e6, span)
}

// info is what a result says of an end.
func (e *end) info() result.TestbedEndpoint {
	return result.TestbedEndpoint{
		Name: e.Name, Reach: string(e.Reach.Scheme), Host: e.hello.Host, Version: e.hello.Version,
		EgressBitsPerSecond: e.EgressBitsPerSecond, Environment: e.hello.Environment,
	}
}

// has says whether an address is one of the end's; a server does not tell.
func (e *end) has(a netip.Addr) bool {
	return e.client == nil || slices.ContainsFunc(e.hello.Interfaces, func(i agent.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(own netip.Addr) bool { return own.WithZone("") == a.WithZone("") })
	})
}

// addresses are those of the end that others may reach.
func (e *end) addresses() []netip.Addr {
	var all []netip.Addr
	for _, i := range e.hello.Interfaces {
		for _, a := range i.Addresses {
			if !a.IsLoopback() && !a.IsLinkLocalUnicast() {
				all = append(all, a)
			}
		}
	}
	return all
}

// onLinks are those of the end that others on the same link may reach, with its interfaces.
func (e *end) onLinks() []netip.Addr {
	var all []netip.Addr
	for _, i := range e.hello.Interfaces {
		for _, a := range i.Addresses {
			if a.IsLinkLocalUnicast() {
				all = append(all, a.WithZone(i.Name))
			}
		}
	}
	return all
}

// own is an address as the end itself has it: the interface of one of a link is another at
// each end (RFC 4007, section 6).
func (e *end) own(a netip.Addr) netip.Addr {
	all := e.onLinks()
	if a.Zone() == "" || slices.Contains(all, a) {
		return a
	}
	if i := slices.IndexFunc(all, func(own netip.Addr) bool { return own.WithZone("") == a.WithZone("") }); i >= 0 {
		return all[i]
	}
	return a
}

// listed are addresses in a sentence.
func listed(all []netip.Addr) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
