// Package testbed says what a place is in which the paths of an experiment
// exist. A testbed answers with values (where the ends of a path are, what its
// trace must show) and has agents that do what an end is asked to do. It does no
// trials: package trial does, in the same way on every testbed.
package testbed

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
)

// Testbed is where the paths of an experiment exist.
type Testbed interface {
	// Info says what the testbed is and what its absolute numbers mean.
	Info() result.Testbed
	// Environment is the machine and the settings that bear on the numbers of
	// all paths, Facts are sentences on what it did not allow as wished.
	Environment() map[string]string
	Facts() []string
	// Paths are all of its paths, the same for as long as it lives, but for their pairs: an
	// Attempter may have others when a trial begins.
	Paths() []Path
	// Agent is what acts at the source of a path.
	Agent(source string) (Agent, error)
	// Done is closed once the testbed cannot measure any more; Err is not nil
	// from then on and says why, with a *Fault in it where a hop died. A testbed
	// that cannot break has a nil channel.
	Done() <-chan struct{}
	Err() error
	Close() error
}

// Fault is why a testbed broke.
type Fault struct {
	// Paths are those whose hop died; none where what died is no hop.
	Paths []string
	// Ends are those that are gone, where nothing else is: pairs of other ends can end the
	// test that they do.
	Ends []string
	Err  error
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Of says whether it is the fault of a path.
func (f *Fault) Of(path string) bool { return slices.Contains(f.Paths, path) }

// Agent does what the source of a path is asked to do; agent.Client is one.
type Agent interface {
	// Run does a test as its near end, as probe.Run does.
	Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error)
}

// Path is how one path of an experiment appears in a testbed.
type Path struct {
	Name string
	// Pairs of ends that do every test on the path at the same time, at least
	// one.
	Pairs []Pair
	// Limits of what the path carries.
	Limits Limits
}

// Pair is one source and one destination of a path.
type Pair struct {
	// Source and Destination are names of ends.
	Source, Destination string
	// Request is what all tests of this pair have in common: the addresses of both
	// ends and the token.
	Request probe.Request
	// Expect is what a trace of the path must show.
	Expect Expectation
	// Back, unless nil, is what the destination is asked to trace in place of a trace by
	// the source: the way back to it.
	Back *probe.Request
	// Outer is the path below a tunnel, nil without one.
	Outer *Outer
}

// String names a pair for people.
func (p Pair) String() string { return p.Source + " to " + p.Destination }

// Outer is the path that the packets of a tunnel take.
type Outer struct {
	Source      netip.Addr
	Destination netip.AddrPort
	Expect      Expectation
	MTU         int // inside the tunnel, in bytes
}

// Expectation is what proves that packets took a path. What is zero is not
// known; without Hops the path is not traced before a test, unless Traced says so.
type Expectation struct {
	// Hops are the addresses of which a trace must show one at each step, the
	// destination last. Those of a silent hop are none.
	Hops [][]netip.Addr
	// ReceivedTTL is the time to live with which packets arrive, ReturnedTTL
	// that with which they come back.
	ReceivedTTL int
	ReturnedTTL int
	// RoundTrip is how long the path's own delays and queues keep an answer at most, 0 where they
	// are not known.
	RoundTrip time.Duration
	// HopCount is how many hops a trace must show, the destination included, where
	// their addresses are not known; PathMTUBytes is what TCP must find.
	HopCount     int
	PathMTUBytes int
	// Learned has what the path's first trial shows be what the others must show;
	// Traced has the path traced although its hops are not known.
	Learned, Traced bool
	// Before, unless nil, is what the pair's path showed before the first trial, which
	// each trial is compared with in place of the first: its Hops and ReceivedTTL.
	Before *measurement.Fingerprint
}

// furthestHop is as far as packets get that start with the time to live that Linux gives
// them (IPDEFTTL of linux/ip.h).
const furthestHop = 64

