package survey

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/result"
)

// Sequence is tests to do one after the other: a fixed List, or the Options of a
// profile, whose later tests depend on the earlier ones.
type Sequence interface {
	Next(done []Step) (result.TestInfo, bool)
	// Left are the tests still to come, as far as that can be foreseen.
	Left(done []Step) []result.TestInfo
}

// List is tests that were chosen beforehand.
type List []result.TestInfo

// Next is the first test that was not done.
func (l List) Next(done []Step) (result.TestInfo, bool) {
	if len(done) == len(l) {
		return result.TestInfo{}, false
	}
	return l[len(done)], true
}

// Left are the tests that were not done.
func (l List) Left(done []Step) []result.TestInfo { return l[len(done):] }

// Plan does the tests of a sequence on one path, and then the same tests again,
// block after block, each in a random order.
type Plan struct {
	path     string
	sequence Sequence
	blocks   int
	random   *rand.Rand
	steps    []Step                    // of the first block
	again    []experiment.PlannedTrial // the further blocks, once the first is over
	done     int
}

// NewPlan is the plan of so many blocks, whose order the seed decides.
func NewPlan(path string, s Sequence, blocks int, seed uint64) *Plan {
	return &Plan{path: path, sequence: s, blocks: blocks, random: rand.New(rand.NewPCG(seed, 0))}
}

// Steps are the tests of the first block that were done.
func (p *Plan) Steps() []Step { return p.steps }

// Current is the test that is next, or under way, and of which block; false when there is
// none.
func (p *Plan) Current() (test result.TestInfo, block int, ok bool) {
	if p.again == nil {
		test, ok = p.sequence.Next(p.steps)
		return test, 1, ok
	}
	if i := p.done - len(p.steps); i < len(p.again) {
		s, ok := find(p.steps, p.again[i].Test)
		return s.Test, p.again[i].Block, ok
	}
	return test, 0, false
}

// Next is the next trial to do; false when there is none.
func (p *Plan) Next() (experiment.PlannedTrial, bool) {
	if p.again == nil {
		if test, _, ok := p.Current(); ok {
			return p.planned(1, p.done+1, test), true
		}
		p.again = p.further()
	}
	if i := p.done - len(p.steps); i < len(p.again) {
		return p.again[i], true
	}
	return experiment.PlannedTrial{}, false
}

// further are the blocks after the first. Where no server could be used, there
// is nothing to repeat.
func (p *Plan) further() []experiment.PlannedTrial {
	out := []experiment.PlannedTrial{}
	if p.unserved() {
		return out
	}
	for block := 2; block <= p.blocks; block++ {
		for _, i := range p.random.Perm(len(p.steps)) {
			out = append(out, p.planned(block, len(p.steps)+len(out)+1, p.steps[i].Test))
		}
	}
	return out
}

// unserved says that no server could be used. Of tests that were chosen, one may have failed to
// connect where others did, or need another program; a profile does nothing more with a server
// that one of its tests could not use.
func (p *Plan) unserved() bool {
	if _, profile := p.sequence.(Options); profile {
		return LacksServer(p.steps)
	}
	return LacksServer(p.steps) && !slices.ContainsFunc(p.steps, func(s Step) bool { return s.counts() && !needsNoServer(s.Test.Spec.Kind) })
}

func (p *Plan) planned(block, order int, test result.TestInfo) experiment.PlannedTrial {
	return experiment.PlannedTrial{
		ID: fmt.Sprintf("b%02d-%s-%s", block, p.path, test.Name), Block: block, Order: order,
		Path: p.path, Test: test.Name, Spec: test.Spec,
	}
}

// Done hears of a trial; err is why its test failed.
func (p *Plan) Done(t measurement.Trial, err error) {
	if p.again == nil {
		test, _, _ := p.Current()
		p.steps = append(p.steps, Step{Test: test, Trial: t, NoServer: NoServer(err)})
	}
	p.done++
}

// Left are the trials still to come, as far as that can be foreseen.
func (p *Plan) Left() []experiment.PlannedTrial {
	if p.again != nil {
		return p.again[p.done-len(p.steps):]
	}
	tests := p.sequence.Left(p.steps)
	var left []experiment.PlannedTrial
	for _, test := range tests {
		left = append(left, p.planned(1, 0, test))
	}
	needs := func(test result.TestInfo) bool { return !needsNoServer(test.Spec.Kind) }
	if p.unserved() && !slices.ContainsFunc(tests, needs) {
		return left
	}
	for _, s := range p.steps {
		tests = append(slices.Clip(tests), s.Test)
	}
	for range p.blocks - 1 {
		for _, test := range tests {
			left = append(left, p.planned(0, 0, test))
		}
	}
	return left
}

// NoServer is why a test failed, if every other test that needs the server would fail in
// the same way, and else empty.
func NoServer(err error) probe.Reason {
	var failed *probe.Error
	var dial *net.OpError
	var version *protocol.VersionError
	switch errors.As(err, &failed); {
	case errors.As(err, &version), errors.Is(err, protocol.ErrMalformed), errors.Is(err, protocol.ErrNoServer), errors.Is(err, iperf3.ErrNoServer):
		return probe.Protocol
	case failed == nil, failed.Further:
		return ""
	case errors.As(err, &dial) && dial.Op == "dial" && strings.HasPrefix(dial.Net, "tcp"), failed.Reason == probe.Unauthorized:
		return failed.Reason
	}
	return ""
}
