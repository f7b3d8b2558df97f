package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp"
	"github.com/hopbench/hopbench/internal/probe/trace"
)

// setupTime bounds the time before a test's first byte.
func setupTime(spec measurement.Spec) time.Duration {
	return dialTimeout + handshakeTimeout + connectTime(spec) - startTimeout
}

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
	if err := checkSpec(req.Spec); err != nil {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: err}
	}
	if req.Pairs < 0 || req.Pairs > MaxPairs {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: fmt.Errorf("one of %d pairs, must be of at most %d", req.Pairs, MaxPairs)}
	}
	if !req.Target.IsValid() {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: errors.New("no target address")}
	}
	if !preparesItself(req.Spec) {
		if err := req.prepared(ctx); err != nil {
			return measurement.Outcome{}, failure(op, err)
		}
		req.Prepared = nil
	}
	var out measurement.Outcome
	var err error
	switch req.Spec.Kind {
	case measurement.Ping:
		out, err = icmp.Run(ctx, icmp.Request{Spec: req.Spec, Target: req.Target.Addr(), Source: req.Source}, progress)
	case measurement.Trace:
		out, err = trace.Run(ctx, trace.Request{Spec: req.Spec, Target: req.Target, Source: req.Source}, progress)
	default:
		ctx, cancel := context.WithTimeoutCause(ctx, setupTime(req.Spec)+planned(req.Spec)+2*graceOf(req.Spec), errSilent)
		defer cancel()
		out, err = runWithServer(ctx, req, progress)
		if err != nil && ctx.Err() != nil {
			err = &Error{Op: op, Reason: reasonOf(context.Cause(ctx)), Err: context.Cause(ctx)}
		}
	}
	return out, failure(op, err)
}

// preparesItself says whether a test makes all its connections before it starts.
func preparesItself(spec measurement.Spec) bool {
	return spec.Kind == measurement.TCP && spec.Tool == measurement.Native
}

// prepared waits until the test may start.
func (r Request) prepared(ctx context.Context) error {
	if r.Prepared == nil {
		return nil
	}
	if err := r.Prepared(ctx); err != nil {
		return failure("wait for the common start", err)
	}
	return nil
}

// runWithServer does a test of a kind that has its other end in a server.
func runWithServer(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	if err := enoughDescriptors(req.Spec); err != nil {
		return measurement.Outcome{}, err
	}
	if req.Spec.Tool == measurement.IPerf3 {
		return runIPerf3(ctx, req, progress)
	}
	switch req.Spec.Kind {
	case measurement.TCP:
		return runTCP(ctx, req, progress)
	case measurement.UDP, measurement.PPS:
		return runPackets(ctx, req, progress)
	case measurement.RR:
		return runRR(ctx, req, progress)
	case measurement.CRR:
		return runCRR(ctx, req, progress)
	case measurement.Load:
		return runLoad(ctx, req, progress)
	case measurement.FTP:
		return runFTP(ctx, req, progress)
	case measurement.MTU:
		return runMTU(ctx, req)
	}
	return measurement.Outcome{}, fmt.Errorf("unknown kind of test %q", req.Spec.Kind)
}
