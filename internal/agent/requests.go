package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

func (s *server) handle(ctx context.Context, r request) reply {
	var answer reply
	var err error
	switch {
	case r.Op == opHello && r.Hello != nil:
		if err = checkVersions(*r.Hello); err == nil {
			answer.Hello = s.hello(ctx)
		}
	case r.Op == opListen && r.Listen != nil:
		answer.Listen, err = s.listen(*r.Listen)
	case r.Op == opUnlisten && r.Unlisten != nil:
		err = s.unlisten(*r.Unlisten)
	case r.Op == opRun && r.Run != nil:
		answer.Outcome, answer.Stamp, err = s.run(ctx, r)
	case r.Op == opProve && r.Run != nil:
		answer.Proof, err = s.prove(ctx, *r.Run)
	case r.Op == opCounters:
		answer.Stamp = s.clock.Now()
		answer.Counters, err = readCounters(r.Interface)
	case r.Op == opCanary && r.Canary != nil:
		answer.Canary, err = s.canary(ctx, *r.Canary)
	case r.Op == opStood && s.standstills != nil:
		answer.Stood, answer.Lost = s.standstills.Longest(r.Past), s.lost(r.Addresses)
	default:
		err = &probe.Error{Op: r.Op, Reason: probe.Protocol, Err: fmt.Errorf("unknown operation %q", r.Op)}
	}
	if err != nil {
		return reply{Error: errorOf(r.Op, err)}
	}
	return answer
}

func errorOf(op string, err error) *replyError {
	if known, ok := errors.AsType[*probe.Error](err); ok {
		return &replyError{Op: known.Op, Reason: known.Reason, Message: known.Err.Error()}
	}
	return &replyError{Op: op, Reason: probe.Failed, Message: err.Error()}
}

// checkVersions says why a coordinator and this agent cannot understand each other.
func checkVersions(h helloRequest) error {
	if h.Protocol == protocol.AgentVersion {
		return nil
	}
	return &probe.Error{Op: opHello, Reason: probe.Protocol, Err: fmt.Errorf(
		"the agent is hopbench %s, version %d of the agents' protocol, and its coordinator hopbench %s, version %d: use the same hopbench at both ends",
		hostinfo.Version(), protocol.AgentVersion, h.Version, h.Protocol)}
}

// claim keeps other coordinators from this agent's host, or says who has it.
func (s *server) claim(coordinator string) (err error) {
	if s.opts.Claim == nil {
		return nil
	}
	if s.letGo, err = s.opts.Claim(s.ctx, coordinator); err != nil {
		return &probe.Error{Op: opHello, Reason: probe.Limit, Err: err}
	}
	return nil
}

// refuseStranger says why a request is refused that came before a right hello.
func (s *server) refuseStranger(r request) *replyError {
	theirs := helloRequest{Version: "of a version without hello"}
	if r.Op == opHello && r.Hello != nil {
		theirs = *r.Hello
	}
	return errorOf(r.Op, checkVersions(theirs))
}

func (s *server) hello(ctx context.Context) *Hello {
	h := s.machine(ctx)
	h.Protocol, h.Version = protocol.AgentVersion, hostinfo.Version()
	h.Lease = measurement.SecondsOf(s.opts.Lease)
	h.MaxRateBitsPerSecond = s.opts.Limits.MaxRateBitsPerSecond
	h.MaxDuration = measurement.SecondsOf(s.opts.Limits.MaxDuration)
	h.MaxFlows = s.opts.Limits.MaxFlows
	h.AllowTargets = s.opts.AllowTargets
	return &h
}

// machine is what there is to say of this machine.
func (s *server) machine(ctx context.Context) Hello {
	if s.opts.Simulated != nil {
		return s.opts.Simulated.Hello
	}
	environment := hostinfo.End()
	maps.Copy(environment, hostinfo.Hardware(ctx))
	return Hello{
		Host: environment["host"], OS: runtime.GOOS, Arch: runtime.GOARCH,
		HostID: hostinfo.HostID(), NetworkID: hostinfo.NetworkID(),
		Interfaces: interfaces(), Environment: environment,
	}
}

// noteAddresses keeps the addresses of this host, of which it may be asked later whether they
// are still there.
func (s *server) noteAddresses() {
	all := hostinfo.Addresses()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		s.addresses[a] = struct{}{}
	}
}

// lost are those of some addresses that this host had, and that nothing reaches any more. One
// that it never had is translated, or is that of a load balancer.
func (s *server) lost(addresses []netip.Addr) (found []hostinfo.LostAddress) {
	for _, a := range addresses {
		s.mu.Lock()
		_, had := s.addresses[a.Unmap().WithZone("")]
		s.mu.Unlock()
		if !had {
			continue
		}
		if l, is := hostinfo.Lost(a); is {
			found = append(found, l)
		}
	}
	return found
}

