package runner

import (
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Limits are what a trial on a path cannot exceed if its numbers are true.
// Rates are on the wire, 0 where nothing is known.
type Limits struct {
	SourceEgressBitsPerSecond      float64
	DestinationEgressBitsPerSecond float64
	PathBitsPerSecond              float64
	// BusyWarns has busy processors warned of instead of refusing the trial:
	// where the testbed shares its processors with the path, they are its
	// nature, and where nothing is compared, the reader can judge.
	BusyWarns bool
	// FewWarn shows the latency of a few answers with a warning, for a person
	// who asked for few.
	FewWarn bool
}

// Thresholds of the gates.
const (
	// rateTolerance is how far above a known cap a goodput may lie: goodput is
	// below the wire rate by 3 to 5 % of headers, and a token bucket lets its
	// burst through on top of its rate.
	rateTolerance = 1.02
	// cpuRoom is the share of a host's processors above which the host itself
	// may be what was measured.
	cpuRoom = 0.95
	// minimumBytesPerFlow is how much each flow must carry for its rate to mean
	// anything: with less, a count of filled socket buffers looks like a rate.
	minimumBytesPerFlow = 64 << 10
	// durationTolerance is the share of the planned time that must have been
	// measured.
	durationTolerance = 0.98
	// minimumRoundTrips below which no median is taken.
	minimumRoundTrips = 10
)

// Judge applies the gates to one trial. testErr is why the test itself failed,
// nil if it did not.
func Judge(spec measurement.Spec, o measurement.Outcome, f measurement.Fingerprint, l Limits, testErr error) measurement.Gate {
	j := &judge{spec: spec, outcome: o, limits: l}
	if testErr != nil {
		j.fail("test", "%s", rootMessage(testErr))
	}
	if !f.Matches {
		j.fail("fingerprint", "the trial did not take its path: %s", f.Why)
	}
	if testErr == nil {
		switch spec.Kind {
		case measurement.TCP:
			j.throughput()
		case measurement.UDP, measurement.PPS:
			if m, _ := measurement.PrimaryOf(spec.Kind); o.Metrics[m.Name] <= 0 {
				j.fail("receiver-confirmed", "the receiver confirmed no packets")
			}
		case measurement.RR, measurement.Ping:
			j.latency()
		}
		if o.Source.Host != "" && o.Source.Host == o.Destination.Host {
			j.processors("host", o.Source)
		} else {
			j.processors("source", o.Source)
			j.processors("destination", o.Destination)
		}
	}
	gate := measurement.Gate{Passed: true, Checks: j.checks}
	for _, c := range j.checks {
		if c.Fatal {
			gate.Passed = false
		}
	}
	return gate
}

type judge struct {
	spec    measurement.Spec
	outcome measurement.Outcome
	limits  Limits
	checks  []measurement.Check
}

func (j *judge) fail(name, format string, args ...any) {
	j.checks = append(j.checks, measurement.Check{Name: name, Fatal: true, Reason: fmt.Sprintf(format, args...)})
}

func (j *judge) warn(name, format string, args ...any) {
	j.checks = append(j.checks, measurement.Check{Name: name, Reason: fmt.Sprintf(format, args...)})
}

func (j *judge) throughput() {
	goodput, ok := j.outcome.Metrics["goodput_bits_per_second"]
	if !ok || goodput <= 0 {
		j.fail("receiver-confirmed", "the receiver confirmed no bytes")
		return
	}
	want := j.spec.Flows
	if j.spec.Direction == measurement.Both {
		want *= 2 // so many each way
	}
	if got := len(j.outcome.Flows); got != want {
		j.fail("flows", "%d of %d flows brought back a result", got, want)
	}
	for i, flow := range j.outcome.Flows {
		if flow.ReceivedBytes < minimumBytesPerFlow {
			j.fail("enough-flow", "flow %d carried %d bytes in the measured time, too few for a rate (at least %d)", i+1, flow.ReceivedBytes, minimumBytesPerFlow)
			break
		}
	}
	if b := j.outcome.Throughput; b == nil {
		j.fail("duration", "the receiver brought back no series")
	} else if covered := b.Width*measurement.Seconds(len(b.Bytes)) - j.outcome.Warmup; covered < durationTolerance*j.spec.Duration {
		j.fail("duration", "%.3f s were measured of the %.3f s planned", float64(covered), float64(j.spec.Duration))
	}
	cap, whose := j.limits.SourceEgressBitsPerSecond, "the source's egress cap"
	if j.spec.Direction == measurement.Receive {
		cap, whose = j.limits.DestinationEgressBitsPerSecond, "the destination's egress cap"
	}
	j.possible(goodput, cap, whose)
	j.possible(goodput, j.limits.PathBitsPerSecond, "the rate of a hop")
}

func (j *judge) possible(goodput, cap float64, whose string) {
	if cap > 0 && goodput > cap*rateTolerance {
		j.fail("possible", "%.4g bit/s of goodput is more than %s of %.4g bit/s allows", goodput, whose, cap)
	}
}

func (j *judge) latency() {
	d := j.outcome.Latency
	if d == nil || d.Samples == 0 {
		j.fail("receiver-confirmed", "no answer came back")
		return
	}
	if d.Samples < minimumRoundTrips {
		const format = "%d answers are too few for a median (at least %d)"
		if j.limits.FewWarn {
			j.warn("enough-samples", format, d.Samples, minimumRoundTrips)
		} else {
			j.fail("enough-samples", format, d.Samples, minimumRoundTrips)
		}
	}
	if d.Min <= 0 || d.Min > d.Max {
		j.fail("clock", "a smallest round trip of %v s and a largest of %v s cannot both be true", d.Min, d.Max)
	}
}

func (j *judge) processors(end string, e measurement.End) {
	if e.CPUBusy <= cpuRoom {
		return
	}
	const format = "the %s's processors were %.0f %% busy; the host may be what was measured"
	if j.limits.BusyWarns {
		j.warn("cpu", format, end, e.CPUBusy*100)
	} else {
		j.fail("cpu", format, end, e.CPUBusy*100)
	}
}

// rootMessage is an error's text without the repetition that joined errors of
// several flows bring.
func rootMessage(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		if list := joined.Unwrap(); len(list) > 1 {
			return fmt.Sprintf("%v (and %d more)", list[0], len(list)-1)
		}
	}
	return err.Error()
}
