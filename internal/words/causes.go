package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// cause is what a limit is called, and the sentence of one that took most of
// the time.
type cause struct {
	name string
	say  func(a attribution) string
}

var causes = map[result.Cause]cause{
	result.CauseSenderApplication: {"sending program", func(a attribution) string {
		if a.test.Direction == measurement.Both {
			return "the sending programs had nothing to send " + a.part()
		}
		return fmt.Sprintf("the sending program on the %s had nothing to send %s", a.sender(), a.part())
	}},
	result.CauseSendBuffer: {"send buffer", func(a attribution) string {
		return a.window("limited by the send buffer "+a.part(), "a larger send buffer")
	}},
	result.CauseReceiveWindow: {"receive window", func(a attribution) string {
		return a.window("limited by the receive window "+a.part(), "a larger receive window")
	}},
	result.CauseCongestionWindowLoss: {"congestion window (loss)", func(a attribution) string {
		return a.window("limited by the congestion window "+a.part()+", with losses"+a.at(), "fewer losses")
	}},
	result.CauseCongestionWindowDelay: {"congestion window (delay)", func(a attribution) string {
		return a.window("limited by the congestion window "+a.part()+", without losses", a.longer()+" or another congestion control")
	}},
	result.CausePacing:          {"pacing", func(a attribution) string { return "limited by the sender's own pacing " + a.part() }},
	result.CauseSourceCPU:       {"source's CPU", func(a attribution) string { return a.cpu("source") }},
	result.CauseDestinationCPU:  {"destination's CPU", func(a attribution) string { return a.cpu("destination") }},
	result.CauseSourceCap:       {"source's egress cap", func(a attribution) string { return capText("source", a.SourceEgressBitsPerSecond) }},
	result.CauseDestinationCap:  {"destination's egress cap", func(a attribution) string { return capText("destination", a.DestinationEgressBitsPerSecond) }},
	result.CauseSourceLink:      {"source's link", func(a attribution) string { return linkText("source", a.SourceLinkBitsPerSecond) }},
	result.CauseDestinationLink: {"destination's link", func(a attribution) string { return linkText("destination", a.DestinationLinkBitsPerSecond) }},
	result.CauseCongestionWindowGrowth: {"congestion window (growing)", func(a attribution) string {
		return "the congestion window was still growing " + a.part() + "; " + a.longer() + " would show more"
	}},
	result.CauseReordering: {"reordering", func(a attribution) string {
		return "limited " + a.part() + " by packets that were overtaken" + a.at() + ", considered lost and retransmitted"
	}},
	result.CauseReceiverApplication: {"receiving program", func(a attribution) string {
		if a.test.Direction == measurement.Both {
			return "the receiving programs did not read the arrived data " + a.part()
		}
		return fmt.Sprintf("the receiving program on the %s did not read the arrived data %s", a.receiver(), a.part())
	}},
	result.CauseSourceThread:      {"source's thread", func(a attribution) string { return a.thread("source") }},
	result.CauseDestinationThread: {"destination's thread", func(a attribution) string { return a.thread("destination") }},
	result.CauseLocalDrops: {"drops at an end", func(a attribution) string {
		return "limited " + a.part() + " by packets that an end itself dropped"
	}},
	result.CauseHopRate: {"hop's rate", func(a attribution) string {
		text := "at the rate of " + a.hop() + a.rate()
		if a.Queued {
			text += fmt.Sprintf(": most of the round trip of %s is waiting in its queue (the smallest is %s)", Time(a.RTT), Time(a.MinRTT))
		}
		return text
	}},
	result.CauseHopFlowRate: {"hop's rate per flow", func(a attribution) string {
		return "at the per-flow rate of " + a.hop() + a.rate()
	}},
	result.CauseHopPolicer: {"hop's policer", func(a attribution) string {
		return "limited " + a.part() + " by losses: " + a.hop() + " drops packets above its rate" + a.rate() + ", with almost no queue"
	}},
	result.CauseHopMarks: {"queue that marks", func(a attribution) string {
		text := "limited " + a.part() + " by a queue of the path that marks packets (ECN) before it would drop them"
		if a.MarkedFraction > 0 {
			text += ": congestion was reported for " + Value(a.MarkedFraction, measurement.Fraction) + " of the segments"
		}
		return text
	}},
	result.CauseHopCPU: {"hop's CPU", func(a attribution) string {
		return "at the processing rate of " + a.hop() + ": its thread ran, or waited for a CPU, nearly all of the time"
	}},
	result.CauseGenerator: {"this machine's CPUs", func(a attribution) string {
		return fmt.Sprintf("not tested beyond this machine, which runs both ends and everything between them: its CPUs were full, and nothing else explains %s", a.part())
	}},
	result.CauseUnknown: {"unknown", func(a attribution) string {
		return fmt.Sprintf("the senders' counters do not show the limit for %s", a.part())
	}},
}

// Cause is what a limit is called. One that is not known keeps its own name.
func Cause(c result.Cause) string {
	if known, ok := causes[c]; ok {
		return known.name
	}
	return string(c)
}

// Causes lists the causes that have a share, those that are known in their
// order, then others by name.
func Causes(shares map[result.Cause]float64) []result.Cause {
	order := slices.Clone(result.Causes())
	for _, c := range slices.Sorted(maps.Keys(shares)) {
		if _, known := causes[c]; !known {
			order = append(order, c)
		}
	}
	return slices.DeleteFunc(order, func(c result.Cause) bool { return !(shares[c] > 0) })
}

