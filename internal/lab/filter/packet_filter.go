package filter

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// Table is the packet filter of one node. The zero value does nothing.
type Table struct {
	// Silent keeps the node from sending ICMP of its own: no time exceeded, no
	// destination unreachable (fragmentation needed among them), no echo reply.
	// What it forwards is not touched.
	Silent bool `json:"silent,omitempty"`
	// Firewall, when not nil, refuses what it does not know.
	Firewall *Firewall `json:"firewall,omitempty"`
	// NAT, when not nil, translates addresses.
	NAT *NAT `json:"nat,omitempty"`
	// FlowLimit is how many flows may pass at a time, 0 for any number: the
	// first packet of a flow beyond it is dropped.
	FlowLimit int `json:"flow_limit,omitempty"`
}

// Firewall is a stateful rule set. Packets of a flow that it let in, and ICMP
// errors about one, pass at once. The first packet of a flow is compared with
// Rules rules in turn, none of which matches it, and then passes if it is TCP,
// UDP or ICMP between the two ends of a pair, in either direction. Everything
// else is dropped.
type Firewall struct {
	Rules int    `json:"rules"`
	Pairs []Pair `json:"pairs"`
	// OneWay says that the firewall sees one direction of its flows only: it
	// then lets packets pass that connection tracking calls invalid, as it does
	// every packet of a TCP flow whose answers it never saw.
	OneWay bool `json:"one_way,omitempty"`
}

// Pair is two addresses that may talk to each other.
type Pair struct {
	A netip.Addr `json:"a"`
	B netip.Addr `json:"b"`
}

// NAT replaces addresses: the source of what leaves towards the destination,
// the destination of what comes for a public address, or both.
type NAT struct {
	// Inside is the interface towards the source. Source, an address of the node,
	// replaces the source address of what leaves by any other: several may lead to the
	// destination. Both empty leave sources alone.
	Inside string     `json:"inside,omitempty"`
	Source netip.Addr `json:"source,omitzero"`
	// Public is the address whose packets go to Destination instead; both
	// invalid leave destinations alone.
	Public      netip.Addr `json:"public,omitzero"`
	Destination netip.Addr `json:"destination,omitzero"`
}

// ruleRange are the source addresses that the rules of a firewall look for, one
// each: those reserved for benchmarks (RFC 2544, appendix C.2.2), which no
// packet of a lab has.
var ruleRange = netip.MustParsePrefix("198.18.0.0/15")

// Bounds of a table.
const (
	MaxRules     = 1 << 17 // one for each address of 198.18.0.0/15
	MaxPairs     = 1 << 12
	MaxFlowLimit = math.MaxInt32 // what the kernel counts up to (nf_conncount.c)
)

// Validate checks that t can be applied and reports every fault it finds.
func (t Table) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f := t.Firewall; f != nil {
		if f.Rules < 0 || f.Rules > MaxRules {
			fault("a firewall of %d rules: it may have 0 to %d", f.Rules, MaxRules)
		}
		if len(f.Pairs) == 0 || len(f.Pairs) > MaxPairs {
			fault("a firewall between %d pairs of addresses: it may have 1 to %d", len(f.Pairs), MaxPairs)
		}
		for _, p := range f.Pairs {
			if !p.A.Is4() || !p.B.Is4() {
				fault("a firewall between %v and %v: both must be IPv4 addresses", p.A, p.B)
			}
		}
	}
	if n := t.NAT; n != nil {
		if n.Source.IsValid() != (n.Inside != "") {
			fault("address translation needs a source address (%v) and the interface (%q) where it is not put in, or neither", n.Source, n.Inside)
		}
		if n.Public.IsValid() != n.Destination.IsValid() {
			fault("address translation needs a public address (%v) and the destination (%v) behind it, or neither", n.Public, n.Destination)
		}
		for _, a := range []netip.Addr{n.Source, n.Public, n.Destination} {
			if a.IsValid() && !a.Is4() {
				fault("address translation to or from %v: only IPv4 can be translated", a)
			}
		}
		if !n.Source.IsValid() && !n.Public.IsValid() {
			fault("address translation that translates neither sources nor destinations")
		}
		if len(n.Inside) >= interfaceNameBytes {
			fault("address translation at interface %q: a name has at most %d bytes", n.Inside, interfaceNameBytes-1)
		}
	}
	if t.FlowLimit < 0 || t.FlowLimit > MaxFlowLimit {
		fault("a limit of %d flows is not between 0 and %d", t.FlowLimit, MaxFlowLimit)
	}
	return errors.Join(errs...)
}

// interfaceNameBytes is IFNAMSIZ of linux/if.h.
const interfaceNameBytes = 16

// Tracks says whether the node keeps a table of connections for t.
func (t Table) Tracks() bool { return t.Firewall != nil || t.NAT != nil || t.FlowLimit > 0 }

// drops says whether t may drop packets that the node forwards.
func (t Table) drops() bool { return t.Firewall != nil || t.FlowLimit > 0 }

// Line is the table in a plan.
func (t Table) Line(node string) string { return fmt.Sprintf("filter %s %s", node, t) }

// String is the table in a few words.
func (t Table) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if f := t.Firewall; f != nil {
		between := fmt.Sprintf("%d pairs of addresses", len(f.Pairs))
		if len(f.Pairs) == 1 {
			between = fmt.Sprintf("%v and %v", f.Pairs[0].A, f.Pairs[0].B)
		}
		way := ""
		if f.OneWay {
			way = ", one way"
		}
		add("firewall of %d rules between %s%s", f.Rules, between, way)
	}
	if n := t.NAT; n != nil {
		if n.Public.IsValid() {
			add("destination %v becomes %v", n.Public, n.Destination)
		}
		if n.Source.IsValid() {
			add("source becomes %v but at %s", n.Source, n.Inside)
		}
	}
	if t.FlowLimit > 0 {
		add("at most %d flows", t.FlowLimit)
	}
	if t.Silent {
		add("silent")
	}
	return strings.Join(parts, "; ")
}
