package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Format is the version of result.json; a reader may rely on every field of the
// same major number.
const Format = "hopbench.result/2"

// formatOne is the version before, which carried sentences.
const formatOne = "hopbench.result/1"

// Decode reads a result.json. old says that it is of format 1: what is worked out
// of its trials has to be worked out again.
func Decode(text []byte) (r *Result, old bool, err error) {
	r = new(Result)
	// PowerShell puts a byte order mark before what it writes into a file.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return nil, false, errors.New("it is UTF-16 text, not a result.json; save it with UTF-8 encoding")
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, false, fmt.Errorf("it is no result.json: %w", err)
	}
	if r.Format != Format && r.Format != formatOne {
		return nil, false, fmt.Errorf("it is of format %q, not %s", r.Format, Format)
	}
	if r.Format != formatOne {
		return r, false, nil
	}
	// What has another name since.
	var first struct {
		Paths []struct {
			SameAs string `json:"same_as"`
			Hops   []struct {
				Off bool `json:"off"`
			} `json:"hops"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &first); err != nil {
		return nil, false, fmt.Errorf("read the paths of format 1: %w", err)
	}
	for i, p := range first.Paths {
		r.Paths[i].VariantOf = p.SameAs
		for k, h := range p.Hops {
			hop := &r.Paths[i].Hops[k]
			hop.Bypassed = h.Off
			switch hop.Type {
			case "cable":
				hop.Type = "link"
			case "gateway":
				hop.Type = "vnet-gateway"
			}
			if v, ok := hop.Parameters["account_cpu"]; ok {
				delete(hop.Parameters, "account_cpu")
				hop.Parameters["measure_kernel_cpu"] = v
			}
		}
	}
	return r, true, nil
}

// Result is one run as result.json and --json carry it.
type Result struct {
	Format string `json:"format"`
	// OldFormat says that the trials were judged by the rules of format 1, whatever the
	// format of the document that has them now.
	OldFormat  bool           `json:"old_format,omitempty"`
	Experiment ExperimentInfo `json:"experiment"`
	Seed       uint64         `json:"seed"`
	// Command is the command line that repeats the run, word by word.
	Command []string `json:"command,omitempty"`
	Testbed Testbed  `json:"testbed"`
	// Environment is the machine and its settings: kernel, CPUs,
	// sysctls, congestion control, versions.
	// Of a run that was resumed they are those of its first part, and Resumed are
	// the further ones.
	Environment map[string]string `json:"environment"`
	Resumed     []Session         `json:"resumed,omitempty"`
	Started     time.Time         `json:"started"`
	Ended       time.Time         `json:"ended"`
	// Complete is false when the run was stopped before its last trial.
	Complete bool                `json:"complete"`
	Planned  int                 `json:"planned_trials"`
	Paths    []PathInfo          `json:"paths"`
	Tests    []TestInfo          `json:"tests"`
	Trials   []measurement.Trial `json:"trials"`
	// Sampled has trials of a fleet as its agents counted them, by their ids.
	Sampled map[string]*Sampled `json:"-"`
	Cells   []Cell              `json:"cells"`
	Costs   []Effect            `json:"costs"`
	// Attributions divide the time of throughput tests among what limits them.
	Attributions []Attribution `json:"attributions"`
	// Variations are the tests that were done again because it could not be told
	// what limited them.
	Variations []Variation `json:"variations,omitempty"`
	// RFC6349 rates the TCP tests of `hopbench test` by the metrics of RFC 6349.
	RFC6349 []RFC6349 `json:"rfc6349,omitempty"`
	// Published compares the published figures of the experiment with what this
	// run measured, in their order.
	Published []PublishedComparison `json:"published,omitempty"`
	// Notes are for the whole run: drift, excluded trials, sessions that differ.
	Notes []Note `json:"notes,omitempty"`
}

// Session is a further part of a run that was stopped and resumed.
type Session struct {
	Started time.Time `json:"started"`
	// Trials is how many were stored before it.
	Trials int `json:"trials_before"`
	// Environment is as that of Result.
	Environment map[string]string `json:"environment"`
	// Endpoints are the ends of the paths of hosts, as those of Testbed.
	Endpoints []TestbedEndpoint `json:"endpoints,omitempty"`
}

// ExperimentInfo identifies the experiment and says what its figures mean.
type ExperimentInfo struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Scale is what rates are multiplied by to compare with the published
	// setting; 1 when the experiment is not scaled down.
	Scale float64 `json:"scale"`
	// Matters are the margins that the experiment or the command line sets, by
	// metric. Contrasts are the comparisons it asks for, none for each path with
	// the baseline.
	Matters   map[string]measurement.Margin `json:"matters,omitempty"`
	Contrasts []Contrast                    `json:"contrasts,omitempty"`
	Baseline  string                        `json:"baseline"`
	Blocks    int                           `json:"blocks"`
	// TwoStage says that all tests were done on one path of a block before the next
	// path, because switching takes long.
	TwoStage  bool     `json:"two_stage,omitempty"`
	Source    string   `json:"source,omitempty"` // of the published figures
	Model     string   `json:"model,omitempty"`  // how the hops' parameters were derived
	Open      []string `json:"open_questions,omitempty"`
	Published []Figure `json:"published,omitempty"`
	// Text is the experiment file itself, so that the run can be repeated.
	Text string `json:"text,omitempty"`
}

// Figure is one published value.
type Figure struct {
	ID     string  `json:"id"` // row of the published table: "E5.1"
	Path   string  `json:"path"`
	Test   string  `json:"test"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"` // in the metric's unit, unscaled
	// Kind is what the figure is to the model.
	Kind FigureKind `json:"kind"`
	// Tolerance is by what share of it the measured value may be off, either
	// way, ToleranceFactor by what factor; of a lab, the ratio of the path to the
	// baseline. Without either nothing is judged.
	Tolerance       *float64 `json:"tolerance_fraction,omitempty"`
	ToleranceFactor float64  `json:"tolerance_factor,omitempty"`
	// Flows and Duration are those it was published with, 0 where not said.
	Flows    int                 `json:"flows,omitempty"`
	Duration measurement.Seconds `json:"duration_seconds,omitempty"`
	Note     string              `json:"note,omitempty"`
}

// FigureKind is what a published figure is to a model.
type FigureKind string

// The kinds.
const (
	FigurePlanted   FigureKind = "planted"   // a parameter of the model was derived from it
	FigurePredicted FigureKind = "predicted" // it follows from parameters derived from other figures
	FigureOpen      FigureKind = "open"      // the model leaves out what it comes from; it is shown and never judged
)

// Testbed is where the paths existed.
type Testbed struct {
	Kind string `json:"kind"` // TestbedLab, or that of a testbed file
	// Relative marks a testbed whose absolute numbers measure its own machine
	// as much as the path.
	Relative bool   `json:"relative"`
	Note     string `json:"note,omitempty"`
	// Name of a testbed of hosts, its endpoints, and where its paths are.
	Name      string            `json:"name,omitempty"`
	Endpoints []TestbedEndpoint `json:"endpoints,omitempty"`
	// MoreEndpoints is how many machines of a fleet there were besides those of Endpoints.
	MoreEndpoints int           `json:"more_endpoints_count,omitempty"`
	Paths         []TestbedPath `json:"paths,omitempty"`
}

// The kinds of testbed that more than their adapters know.
const (
	TestbedLab   = "lab"
	TestbedHosts = "hosts"
	TestbedFleet = "fleet"
)

// TestbedEndpoint is a host at an end of the paths.
type TestbedEndpoint struct {
	Name  string `json:"name"`
	Reach string `json:"reach"` // local, tls, ssh, serve or fleet
	// Host, Version of its hopbench and Environment, which is as that of Result, are
	// absent of a server.
	Host        string            `json:"host,omitempty"`
	Version     string            `json:"version,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	// EgressBitsPerSecond is what the testbed file says of it, 0 where it does not.
	EgressBitsPerSecond float64 `json:"egress_bits_per_second,omitempty"`
}

// TestbedPath is where a path is.
type TestbedPath struct {
	Name string `json:"name"`
	// To is what the source dials, Listen where the destination listens if that
	// differs, From the local address and Device the interface of the source if they
	// are given.
	To     string `json:"to"`
	Listen string `json:"listen,omitempty"`
	From   string `json:"from,omitempty"`
	Device string `json:"device,omitempty"`
	DSCP   int    `json:"dscp,omitempty"`
	// Set are the values of switches that bring the path into force.
	Set   map[string]string `json:"set,omitempty"`
	Proof PathProof         `json:"proof"`
}

// PathProof is what proves of each trial that it took its path.
type PathProof string

// The proofs.
const (
	ProofTrace     PathProof = "trace"        // the hops
	ProofTraceBack PathProof = "trace_back"   // the hops of the way back, and how many hops packets passed
	ProofTTL       PathProof = "received_ttl" // how many hops packets passed
)

// PathInfo is a path as it was built.
type PathInfo struct {
	Name     string    `json:"name"`
	Title    string    `json:"title,omitempty"`
	Baseline bool      `json:"baseline"`
	Source   string    `json:"source"`      // name of the source endpoint
	Dest     string    `json:"destination"` // name of the destination endpoint
	Hops     []HopInfo `json:"hops"`
	// VariantOf names the path on whose nodes and addresses this one lies, with
	// some hops bypassed; empty for a path of its own.
	VariantOf string `json:"variant_of,omitempty"`
	// Tunnel between the endpoints over all hops, in words; empty for none.
	Tunnel string `json:"tunnel,omitempty"`
}

// HopInfo is one hop of a path.
type HopInfo struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	// Parameters as written, with units: {"delay": "1.13ms"}.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Bypassed marks a hop that traffic does not take on this path.
	Bypassed bool `json:"bypassed,omitempty"`
}

// TestInfo is a test of the experiment.
type TestInfo struct {
	Name  string           `json:"name"`
	Title string           `json:"title,omitempty"`
	Spec  measurement.Spec `json:"spec"`
	// Explains is the test of which this one is a variation, done because it could not
	// be told what limited that one.
	Explains string `json:"explains,omitempty"`
	// Intervention is the one thing that is changed there.
	Intervention Intervention `json:"intervention,omitempty"`
}

// Intervention is one thing of a test that is changed to tell what limits it: what
// limits a test is what changes its rate.
type Intervention string

// The interventions.
const (
	Slower      Intervention = "slower"       // paced a tenth below what was carried
	TwiceWindow Intervention = "twice_window" // each window and buffer that the test sets
	TwiceFlows  Intervention = "twice_flows"
)

// Interventions lists them in the order in which they are tried: what disturbs the path
// least comes first.
func Interventions() []Intervention { return []Intervention{Slower, TwiceWindow, TwiceFlows} }

// Variation is a test that was done again on one path with one thing changed. Its
// trials are of no block, and count for no verdict.
type Variation struct {
	Path   string              `json:"path"`
	Test   TestInfo            `json:"test"`
	Trials []measurement.Trial `json:"trials,omitempty"`
}

// Cell is one metric of one test on one path over all its trials.
type Cell struct {
	Path   string `json:"path"`
	Test   string `json:"test"`
	Metric string `json:"metric"`
	N      int    `json:"n"`
	// Broken is how many trials the path broke; they have no value.
	Broken int     `json:"broken,omitempty"`
	Median float64 `json:"median"`
	// Low and High are the 95 % interval of the median (order statistics);
	// both absent when n < 6 allows none.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Coverage is what the interval attains, at least 0.95: order statistics
	// come in steps.
	Coverage float64 `json:"coverage,omitempty"`
	// Resolution is how far the median may be off, at 95 %, in the metric's unit, because
	// trials count whole segments, packets or steps of a clock; the interval has it in it.
	Resolution float64 `json:"resolution,omitempty"`
	// Outliers are the ids of trials beyond three median absolute deviations:
	// flagged, never dropped.
	Outliers []string `json:"outliers,omitempty"`
}

// Verdict on an effect.
type Verdict string

// The verdicts.
const (
	Costs       Verdict = "costs"        // worse than the reference, beyond chance
	Gains       Verdict = "gains"        // better than the reference, beyond chance
	Breaks      Verdict = "breaks"       // breaks more trials than the reference, beyond chance
	NoCost      Verdict = "no-cost"      // no cost larger than a stated bound
	NotResolved Verdict = "not-resolved" // needs more repetitions
	// TooFewBlocks: whatever the effect, it could not be beyond chance. Indicated:
	// nor could it, but Student's t of the few blocks points to it.
	TooFewBlocks Verdict = "too-few-blocks"
	Indicated    Verdict = "indicated"
)

// Cause is what a sender's time was spent waiting for.
type Cause string

// The causes an Attribution divides the time among.
const (
	CauseSenderApplication     Cause = "sender_application"      // nothing to send
	CauseSendBuffer            Cause = "send_buffer"             // the sender's socket buffer was full of unacknowledged data
	CauseReceiveWindow         Cause = "receive_window"          // the window that the receiver advertised
	CauseCongestionWindowLoss  Cause = "congestion_window_loss"  // the congestion window, and segments were lost
	CauseCongestionWindowDelay Cause = "congestion_window_delay" // the congestion window, and nothing was lost
	// CauseCongestionWindowGrowth is the congestion window while it still grew, for
	// the test was short: slow start, or what comes after it.
	CauseCongestionWindowGrowth Cause = "congestion_window_growth"
	CauseReordering             Cause = "reordering"           // packets that overtook others were taken for lost ones
	CauseReceiverApplication    Cause = "receiver_application" // the program did not take what had arrived
	CausePacing                 Cause = "pacing"               // the sender's own pacing rate
	CauseSourceCPU              Cause = "source_cpu"
	CauseDestinationCPU         Cause = "destination_cpu"
	CauseSourceThread           Cause = "source_thread"      // one thread, with CPUs to spare
	CauseDestinationThread      Cause = "destination_thread" // likewise
	CauseLocalDrops             Cause = "local_drops"        // an end dropped packets itself
	CauseSourceCap              Cause = "source_cap"         // the metered egress of the endpoint
	CauseDestinationCap         Cause = "destination_cap"
	CauseSourceLink             Cause = "source_link" // the speed of the endpoint's network interface
	CauseDestinationLink        Cause = "destination_link"
	CauseHopRate                Cause = "hop_rate"      // a hop sends no faster, all flows together
	CauseHopFlowRate            Cause = "hop_flow_rate" // a hop sends no faster for each flow
	CauseHopPolicer             Cause = "hop_policer"   // a hop drops what is faster, without a queue
	CauseHopMarks               Cause = "hop_marks"     // a queue marks packets instead of dropping them (RFC 3168)
	CauseHopCPU                 Cause = "hop_cpu"
	// CauseGenerator is the machine of both ends and of all that is between them:
	// nothing is known of the path beyond what it can generate.
	CauseGenerator Cause = "generator"
	CauseUnknown   Cause = "unknown" // cannot be told from what was seen
)

// Causes lists the causes from the source along the path to the destination.
func Causes() []Cause {
	return []Cause{CauseSenderApplication, CauseSendBuffer, CauseReceiveWindow, CauseCongestionWindowLoss, CauseCongestionWindowDelay,
		CauseCongestionWindowGrowth, CauseReordering, CausePacing, CauseSourceThread, CauseSourceCPU, CauseSourceCap, CauseSourceLink, CauseLocalDrops,
		CauseHopRate, CauseHopFlowRate, CauseHopPolicer, CauseHopMarks, CauseHopCPU, CauseDestinationCap, CauseDestinationLink, CauseDestinationCPU, CauseDestinationThread,
		CauseReceiverApplication, CauseGenerator, CauseUnknown}
}

// NotPassed is how many trials gates excluded, and how many the paths broke.
func (r *Result) NotPassed() (excluded, broken int) {
	for i := range r.Trials {
		switch gate := r.Trials[i].Gate; {
		case gate.Broken:
			broken++
		case !gate.Passed:
			excluded++
		}
	}
	return excluded, broken
}

// MostOfTheTime says that a share of the time is more than half of it, and not by rounding:
// its cause is the one that is named.
func MostOfTheTime(share float64) bool { return share > 0.5+1e-6 }

// Attribution divides the measured time of one throughput test on one path
// among what limited the senders, over all trials that count.
type Attribution struct {
	Path string `json:"path"`
	Test string `json:"test"`
	N    int    `json:"n"` // trials
	// Shares add to 1; a cause without a share is absent.
	Shares map[Cause]float64 `json:"shares"`
	// Hop is the hop of a cause that is a hop's, or where losses or reordering
	// happened; empty where it is not known which.
	Hop string `json:"hop,omitempty"`
	// RateBitsPerSecond of a hop, on the wire: of all flows together, or of each if the
	// cause is its rate per flow; 0 where the cause is another.
	RateBitsPerSecond float64 `json:"rate_bits_per_second,omitempty"`
	// The medians over flows of what was in flight, of the smoothed round-trip
	// time and of the smallest; 0 where the kernel did not tell.
	InFlightBytes float64             `json:"in_flight_bytes,omitempty"`
	RTT           measurement.Seconds `json:"rtt_seconds,omitempty"`
	MinRTT        measurement.Seconds `json:"min_rtt_seconds,omitempty"`
	// MoreFlowsGain is the goodput of tests with more flows on the path, over that of
	// this one, the largest of them; 0 where none was done.
	MoreFlowsGain float64 `json:"more_flows_gain,omitempty"`
	// Queued says that most of that round-trip time is waiting in a queue.
	Queued bool `json:"queued,omitempty"`
	// Remaining are the causes between which it cannot be told, absent where there
	// are none, or all are possible.
	Remaining []Cause `json:"remaining_causes,omitempty"`
	// Answers are those of the test with one thing changed, of which the cause was told.
	Answers []Answer `json:"answers,omitempty"`
	// MarkedFraction is the share of the delivered segments for which the receiver
	// reported marks of congestion (RFC 3168), the median over flows.
	MarkedFraction float64 `json:"marked_fraction,omitempty"`
	// The speeds of the endpoints' interfaces, 0 where they are not known.
	SourceLinkBitsPerSecond      float64 `json:"source_link_bits_per_second,omitempty"`
	DestinationLinkBitsPerSecond float64 `json:"destination_link_bits_per_second,omitempty"`
	// The metered rates on the wire of what the endpoints send, 0 for none.
	SourceEgressBitsPerSecond      float64 `json:"source_egress_bits_per_second,omitempty"`
	DestinationEgressBitsPerSecond float64 `json:"destination_egress_bits_per_second,omitempty"`
}

// Answer is what became of a test with one thing changed.
type Answer struct {
	Intervention Intervention `json:"intervention"`
	Response     Response     `json:"response"`
	// Flows is how many the changed test had.
	Flows int `json:"flows"`
	// GoodputRatio is its goodput, over that of the test as it was.
	GoodputRatio float64 `json:"goodput_ratio"`
}

// Response is how a test responds to an intervention.
type Response string

// The responses.
const (
	Rises    Response = "rises"    // with what was changed
	Stays    Response = "stays"    // at the same rate
	Calms    Response = "calms"    // keeps to the pace with half of the losses, or of the waiting
	Persists Response = "persists" // cannot keep to the pace, and loses as before
)

// IdealSource says where the ideal of an RFC6349 comes from.
type IdealSource string

// The sources.
const (
	IdealGiven    IdealSource = "given"    // the user's bottleneck bandwidth, less the headers
	IdealMeasured IdealSource = "measured" // the largest goodput of the same direction in this result
)

// RFC6349 rates one TCP test by the three metrics of RFC 6349, section 4.
type RFC6349 struct {
	Test string `json:"test"`
	// Goodput is what the test reached, Ideal what the path allows.
	Goodput     float64     `json:"goodput_bits_per_second"`
	Ideal       float64     `json:"ideal_bits_per_second"`
	IdealSource IdealSource `json:"ideal_source"`
	// TransferTimeRatio is the actual transfer time over the ideal one (4.1),
	// absent where the test itself is all that is known of the ideal.
	TransferTimeRatio *float64 `json:"transfer_time_ratio,omitempty"`
	// TCPEfficiency is the fraction of bytes that were not sent again (4.2),
	// absent where it is not known.
	TCPEfficiency *float64 `json:"tcp_efficiency_fraction,omitempty"`
	// BufferDelay is the increase of the round-trip time over that of the idle
	// path (4.3), absent where it is not known.
	BufferDelay *float64 `json:"buffer_delay_fraction,omitempty"`
}
