package hosts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/result"
)

// compareEnds looks at what the ends said of themselves.
func (h *Hosts) compareEnds() {
	source, destination := h.source(), h.destination()
	if source == nil || destination == nil {
		return
	}
	for _, e := range []*end{source, destination} {
		if e.client == nil {
			h.found(Note, "endpoint "+e.Name, "is a server; its machine and clock are not known before the first trial", "")
			continue
		}
		h.found(Note, "endpoint "+e.Name, fmt.Sprintf("is %s, %s/%s, hopbench %s", e.hello.Host, e.hello.OS, e.hello.Arch, e.hello.Version), "")
		if own := hostinfo.Version(); e.hello.Version != own {
			h.found(Warning, "endpoint "+e.Name, fmt.Sprintf("runs hopbench %s, and this is %s", e.hello.Version, own), "use one version at all ends")
		}
	}
	switch {
	case !h.oneMachine():
	case source.hello.NetworkID == destination.hello.NetworkID:
		h.found(Wrong, fmt.Sprintf("endpoints %s and %s", source.Name, destination.Name), "are one and the same host, so that nothing would leave it", "correct the `reach:` of one of them")
	default:
		h.found(Warning, fmt.Sprintf("endpoints %s and %s", source.Name, destination.Name), "share one machine", "")
	}
}

// oneMachine says that both ends are on one machine.
func (h *Hosts) oneMachine() bool {
	a, b := h.source().hello.HostID, h.destination().hello.HostID
	return a != "" && a == b
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

// listed are addresses in a sentence.
func listed(all []netip.Addr) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
