// Package gate judges whether a trial is to be believed: whether it took its
// path, whether the receiver confirmed enough, whether its numbers are possible
// at all. It knows nothing of where the trial was done but its limits.
package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testbed"
)

// Limits are what a trial on a path cannot exceed if its numbers are true.
type Limits struct {
	testbed.Limits
	// Path is the name of the path, to which a fault of the testbed may belong.
	Path string
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
	// FewWarn has few round trips, packets or bytes of a flow, and an end that stood
	// still, warned of instead of refusing the trial, where nothing is compared.
	FewWarn bool
	// ClockStep is by how much the real-time clock of this machine was set during the
	// trial, besides its monotonic one.
	ClockStep time.Duration
	// OtherRuns is how many other runs measured on this machine meanwhile.
	OtherRuns int
}

// Thresholds of the gates.
const (
	// rateTolerance is how far above a known cap a goodput may lie before it is spoken
	// of: goodput is below the wire rate by 3 to 5 % of headers, and a token bucket
	// lets its burst through on top of its rate. It is no more than a warning, as
	// clouds let far more through for a while: to exclude the fastest trials of the
	// faster path would be a bias.
	rateTolerance = 1.02
	// pathFilled is the share of a known rate from which on a path carried what it can.
	pathFilled = 0.9
	// clockTolerance is the step of a clock that matters: the readings of two clocks
	// one after the other differ by less.
	clockTolerance = time.Millisecond
	// cpuRoom is the share of a host's CPUs above which the host itself
	// may be what was measured.
	cpuRoom = 0.95
	// stealWarns is the share of CPU time taken by a hypervisor that is spoken of.
	stealWarns = 0.05
	// standstillMatters is the share of the measured time in which an end may have stood
	// still: a rate is then less than 5 % below the path's, which is what matters.
	standstillMatters = 0.05
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
	// joinedExplain is the same where each that was counted may be one of up to
	// mostSegments packets (UDP_MAX_SEGMENTS, UDP_GRO_CNT_MAX in the kernel): if they
	// were, they would be most of the lost ones.
	joinedExplain = 0.5
	mostSegments  = 64
	// failuresWarn and failuresFail are shares of connections that came to
	// nothing.
	failuresWarn = 0.01
	failuresFail = 0.5
	// durationTolerance is the share of the planned time that must have been
	// measured.
	durationTolerance = 0.98
	// lateServer, in seconds, is how much less an iperf3 server may have measured: it counts
	// and times what it received from when its host lets it begin, so its rate is that of the
	// rest. Nothing else shortens its time, since its client ends the test.
	lateServer = 0.5
	// shortTransfer is the time below which a file is through before TCP has
	// found the path's rate.
	shortTransfer = 0.5
)

// Judge applies the gates to one trial. testErr is why the test itself failed,
// nil if it did not.
func Judge(spec measurement.Spec, o measurement.Outcome, f measurement.Fingerprint, l Limits, testErr error) measurement.Gate {
	j := &judge{spec: spec, outcome: o, limits: l}
	if testErr != nil {
		j.failed(testErr)
	}
	j.fingerprint(f, testErr)
	j.pairs(testErr)
	if testErr == nil {
		j.kind()
		j.instrument()
		if o.Source.SameHost(o.Destination) {
			j.processors("host", o.Source)
		} else {
			j.processors("source", o.Source)
			j.processors("destination", o.Destination)
		}
		j.standstill("source", o.Source)
		j.standstill("destination", o.Destination)
	}
	j.clock()
	j.company()
	return Of(j.findings)
}

// Of is the judgement that follows from findings. An instrument that failed says
// nothing of the path, so a trial with fatal findings of both sorts is missing.
func Of(findings []measurement.Finding) measurement.Gate {
	g := measurement.Gate{Passed: true, Findings: findings}
	for _, f := range findings {
		if f.Fatal {
			g.Broken = f.PathFailure && (g.Passed || g.Broken)
			g.Passed = false
		}
	}
	return g
}

type judge struct {
	spec     measurement.Spec
	outcome  measurement.Outcome
	limits   Limits
	findings []measurement.Finding
}

// missing is for what the instrument did, or what is not known to be the path's.
func (j *judge) missing(name string, f measurement.Finding) {
	f.Fatal = true
	j.warn(name, f)
}

// broken is for what the path did: the trial is an outcome, the worst of all.
func (j *judge) broken(name string, f measurement.Finding) {
	f.PathFailure = true
	j.missing(name, f)
}

// either is broken where the path is the reason.
func (j *judge) either(path bool, name string, f measurement.Finding) {
	if path {
		j.broken(name, f)
	} else {
		j.missing(name, f)
	}
}

// missingUnless is missing, but no more than a warning where that is enough.
func (j *judge) missingUnless(warned bool, name string, f measurement.Finding) {
	if warned {
		j.warn(name, f)
	} else {
		j.missing(name, f)
	}
}

// spare says that both ends had CPU time to spare, so that too little came for another
// reason.
func (j *judge) spare() bool {
	return max(j.outcome.Source.CPUBusy, j.outcome.Destination.CPUBusy) <= cpuRoom || j.spec.Spin
}

