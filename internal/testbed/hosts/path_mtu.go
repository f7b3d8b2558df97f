package hosts

import (
	"context"
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// sizes finds how large packets each path in force carries, by some of UDP: what lets the
// proof of the token and a trace pass may stop larger packets, or all of UDP.
func (h *Hosts) sizes(ctx context.Context) {
	h.eachInForce(func(p *place) { h.sizesOf(ctx, *p) })
}

func (h *Hosts) sizesOf(ctx context.Context, p place) {
	where := "path " + p.Name
	r := h.request(p)
	r.ID, r.Spec.Kind = "sizes", measurement.MTU
	r.Spec = r.Spec.Defaults()
	o, err := h.source().client.Run(ctx, r, nil)
	forward, reverse := o.Metrics["path_mtu_bytes"], o.Metrics["reverse_path_mtu_bytes"]
	switch {
	case probe.ReasonOf(err) == probe.Unsupported:
		h.found(testbed.Note, where, "how large packets it carries is not known: "+plain(err), "")
	case err != nil:
		h.withoutUDP(where, p, err)
	case o.Effective["path_mtu_limit"] == measurement.MTUBlackHole:
		h.found(testbed.Warning, where, fmt.Sprintf("packets of more than %.0f B vanish on the way, and no ICMP message says so", forward),
			"have what drops them answer that they are too big (RFC 1191, RFC 8201), or clamp the MSS, or lower the MTU at both ends; tests whose packets are larger fail")
	case p.Expect.PathMTUBytes > 0 && p.Expect.PathMTUBytes != int(forward):
		h.found(testbed.Wrong, where, fmt.Sprintf("carries packets of %.0f B, but `expect:` has %d B: this is another path", forward, p.Expect.PathMTUBytes), "find out which path they take, or correct `path_mtu:`")
	case reverse > 0 && reverse < forward:
		h.found(testbed.Note, where, fmt.Sprintf("carries packets of %.0f B forward and %.0f B reverse", forward, reverse), "")
	default:
		h.found(testbed.Note, where, fmt.Sprintf("carries packets of %.0f B", forward), "")
	}
}

// withoutUDP says that no packet of UDP came back on a path, and which tests that keeps from
// being measured.
func (h *Hosts) withoutUDP(where string, p place, why error) {
	var over []string
	for _, t := range h.e.Tests {
		if kind.OverUDP(t.Spec.Defaults()) {
			over = append(over, t.Name)
		}
	}
	text := "packets of UDP do not get through: " + plain(why)
	if len(over) == 0 {
		h.found(testbed.Note, where, text+"; no test of the experiment needs them", "")
		return
	}
	h.found(testbed.Warning, where, text, fmt.Sprintf("open port %d of UDP towards %s on the way, or leave out what needs it: %s", p.to.Port(), h.e.Destination, strings.Join(over, ", ")))
}
