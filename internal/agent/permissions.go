package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
)

// permit says why a coordinator may not have this agent do a test, and sets the agent's
// own bound of its rate. In a lab everything is permitted.
func (s *server) permit(r *probe.Request) error {
	if s.opts.Lease == 0 {
		return nil
	}
	spec := r.Spec.Defaults()
	op := fmt.Sprintf("%s test to %s", spec.Kind, r.Target)
	if err := kind.Check(spec).Err(); err != nil {
		return &probe.Error{Op: op, Reason: probe.Failed, Err: err}
	}
	if err := s.opts.Limits.Refuse(spec); err != nil {
		return &probe.Error{Op: op, Reason: probe.Limit, Err: err}
	}
	if most := s.opts.Limits.MaxRateBitsPerSecond; most > 0 && spec.FilePath != "" {
		return &probe.Error{Op: op, Reason: probe.Limit, Err: fmt.Errorf(
			"this agent bounds the rate of a test (%s; --max-rate), and nothing paces what a stock FTP server sends", quantity.FormatRate(most))}
	}
	r.MaxRateBitsPerSecond = s.opts.Limits.MaxRateBitsPerSecond
	if probe.Proves(spec) {
		return nil
	}
	return s.permitTarget(op, r.Target.Addr(), spec.Kind == measurement.Ping || spec.Kind == measurement.Trace)
}

// permitTarget says why nothing may be sent to an address without proof of the token. A
// proof that was given in this session is good for what is no load.
func (s *server) permitTarget(op string, target netip.Addr, proofWillDo bool) error {
	target = target.Unmap()
	// A prefix has no interface, and contains no address that has one.
	if slices.ContainsFunc(s.opts.AllowTargets, func(p netip.Prefix) bool { return p.Contains(target.WithZone("")) }) {
		return nil
	}
	s.mu.Lock()
	_, proven := s.proven[target]
	s.mu.Unlock()
	switch {
	case proofWillDo && proven:
		return nil
	case proofWillDo:
		return &probe.Error{Op: op, Reason: probe.Limit, Err: fmt.Errorf(
			"this agent sends nothing to %s, which has not proved the token in this session (hopbench agent --allow-target lifts that)", target)}
	}
	return &probe.Error{Op: op, Reason: probe.Limit, Err: fmt.Errorf(
		"the protocol of this test cannot prove the token, and this agent sends load to %s only when it was started with --allow-target and a prefix that contains it", target)}
}

// maxProven bounds how many addresses are remembered.
const maxProven = 10_000

// noteProven remembers that an address proved the token: a server that this agent
// connected to, or a client of its own.
func (s *server) noteProven(target netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.proven) < maxProven {
		s.proven[target.Unmap()] = struct{}{}
	}
}
