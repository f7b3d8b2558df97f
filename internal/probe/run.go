package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/iperf3"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Run does one test from this host and returns what both ends brought back.
// It ends by its own deadline whatever the other end does. Progress, which may
// be nil, is called from one goroutine at a time and never after Run returned.
// The error is always an *Error.
func Run(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	if progress == nil {
		progress = func(measurement.Progress) {}
	}
	req.Spec = req.Spec.Defaults()
	op := fmt.Sprintf("%s test to %s", req.Spec.Kind, req.Target)
	if err := kind.Check(req.Spec).Err(); err != nil {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: err}
	}
	if !req.Target.IsValid() {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: errors.New("no target address")}
	}
	k := kinds[req.Spec.Kind]
	if req.Spec.Tool == measurement.IPerf3 {
		k.Run, k.PreparesItself = iperf3.Run, false
	}
	if !k.PreparesItself {
		begun, err := req.AwaitCommonStart(ctx)
		if err != nil {
			return measurement.Outcome{}, session.Wrap(op, err)
		}
		begun()
		req.Prepared = nil
	}
	own := ownAddress(req)
	if k.Planned == nil {
		out, err := k.Run(ctx, req, progress)
		return out, lostAddress(op, own, out, session.Wrap(op, err))
	}
	if err := enoughDescriptors(k, req.Spec, hostinfo.MaxDescriptors()); err != nil {
		return measurement.Outcome{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, session.SetupTime(req.Spec)+k.Planned(req.Spec)+2*graceOf(req.Spec), session.ErrSilent)
	defer cancel()
	out, err := k.Run(ctx, req, progress)
	if err != nil && ctx.Err() != nil {
		err = &Error{Op: op, Reason: session.ReasonOf(context.Cause(ctx)), Err: context.Cause(ctx)}
	}
	return out, lostAddress(op, own, out, session.Wrap(op, err))
}

// ownAddress is the address of this host that a test is sent from; not valid where that is not
// known, or it has none that leads to the target.
func ownAddress(req Request) netip.Addr {
	if req.Source.IsValid() || req.Spec.Device != "" {
		return req.Source
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(req.Target)) // sends nothing
	if err != nil {
		return netip.Addr{}
	}
	defer func() { _ = c.Close() }() // it has nothing to flush
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
}

// lostAddress is the error of a test that failed, or lacks answers, which is this host's doing if
// it has the address no more that the test was sent from, or the interface with it is set down:
// the path looks silent then, or unreachable.
func lostAddress(op string, own netip.Addr, out measurement.Outcome, err error) error {
	silent := err == nil && out.Latency != nil && out.Latency.Unanswered > 0
	if r := session.ReasonOf(err); !own.IsValid() || !silent && (err == nil || !r.OfPath() && r != Failed) {
		return err
	}
	c, bound := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(own, 0)))
	if bound == nil {
		_ = c.Close() // it has nothing to flush
	}
	lost, is := hostinfo.Lost(own)
	if !errors.Is(bound, syscall.EADDRNOTAVAIL) && (!is || lost.Down == "") {
		return err // an address of a whole prefix (ip-route(8), local) is of no interface
	}
	if silent {
		err = fmt.Errorf("%d requests had no answer", out.Latency.Unanswered)
	}
	return &Error{Op: op, Reason: Local, Err: fmt.Errorf("%s: %w", lost.Says("this host"), err)}
}

// graceOf is how long after its planned end a test may still deliver results.
func graceOf(spec measurement.Spec) time.Duration {
	if grace := kinds[spec.Kind].Grace; grace != nil {
		return grace(spec)
	}
	return session.Grace
}

// Longest is how long a test may take from its first connection until its results are there.
// That of an open-ended one is what any server allows: it ends by itself once no bytes move.
func Longest(spec measurement.Spec) time.Duration {
	longest := planned(spec) + graceOf(spec)
	if kinds[spec.Kind].Planned != nil {
		longest += session.SetupTime(spec)
	}
	return longest
}

// enoughDescriptors says beforehand that a test needs more open files than this process may have; a
// limit of 0 is not known.
func enoughDescriptors(k session.Kind, spec measurement.Spec, limit int) error {
	const others = 64 // standard files, control sockets, samplers
	need := others
	if k.Files != nil {
		need += k.Files(spec)
	}
	if limit <= 0 || need <= limit {
		return nil
	}
	who, how := "a test needs", ""
	if spec.Flows > 1 {
		who, how = fmt.Sprintf("%d flows need", spec.Flows), " or take fewer flows"
	}
	return &Error{Op: "prepare the test", Reason: Unsupported, Err: fmt.Errorf("%s about %d open files, and this process may have %d: raise the limit (ulimit -n)%s", who, need, limit, how)}
}
