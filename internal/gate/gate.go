// Package gate judges whether a trial is to be believed: whether it took its
// path, whether the receiver confirmed enough, whether its numbers are possible
// at all. It knows nothing of where the trial was done but its limits.
package gate

import (
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
)

// Limits are what a trial on a path cannot exceed if its numbers are true.
type Limits struct {
	testbed.Limits
	// Pairs of endpoints that do the test at the same time, 0 or 1 for a single
	// one. The egress caps are those of each.
	Pairs int
	// BusyWarns has busy CPUs warned of instead of refusing the trial:
	// where the testbed shares its CPUs with the path, they are its
	// nature, and where nothing is compared, the reader can judge.
	BusyWarns bool
	// Instrument is how the first trial of the test that passed was measured, by
	// the keys of its Effective; nil before that.
	Instrument map[string]string
	// FewWarn has few round trips warned of instead of refusing the trial,
	// where nothing is compared.
	FewWarn bool
}

// Thresholds of the gates.
const (
	// rateTolerance is how far above a known cap a goodput may lie: goodput is
	// below the wire rate by 3 to 5 % of headers, and a token bucket lets its
	// burst through on top of its rate.
	rateTolerance = 1.02
	// cpuRoom is the share of a host's CPUs above which the host itself
	// may be what was measured.
	cpuRoom = 0.95
	// minimumBytesPerFlow is how much each flow must carry for its rate to mean
	// anything: with less, a count of filled socket buffers looks like a rate.
	// Of more than manyFlows, only as much as that many must carry is asked of
	// all together: some starve, and that is a result.
	minimumBytesPerFlow = 64 << 10
	manyFlows           = 64
	// minimumPackets below which a share of lost packets says nothing.
	minimumPackets = 100
	// headersBytes are those of IPv4 and UDP, the least that a packet has on the
	// wire in addition to its payload.
	headersBytes = 28
	// localDropsMatter is the share of the lost packets from which on those
	// that the hosts themselves lost are spoken of.
	localDropsMatter = 0.1
	// failuresWarn and failuresFail are shares of connections that came to
	// nothing.
	failuresWarn = 0.01
	failuresFail = 0.5
	// durationTolerance is the share of the planned time that must have been
	// measured.
	durationTolerance = 0.98
	// shortTransfer is the time below which a file is through before TCP has
	// found the path's rate.
	shortTransfer = 0.5
	// minimumRoundTrips below which no median is taken.
	minimumRoundTrips = 10
)

// Judge applies the gates to one trial. testErr is why the test itself failed,
// nil if it did not.
func Judge(spec measurement.Spec, o measurement.Outcome, f measurement.Fingerprint, l Limits, testErr error) measurement.Gate {
	j := &judge{spec: spec, outcome: o, limits: l}
	if testErr != nil {
		j.fail("test", measurement.Finding{Code: measurement.FoundText, Text: Reason(testErr)})
	}
	if !f.Matches {
		why := measurement.Finding{Code: measurement.FoundPathFailed}
		if f.Why != nil {
			why = *f.Why
		}
		if f.Learned {
			j.warn("fingerprint", why)
		} else {
			j.fail("fingerprint", why)
		}
	}
	j.pairs()
	if testErr == nil {
		if judge, ok := judges()[spec.Kind]; ok {
			judge(j)
		} else {
			j.fail("test", measurement.Finding{Code: measurement.FoundUnknownKind, Kind: spec.Kind})
		}
		j.instrument()
		if o.Source.SameHost(o.Destination) {
			j.processors("host", o.Source)
		} else {
			j.processors("source", o.Source)
			j.processors("destination", o.Destination)
		}
	}
	gate := measurement.Gate{Passed: true, Findings: j.findings}
	for _, c := range j.findings {
		if c.Fatal {
			gate.Passed = false
		}
	}
	return gate
}

type judge struct {
	spec     measurement.Spec
	outcome  measurement.Outcome
	limits   Limits
	findings []measurement.Finding
}

func (j *judge) fail(name string, f measurement.Finding) {
	f.Fatal = true
	j.warn(name, f)
}

func (j *judge) warn(name string, f measurement.Finding) {
	f.Name = name
	j.findings = append(j.findings, f)
}

// CPUs says whether the host itself may be what was measured. An end that
// spins was asked to fill its CPUs.
func (j *judge) processors(end string, e measurement.End) {
	f := measurement.Finding{Code: measurement.FoundBusyCPUs, End: end, CPUBusy: e.CPUBusy}
	switch {
	case e.CPUBusy > cpuRoom && !j.limits.BusyWarns && !j.spec.Spin:
		j.fail("cpu", f)
	case e.CPUBusy > cpuRoom:
		j.warn("cpu", f)
	case e.BusiestCPU > cpuRoom && !j.spec.Spin:
		f.Code = measurement.FoundBusyCPU
		j.warn("cpu", f)
	}
}

// Reason is an error's text without the repetition that joined errors of
// several flows bring.
func Reason(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		if list := joined.Unwrap(); len(list) > 1 {
			return fmt.Sprintf("%v (and %d more)", list[0], len(list)-1)
		}
	}
	return err.Error()
}