// TraceSpec traces a path to its end.
func TraceSpec() measurement.Spec {
	return measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverTCP, MaxHops: furthestHop}.Defaults()
}

// Limits are rates on the wire that a path cannot exceed, 0 where nothing is
// known. Those of the ends are of each pair.
type Limits struct {
	SourceEgressBitsPerSecond      float64
	DestinationEgressBitsPerSecond float64
	// PathBitsPerSecond is the rate of the slowest hop, ReturnBitsPerSecond that
	// of the reverse direction.
	PathBitsPerSecond   float64
	ReturnBitsPerSecond float64
}

// Switcher is a testbed some of whose paths share their ends and addresses, so
// that only one of them is in force at a time.
type Switcher interface {
	// Switch brings a path into force. After an error it is not known which path
	// is in force; the next Switch tries anew.
	Switch(ctx context.Context, path string) (Switched, error)
}

// Switched is what a Switch did.
type Switched struct {
	// Changed says that another path was in force before.
	Changed bool
	// Settle is how long nothing is to be measured after a change.
	Settle time.Duration
	// Set are the values that commands of the user's brought into force, by switch;
	// Took is how long that and its proof took, Proof how it was proven and Evidence
	// what was seen. All are empty where the testbed needs no such command.
	Set      map[string]string
	Took     time.Duration
	Proof    string
	Evidence string
}

// SlowSwitcher is a switcher that knows about how long a switch takes.
type SlowSwitcher interface {
	// SwitchTime is how long it takes to switch to another path, 0 where all are in force.
	SwitchTime() time.Duration
}

// Confirmer is a switcher whose paths can change behind its back.
type Confirmer interface {
	// Confirm says, after a trial, whether its path was in force all the while: an
	// error is why that is not so, or not known. The trial then does not count.
	Confirm(ctx context.Context, path string) error
}

// Timed is an agent whose clock stands otherwise than this process's.
type Timed interface {
	// Clock is how it stands, false while that is not known.
	Clock() (clock.Estimate, bool)
	// Reads is what it read at a moment, and the bound of the error of that, false while
	// that is not known.
	Reads(moment time.Time) (at, uncertainty time.Duration, ok bool)
	// Exchange compares it once more, over the way that orders take, and returns when the
	// agent has answered.
	Exchange(ctx context.Context) error
}

// Mortal is an agent that may end before the others of its testbed do.
type Mortal interface {
	// Answers asks whether it is there, and for how long at most it did not run in so much
	// past, although it is there now; and which of some addresses its host had, and has lost
	// or on an interface that is down. An error is why it is not there.
	Answers(ctx context.Context, past time.Duration, own ...netip.Addr) (stood time.Duration, lost []hostinfo.LostAddress, err error)
}

// Patient is a testbed whose ends go on with a test while they are not connected to this
// process.
type Patient interface {
	// Away is for how long: a result may come so much later.
	Away() time.Duration
}

// Attempter is a testbed that keeps what the ends of a test send while it goes on, apart
// for each time that a trial is begun.
type Attempter interface {
	// Begin is called before each trial, by its id. After an error nothing more can be kept.
	Begin(ctx context.Context, trial string) error
}

// Observer is a testbed that acts or counts while a trial goes on: hops that
// grow at their moments, counters of hops.
type Observer interface {
	// Reset brings a path to the state in which each trial begins, and again after its traces.
	Reset(ctx context.Context, path string) error
	// Observe begins when a test is about to. The caller ends it.
	Observe(ctx context.Context, path string, spec measurement.Spec) Observation
}

// Observation is that of one test.
type Observation interface {
	// Progress hears of the test's progress.
	Progress(measurement.Progress)
	// Hops is what the path's hops have counted since the test was about to begin, one
	// sample each, as far as they were read; it waits for no reading.
	Hops() []measurement.HopSeries
	// End adds what was seen to the test's outcome. It is told why the test
	// failed, nil if it did not, and returns why the observation makes it
	// invalid.
	End(ctx context.Context, o *measurement.Outcome, failed error) error
}
