package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// MaxPairs is how many pairs of hosts may do one test at the same time.
const MaxPairs = 1000

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
	k := kinds[req.Spec.Kind]
	if req.Spec.Tool == measurement.IPerf3 {
		k.run, k.preparesItself = runIPerf3, false
	}
	if !k.preparesItself {
		if err := req.AwaitCommonStart(ctx); err != nil {
			return measurement.Outcome{}, failure(op, err)
		}
		req.Prepared = nil
	}
	if k.planned == nil {
		out, err := k.run(ctx, req, progress)
		return out, failure(op, err)
	}
	if err := enoughDescriptors(k, req.Spec); err != nil {
		return measurement.Outcome{}, err
	}
	grace := grace
	if k.grace != nil {
		grace = k.grace(req.Spec)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupTime(req.Spec)+k.planned(req.Spec)+2*grace, errSilent)
	defer cancel()
	out, err := k.run(ctx, req, progress)
	if err != nil && ctx.Err() != nil {
		err = &Error{Op: op, Reason: reasonOf(context.Cause(ctx)), Err: context.Cause(ctx)}
	}
	return out, failure(op, err)
}

// enoughDescriptors says beforehand that a test needs more open files than
// this process may have.
func enoughDescriptors(k kind, spec measurement.Spec) error {
	const others = 64 // standard files, control sockets, samplers
	need := others
	if k.files != nil {
		need += k.files(spec)
	}
	if limit := sockets.MaxDescriptors(); limit > 0 && need > limit {
		return &Error{Op: "prepare the test", Reason: Unsupported, Err: fmt.Errorf(
			"%d flows need about %d open files, and this process may have %d: raise the limit (ulimit -n) or take fewer flows", spec.Flows, need, limit)}
	}
	return nil
}