// maxInterfaces bounds how many are told of: a host of containers has thousands.
const maxInterfaces = 256

// interfaces are those of this host that are up and have an address, as many as are told of.
func interfaces() []Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil // what cannot be read is absent
	}
	found := []Interface{}
	for _, i := range all {
		addresses, err := i.Addrs()
		if i.Flags&net.FlagUp == 0 || err != nil || len(addresses) == 0 {
			continue
		}
		one := Interface{Name: i.Name, MTUBytes: i.MTU}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && len(one.Addresses) < maxInterfaces {
				one.Addresses = append(one.Addresses, p.Addr())
			}
		}
		found = append(found, one)
	}
	return told(found)
}

// told are the interfaces that are told of: first those with an address of more than their link,
// which a path is likely to go to, as those of containers have none.
func told(all []Interface) []Interface {
	var first, rest []Interface
	for _, i := range all {
		if slices.ContainsFunc(i.Addresses, func(a netip.Addr) bool { return !a.IsLinkLocalUnicast() }) {
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	all = append(first, rest...)
	return all[:min(len(all), maxInterfaces)]
}

// connecting is what all connections of a test may take, and the wait for a common start.
const connecting = time.Minute

// run does one test.
func (s *server) run(ctx context.Context, r request) (*measurement.Outcome, time.Duration, error) {
	run := *r.Run
	if err := s.permit(&run); err != nil {
		return nil, 0, err
	}
	if err := s.sample(&run); err != nil {
		return nil, 0, err
	}
	s.noteAddresses()
	if r.Hold {
		run.Prepared = func(ctx context.Context) (time.Time, error) { return s.hold(ctx, r.ID) }
	}
	if longest := s.opts.Limits.MaxDuration; s.opts.Lease > 0 && longest > 0 {
		// A transfer of a file does not know beforehand how long it takes.
		limited, cancel := context.WithTimeoutCause(ctx, longest+connecting, &probe.Error{
			Op: fmt.Sprintf("%s test to %s", run.Spec.Kind, run.Target), Reason: probe.Limit,
			Err: fmt.Errorf("it took longer than this end allows (%v; --max-duration)", longest),
		})
		defer cancel()
		ctx = limited
	}
	out, err := s.probeRun(ctx, run, thinned(run.Spec.Pairs, func(p measurement.Progress) { s.progress(r.ID, p) }))
	if err != nil {
		return nil, 0, err
	}
	if probe.Proves(run.Spec) {
		s.noteProven(run.Target.Addr())
	}
	var started time.Duration
	if !out.Started.IsZero() {
		started = s.clock.Of(out.Started)
	}
	out.ThinAmong(run.Spec.Pairs) // the reply of a test of thousands of flows must fit a frame
	s.holdResult(run, out)
	return &out, started, nil
}

// signsPerSecond is how many signs of life all pairs of a test give together, about: a
// coordinator of thousands would do nothing but read them.
const signsPerSecond = 1000

// thinned leaves out progress of one of so many pairs that all would give too many signs of life.
func thinned(pairs int, report func(measurement.Progress)) func(measurement.Progress) {
	every := measurement.Seconds(pairs) / signsPerSecond
	var said measurement.Seconds
	return func(p measurement.Progress) {
		if said == 0 || p.Elapsed-said >= every {
			said = p.Elapsed
			report(p)
		}
	}
}

// hold tells the coordinator that run id is prepared and waits until it is told when to
// start it, which it returns; zero is at once.
func (s *server) hold(ctx context.Context, id uint64) (time.Time, error) {
	told := make(chan time.Duration, 1)
	s.mu.Lock()
	s.held[id] = told
	s.mu.Unlock()
	s.write(protocol.TypeAgentPrepared, about{ID: id})
	select {
	case at := <-told:
		if at == 0 {
			return time.Time{}, nil
		}
		return s.clock.Moment(at), nil
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.held, id)
		s.mu.Unlock()
		return time.Time{}, context.Cause(ctx)
	}
}

// release starts a held run. One that is not held has ended, or was never there.
func (s *server) release(at startAt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told := s.held[at.ID]; told != nil {
		delete(s.held, at.ID)
		told <- at.At
	}
}

// prove proves the token to the server of a request, which may then be pinged and traced.
func (s *server) prove(ctx context.Context, r probe.Request) (*probe.Proof, error) {
	proof, err := s.probeProve(ctx, r)
	if err != nil {
		return nil, err
	}
	s.noteProven(r.Target.Addr())
	return &proof, nil
}
