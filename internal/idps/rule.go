package idps

import (
	"net/netip"
	"regexp"
	"slices"
)

// Action is what the author of a rule wants done. What is done depends on the
// [Mode] of the inspector alone, but that a flow that matches a pass rule is
// inspected no further.
type Action string

// The actions.
const (
	ActionAlert  Action = "alert"
	ActionDrop   Action = "drop"
	ActionReject Action = "reject"
	ActionPass   Action = "pass"
)

// Rule is one rule that was read and can be applied.
type Rule struct {
	Action   Action
	SID      uint32 // signature id, one of its own within GID
	GID      uint32 // of the group, 1 unless stated
	Revision uint32
	Message  string
	Class    string // classtype, may be empty
	Line     int    // in its file, counted from 1

	tcp, udp                      bool
	source, destination           set[netip.Prefix]
	sourcePorts, destinationPorts set[portRange]
	bidirectional                 bool

	flow  flowCondition
	steps []step
	// fast is the step that the automaton looks for, -1 for a rule that has no
	// content and applies to a flow as such.
	fast int
	bits []bitOperation
	// silent rules set flowbits and do nothing else.
	silent bool
	// alone says that finding the fast step is all there is to it.
	alone bool
}

// flowCondition is what the option flow asks for.
type flowCondition struct {
	established, notEstablished bool
	toServer, toClient          bool
}

// step is a content or an expression to find in the payload.
type step struct {
	content    []byte         // nil for an expression
	folded     []byte         // content in lower case, when nocase
	expression *regexp.Regexp // nil for a content
	// fromStart says that the expression holds at the start of the payload
	// only, fromLine that it looks for starts of lines.
	fromStart, fromLine bool

	negated  bool
	relative bool // from is counted from the end of the step before
	bounded  bool // the match ends at most span bytes behind from
	from     int  // offset, or distance
	span     int  // depth, or within
}

// bitVerb is what is done with a flowbit.
type bitVerb uint8

const (
	bitSet bitVerb = iota
	bitUnset
	bitToggle
	bitIsSet
	bitIsNotSet
)

type bitOperation struct {
	verb bitVerb
	bit  int // index into the flow's bits
}

// set is any member of in, or any at all when that is empty, that is in none of out.
type set[T any] struct{ in, out []T }

func (s *set[T]) contains(matches func(T) bool) bool {
	return (len(s.in) == 0 || slices.ContainsFunc(s.in, matches)) && !slices.ContainsFunc(s.out, matches)
}

func (s *set[T]) add(member T, negated bool) {
	if negated {
		s.out = append(s.out, member)
	} else {
		s.in = append(s.in, member)
	}
}

// portRange is inclusive.
type portRange struct{ first, last uint16 }

// covers tells whether the rule's header holds for payload that travels so.
func (r *Rule) covers(source, destination netip.AddrPort) bool {
	if r.covered(source, destination) {
		return true
	}
	return r.bidirectional && r.covered(destination, source)
}

func (r *Rule) covered(source, destination netip.AddrPort) bool {
	at := func(end netip.AddrPort, addresses *set[netip.Prefix], ports *set[portRange]) bool {
		return ports.contains(func(r portRange) bool { return r.first <= end.Port() && end.Port() <= r.last }) &&
			addresses.contains(func(p netip.Prefix) bool { return p.Contains(end.Addr()) })
	}
	return at(source, &r.source, &r.sourcePorts) && at(destination, &r.destination, &r.destinationPorts)
}

// sets tells whether the rule changes flowbits, which must happen before other
// rules of the same place ask for them.
func (r *Rule) sets() bool {
	for _, b := range r.bits {
		if b.verb <= bitToggle {
			return true
		}
	}
	return false
}
