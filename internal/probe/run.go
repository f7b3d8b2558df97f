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
const setupTime = dialTimeout + handshakeTimeout

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
	if !req.Target.IsValid() {
		return measurement.Outcome{}, &Error{Op: op, Reason: Failed, Err: errors.New("no target address")}
	}
	var out measurement.Outcome
	var err error
	switch req.Spec.Kind {
	case measurement.TCP, measurement.RR:
		ctx, cancel := context.WithTimeoutCause(ctx, setupTime+planned(req.Spec)+2*grace, errSilent)
		defer cancel()
		if req.Spec.Kind == measurement.TCP {
			out, err = runTCP(ctx, req, progress)
		} else {
			out, err = runRR(ctx, req, progress)
		}
		if err != nil && ctx.Err() != nil {
			err = &Error{Op: op, Reason: reasonOf(context.Cause(ctx)), Err: context.Cause(ctx)}
		}
	case measurement.Ping:
		out, err = icmp.Run(ctx, icmp.Request{Spec: req.Spec, Target: req.Target.Addr(), Source: req.Source}, progress)
	case measurement.Trace:
		out, err = trace.Run(ctx, trace.Request{Spec: req.Spec, Target: req.Target, Source: req.Source}, progress)
	}
	return out, failure(op, err)
}

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = 1024
	MaxDuration = 24 * time.Hour // of the warm-up and of the measured time
)

const (
	maxMessageBytes = 1 << 20
	maxDatagram     = 65507 // the largest UDP payload over IPv4
	maxWindowBytes  = 1 << 30
)

// checkSpec refuses what no end could do, or could be made to suffer from. It
// is applied to what came from the wire, too.
func checkSpec(s measurement.Spec) error {
	between := func(what string, v, lo, hi float64) error {
		if !(v >= lo && v <= hi) {
			return fmt.Errorf("%s is %v, must be between %v and %v", what, v, lo, hi)
		}
		return nil
	}
	var errs []error
	check := func(what string, v, lo, hi float64) { errs = append(errs, between(what, v, lo, hi)) }
	switch s.Kind {
	case measurement.TCP:
		check("duration in seconds", float64(s.Duration), minBinWidth.Seconds(), MaxDuration.Seconds())
		check("longest warm-up in seconds", float64(s.MaxWarmup), 0, MaxDuration.Seconds())
		check("number of flows", float64(s.Flows), 1, MaxFlows)
		check("window in bytes", float64(s.WindowBytes), 0, maxWindowBytes)
		if s.Direction != measurement.Send && s.Direction != measurement.Receive {
			errs = append(errs, fmt.Errorf("direction is %q, must be send or receive", s.Direction))
		}
	case measurement.RR:
		check("duration in seconds", float64(s.Duration), 0.001, MaxDuration.Seconds())
		check("warm-up in seconds", float64(s.MaxWarmup), 0, MaxDuration.Seconds())
		check("timeout in seconds", float64(s.Timeout), 0, 60)
		largest := float64(maxMessageBytes)
		switch s.Protocol {
		case measurement.OverTCP:
		case measurement.OverUDP:
			largest = maxDatagram
		default:
			errs = append(errs, fmt.Errorf("protocol of rr is %q, must be tcp or udp", s.Protocol))
		}
		check("request in bytes", float64(s.RequestBytes), 1, largest)
		check("response in bytes", float64(s.ResponseBytes), 1, largest)
	case measurement.Ping, measurement.Trace:
		// Their packages check what they alone understand.
	default:
		errs = append(errs, fmt.Errorf("unknown kind of test %q", s.Kind))
	}
	return errors.Join(errs...)
}