func (j *judge) warn(name string, f measurement.Finding) {
	f.Name = name
	j.findings = append(j.findings, f)
}

// failed judges a test that gave no outcome by its cause.
func (j *judge) failed(err error) {
	f := measurement.Finding{Code: measurement.FoundTestFailed, Text: Reason(err)}
	path := j.ofPath(err)
	switch _, broke := errors.AsType[*testbed.Fault](err); {
	case broke && path:
		f.Code = measurement.FoundHopDied
	case broke:
		f.Code = measurement.FoundBedBroke
	default:
		f.Failure = string(session.ReasonOf(err))
	}
	j.either(path, "test", f)
}

// faultOfPath says that a testbed broke in a part of the path.
func (j *judge) faultOfPath(err error) bool {
	fault, broke := errors.AsType[*testbed.Fault](err)
	return broke && fault.Of(j.limits.Path)
}

// ofPath says that the path is why a test failed. Errors of the ends say so by their
// reason, a testbed that broke by the paths that the dead part was on.
func (j *judge) ofPath(err error) bool {
	if _, broke := errors.AsType[*testbed.Fault](err); broke {
		return j.faultOfPath(err)
	}
	return err != nil && session.ReasonOf(err).OfPath()
}

// fingerprint judges the path that was taken. Hops that do not answer are those of a
// path that fails if the test over it failed, too; where it did not, the time to live
// of what arrived still proves how many there were.
func (j *judge) fingerprint(f measurement.Fingerprint, testErr error) {
	if f.Matches || j.faultOfPath(testErr) {
		return // who died is known, and no trace sees more
	}
	why := measurement.Finding{Code: measurement.FoundPathFailed}
	if f.Why != nil {
		why = *f.Why
	}
	switch why.Code {
	case measurement.FoundTTLChanged, measurement.FoundMTUChanged:
		j.warn("fingerprint", why)
	case measurement.FoundSilentHops:
		if testErr == nil && why.TTL > 0 {
			j.warn("fingerprint", why)
			return
		}
		j.either(j.ofPath(testErr) || lostEverything(j.outcome.Metrics) || j.pairFailed(why.Pair), "fingerprint", why)
	case measurement.FoundTraceFailed, measurement.FoundPathFailed:
		j.either(j.ofPath(testErr), "fingerprint", why)
	default:
		j.missing("fingerprint", why)
	}
}

// clock refuses a trial during which the real-time clock was set: kernels stamp packets
// with it (SO_TIMESTAMPING).
func (j *judge) clock() {
	if step := j.limits.ClockStep; step.Abs() > clockTolerance {
		j.missing("clock", measurement.Finding{Code: measurement.FoundClockStepped, Step: measurement.SecondsOf(step)})
	}
}

// company refuses a trial during which other runs measured on this machine, or with the
// same server, on the same terms as full CPUs.
func (j *judge) company() {
	if n := j.limits.OtherRuns; n > 0 {
		j.missingUnless(j.limits.BusyWarns, "other-run", measurement.Finding{Code: measurement.FoundOtherRun, Count: n})
	}
	if o := j.outcome.Destination.OtherClients; o != nil {
		j.missingUnless(j.limits.BusyWarns, "other-client", measurement.Finding{Code: measurement.FoundOtherClient, Count: o.Count, Address: o.Address, Bytes: o.Bytes})
	}
}

// processors says whether the host itself may be what was measured. An end that
// spins was asked to fill its CPUs.
func (j *judge) processors(end string, e measurement.End) {
	if e.Steal > stealWarns {
		j.warn("cpu", measurement.Finding{Code: measurement.FoundStolenCPU, End: end, CPUStolen: e.Steal})
	}
	f := measurement.Finding{Code: measurement.FoundBusyCPUs, End: end, CPUBusy: e.CPUBusy}
	switch {
	case e.CPUBusy > cpuRoom:
		j.missingUnless(j.limits.BusyWarns || j.spec.Spin, "cpu", f)
	case e.BusiestCPU > cpuRoom && !j.spec.Spin:
		f.Code = measurement.FoundBusyCPU
		j.warn("cpu", f)
	}
}

// standstill refuses a trial in which an end did not run for a while. Two ends on one
// host are two processes, of which one can be stopped.
func (j *judge) standstill(end string, e measurement.End) {
	if e.Standstill >= standstillMatters {
		j.missingUnless(j.limits.FewWarn, "standstill", measurement.Finding{Code: measurement.FoundStandstill, End: end, Standstill: e.Standstill})
	}
}

// Reason is an error's text without the repetition that joined errors of
// several flows bring.
func Reason(err error) string {
	var joined interface {
		error
		Unwrap() []error
	}
	if errors.As(err, &joined) {
		// An error that wraps several and has words of its own is one.
		if list := joined.Unwrap(); len(list) > 1 && joined.Error() == errors.Join(list...).Error() {
			return fmt.Sprintf("%v (and %d more)", list[0], len(list)-1)
		}
	}
	return err.Error()
}