// attribution is an attribution of a test, and the share that a sentence speaks of.
type attribution struct {
	result.Attribution
	test  measurement.Spec
	share float64
}

// Attribution says what limited the flows most of the time; nothing where there
// are no shares.
func Attribution(a result.Attribution, test measurement.Spec) string {
	order := Causes(a.Shares)
	if len(order) == 0 {
		return ""
	}
	slices.SortStableFunc(order, func(x, y result.Cause) int { return cmp.Compare(a.Shares[y], a.Shares[x]) })
	first := order[0]
	known, ok := causes[first]
	if ok && result.MostOfTheTime(a.Shares[first]) {
		return known.say(attribution{a, test, a.Shares[first]}) + remaining(a, first) + answers(a.Answers, test)
	}
	var parts []string
	for _, c := range order {
		if a.Shares[c] >= 0.05 {
			parts = append(parts, Cause(c)+" "+Share(a.Shares[c]))
		}
	}
	return "no single cause: " + strings.Join(parts, ", ") + " of the time" + answers(a.Answers, test)
}

// remaining names the causes that what is unknown may be.
func remaining(a result.Attribution, told result.Cause) string {
	if len(a.Remaining) < 2 || told != result.CauseUnknown {
		return ""
	}
	var names []string
	for _, c := range a.Remaining {
		if c == result.CauseUnknown {
			names = append(names, "something else")
		} else {
			names = append(names, Cause(c))
		}
	}
	return "; it may be " + list(names, "or")
}

// changed says what an intervention changes.
var changed = map[result.Intervention]string{
	result.Slower: "paced a tenth slower", result.TwiceWindow: "with twice the window", result.TwiceFlows: "with twice the flows",
}

// answers says of what a cause was told.
func answers(all []result.Answer, test measurement.Spec) string {
	text := ""
	for _, a := range all {
		text += "; "
		if a.Intervention == result.TwiceFlows {
			text += "with " + quantity.Count(a.Flows, flowOf(test)) // twice as many, or those of another test
		} else {
			text += changed[a.Intervention]
		}
		text += " it carried " + Ratio(a.GoodputRatio) + " as much"
		switch a.Response {
		case result.Calms:
			text += ", with less than half of the losses or of the queueing"
		case result.Persists:
			text += ", and lost as much as before"
		}
	}
	return text
}

func (a attribution) part() string { return Share(a.share) + " of the time" }

func (a attribution) sender() string {
	if a.test.Direction == measurement.Receive {
		return "destination"
	}
	return "source"
}

func (a attribution) receiver() string {
	if a.test.Direction == measurement.Receive {
		return "source"
	}
	return "destination"
}

// at says at which hop something happened, where that is known.
func (a attribution) at() string {
	if a.Hop == "" {
		return ""
	}
	return " at " + a.Hop
}

// hop names the hop of a cause, which may not say who it is.
func (a attribution) hop() string {
	if a.Hop == "" {
		return "a hop of the path"
	}
	return a.Hop
}

func (a attribution) rate() string { return withRate("", ", ", a.RateBitsPerSecond) }

// withRate adds a rate to a text, where it is known.
func withRate(text, between string, bitsPerSecond float64) string {
	if bitsPerSecond > 0 {
		return text + between + Rate(bitsPerSecond)
	}
	return text
}

func (a attribution) thread(end string) string {
	return fmt.Sprintf("one thread of the %s ran, or waited for a CPU, nearly all of the time, and limited %s", end, a.part())
}

func (a attribution) cpu(end string) string {
	role := "sending"
	switch {
	case a.test.Direction == measurement.Both:
		role = "sending and receiving"
	case end != a.sender():
		role = "receiving"
	}
	return fmt.Sprintf("the CPUs of the %s (%s) were busy; nothing else explains %s", end, role, a.part())
}

func capText(end string, rate float64) string {
	return withRate("at the "+end+"'s egress cap", " of ", rate)
}

func linkText(end string, rate float64) string {
	return withRate("at the speed of the "+end+"'s network interface", ", ", rate)
}

// moreFlowsHelp is the gain of more flows from which on they are a remedy.
const moreFlowsHelp = 1.1

// window adds the arithmetic of bytes in flight per round trip.
func (a attribution) window(what, remedy string) string {
	if a.InFlightBytes == 0 || a.RTT == 0 {
		return what
	}
	text := fmt.Sprintf("%s: %s in flight at %s per flow allow %s", what, Value(a.InFlightBytes, measurement.Bytes), Time(a.RTT), Rate(a.InFlightBytes*8/float64(a.RTT)))
	if a.Queued {
		return text + fmt.Sprintf("; most of that round trip is waiting in a queue (the smallest is %s), so what drains the queue sets the rate", Time(a.MinRTT))
	}
	if a.MoreFlowsGain > 0 && a.MoreFlowsGain < moreFlowsHelp {
		return text + fmt.Sprintf("; %s would raise it, more %ss do not", remedy, flowOf(a.test))
	}
	if a.test.Kind == measurement.FTP && a.test.Direction == measurement.Send { // stored in one piece
		return text + fmt.Sprintf("; %s would raise it", remedy)
	}
	return text + fmt.Sprintf("; more %ss or %s would raise it", flowOf(a.test), remedy)
}

// longer is what gives a window more time to grow: a file takes as long as it is large.
func (a attribution) longer() string {
	if a.test.Kind == measurement.FTP {
		return "a larger file"
	}
	return "a longer test"
}

// flowOf is what one of the flows of a test is called.
func flowOf(test measurement.Spec) string {
	k, _ := kind.Of(test.Kind)
	return cmp.Or(k.Flow, "flow")
}
