package words

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

const (
	// maxPlaces bounds how many places a sentence names, maxPairs how many pairs.
	maxPlaces = 4
	maxPairs  = 3
	noReason  = "no reason was recorded"
	ofFlows   = "too few for a rate (at least %d)"
)

type finding = measurement.Finding

// findings has the sentence of each code; those of the path say what differs.
var findings = map[measurement.FindingCode]func(f finding) string{
	measurement.FoundText:       func(f finding) string { return strings.TrimSpace(f.Text) },
	measurement.FoundTestFailed: testFailed,
	measurement.FoundHopDied:    reason,
	measurement.FoundHopDiedBefore: func(f finding) string {
		return reason(f) + ", before this trial could begin"
	},
	measurement.FoundBedBroke: reason,
	measurement.FoundUnknownKind: func(f finding) string {
		return fmt.Sprintf("this version cannot judge a %s test", f.Kind)
	},
	measurement.FoundNoBytes:      func(finding) string { return "the receiver confirmed no bytes" },
	measurement.FoundNoPackets:    func(finding) string { return "the receiver confirmed no packet" },
	measurement.FoundNoAnswers:    func(f finding) string { return part(f) + "no answer came back" },
	measurement.FoundFlowsMissing: func(f finding) string { return brought(f, "flows") },
	measurement.FoundShortFlow: func(f finding) string {
		return fmt.Sprintf("flow %d carried %d bytes in the measured time, "+ofFlows, f.Flow, f.Bytes, f.NeededBytes)
	},
	measurement.FoundShortFlows: func(f finding) string {
		return fmt.Sprintf("%d flows carried %d bytes together in the measured time, "+ofFlows, f.Count, f.Bytes, f.NeededBytes)
	},
	measurement.FoundNoSeries: func(finding) string { return "the receiver returned no series" },
	measurement.FoundCutShort: func(f finding) string {
		return fmt.Sprintf("only %.3f s of the planned %.3f s were measured", float64(f.Measured), float64(f.Planned))
	},
	measurement.FoundAboveLimit: aboveLimit,
	measurement.FoundAllLost:    func(finding) string { return "every packet was lost" },
	measurement.FoundDrops: func(f finding) string {
		return dropped(f) + fmt.Sprintf(", and about %.0f were lost in all", f.Lost)
	},
	measurement.FoundDropsOfSearch: func(f finding) string {
		return "during the search " + dropped(f) + "; they, not the path, may have ended it"
	},
	measurement.FoundDropsOfAll: dropped,
	measurement.FoundFewPackets: func(f finding) string {
		if f.Of > 0 {
			return fmt.Sprintf("only %d of %d packets arrived, too few for a rate (at least %d)", f.Count, f.Of, f.Needed)
		}
		return fmt.Sprintf("%s in the measured time %s too few for a loss rate (at least %d)", quantity.Count(f.Count, "packet"), agree(f.Count, "is", "are"), f.Needed)
	},
	measurement.FoundAboveLossBound: func(f finding) string {
		return fmt.Sprintf("none of %s lost at most %s", quantity.Count(f.Count, "rate"), quantity.Format(f.LossBound, measurement.Fraction))
	},
	measurement.FoundFewAnswers: func(f finding) string {
		text := part(f) + fmt.Sprintf("%s %s too few for a median (at least %d)", quantity.Count(f.Count, "answer"), agree(f.Count, "is", "are"), f.Needed)
		if f.Of > 0 {
			text += fmt.Sprintf("; %d of %s %s lost, and the test waited for each: use a shorter timeout, or requests_per_second, to get more", f.Of-f.Count, quantity.Count(f.Of, "request"), agree(f.Of-f.Count, "was", "were"))
		}
		return text
	},
	measurement.FoundUnanswered: func(f finding) string {
		return part(f) + fmt.Sprintf("%d of %s had no answer, so there is no median", f.Count, quantity.Count(f.Of, "request"))
	},
	measurement.FoundImpossibleTimes: func(f finding) string {
		return part(f) + fmt.Sprintf("a smallest round trip of %v s and a largest of %v s cannot both be true", f.Min, f.Max)
	},
	measurement.FoundFailedConnections: func(f finding) string {
		return fmt.Sprintf("%d of %s failed", f.Count, quantity.Count(f.Of, "connection"))
	},
	measurement.FoundShortTransfer: func(f finding) string {
		return fmt.Sprintf("the transfer took only %.3g s, and TCP needs much of that to find the path's rate; use a larger file", float64(f.Measured))
	},
	measurement.FoundPairsMissing: func(f finding) string {
		text := brought(f, "pairs")
		if f.Needed > 0 {
			text += fmt.Sprintf(", at least %d must", f.Needed)
		}
		if len(f.Pairs) > 0 {
			text += "; " + firstPairs(f.Pairs, "; ")
		}
		if !f.Fatal {
			text += fmt.Sprintf("; sums cover only the others, and are %s too low if all pairs carry the same", Percent(float64(f.Of-f.Count)/float64(f.Of)))
		}
		return text
	},
	measurement.FoundPairsFailed: func(f finding) string {
		return fmt.Sprintf("the path failed %d of %d pairs; %s", f.Count, f.Of, firstPairs(f.Pairs, "; "))
	},
	measurement.FoundPairsWithoutBytes: func(f finding) string {
		return "nothing was confirmed in the measured time for " + firstPairs(f.Pairs, ", ")
	},
	measurement.FoundPairsCutShort: func(f finding) string {
		return "the count over time is missing or too short for " + firstPairs(f.Pairs, ", ")
	},
	measurement.FoundPairsWithoutRTT: func(f finding) string {
		return "there is no round-trip time sample for " + firstPairs(f.Pairs, ", ")
	},
	measurement.FoundOtherInstrument: func(f finding) string {
		return fmt.Sprintf("%s was %q, and %q in the first trial of this test: not only the path differs; %s", f.Setting, f.Is, f.Was, remedy(f.Setting))
	},
	measurement.FoundBusyCPUs: func(f finding) string {
		return fmt.Sprintf("the %s's CPUs were %.0f %% busy; the trial may have measured the host", f.End, f.CPUBusy*100)
	},
	measurement.FoundBusyCPU: func(f finding) string {
		return fmt.Sprintf("one of the %s's CPUs was full, all together %.0f %% busy; the trial may have measured a single thread", f.End, f.CPUBusy*100)
	},

	measurement.FoundMoreThanSent: func(f finding) string {
		return fmt.Sprintf("flow %d received %d bytes although only %d were sent: the counts are wrong", f.Flow, f.Bytes, f.SentBytes)
	},
	measurement.FoundClockStepped: func(f finding) string {
		return fmt.Sprintf("this machine's clock was set by %+.3g s during the trial, which makes packet times wrong; do not set it during a run (slewing does no harm)", float64(f.Step))
	},
	measurement.FoundOtherRun: func(f finding) string {
		return quantity.Count(f.Count, "other run") + " of hopbench measured on this machine at the same time"
	},
	measurement.FoundOtherClient: otherClient,

	measurement.FoundStolenCPU: func(f finding) string {
		return fmt.Sprintf("a hypervisor took %.0f %% of the CPU time of the %s", f.CPUStolen*100, f.End)
	},
	measurement.FoundStandstill: func(f finding) string {
		return fmt.Sprintf("the %s did not run in %.0f %% of the measured time although its CPUs had room: its process was stopped or its machine paused, or a container's CPU limit was reached", f.End, f.Standstill*100)
	},

	measurement.FoundPathFailed:   reason,
	measurement.FoundNotSwitched:  func(finding) string { return "the testbed did not switch to it" },
	measurement.FoundNotConfirmed: reason,
	measurement.FoundTraceFailed: func(f finding) string {
		if f.Outer {
			return "the trace below the tunnel failed: " + f.Text
		}
		return "the trace failed: " + f.Text
	},
	measurement.FoundSilentHops: func(f finding) string {
		return below(f) + fmt.Sprintf("hops did not answer: the trace saw %v of the path %v", f.Hops, f.ExpectedHops)
	},
	measurement.FoundOtherHops: func(f finding) string {
		return below(f) + fmt.Sprintf("%s saw %v, but the path is %v", theTrace(f), f.Hops, f.ExpectedHops)
	},
	measurement.FoundOtherTTL: func(f finding) string {
		return below(f) + fmt.Sprintf("packets arrived with a TTL of %d, but the path leaves %d", f.TTL, f.ExpectedTTL)
	},
	measurement.FoundOtherReturnedTTL: func(f finding) string {
		return below(f) + fmt.Sprintf("packets came back with a TTL of %d, but the path leaves %d", f.TTL, f.ExpectedTTL)
	},
	measurement.FoundOtherTunnelMTU: func(f finding) string {
		return fmt.Sprintf("TCP found a path MTU of %d, but the tunnel has %d", f.MTU, f.ExpectedMTU)
	},
	measurement.FoundOtherHopCount: func(f finding) string {
		return fmt.Sprintf("%s saw %d hops %v, but the path has %d", theTrace(f), f.Count, f.Hops, f.Needed)
	},
	measurement.FoundOtherMTU: func(f finding) string {
		return fmt.Sprintf("TCP found a path MTU of %d, but the path has %d", f.MTU, f.ExpectedMTU)
	},
	measurement.FoundTTLChanged: func(f finding) string {
		return fmt.Sprintf("packets arrived with a TTL of %d, in the first trial %d", f.TTL, f.ExpectedTTL)
	},
	measurement.FoundMTUChanged: func(f finding) string {
		return fmt.Sprintf("TCP found a path MTU of %d, in the first trial %d", f.MTU, f.ExpectedMTU)
	},
}

// Findings joins the findings of a gate; fatal leaves out mere warnings.
func Findings(g measurement.Gate, fatal bool) string {
	var out []string
	for _, f := range g.Findings {
		if f.Fatal || !fatal {
			out = append(out, Finding(f))
		}
	}
	if len(out) == 0 && !g.Passed {
		return noReason
	}
	return strings.Join(out, "; ")
}

// BriefFindings is the first of the fatal findings in few words: what failed and for which
// reason, without the error of the system.
func BriefFindings(g measurement.Gate) string {
	i := slices.IndexFunc(g.Findings, func(f finding) bool { return f.Fatal })
	if i < 0 {
		return Findings(g, true)
	}
	f := g.Findings[i]
	text, failure := Finding(f), ": "+f.Failure
	if at := strings.Index(text, failure+": "); f.Failure != "" && at >= 0 {
		return text[:at+len(failure)]
	}
	return part(f) + FirstWords(strings.TrimPrefix(text, part(f)))
}

// FirstWords is a sentence up to what explains it.
func FirstWords(text string) string {
	for _, end := range []string{": ", "; "} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}

// Finding writes what a gate found as a sentence.
func Finding(f measurement.Finding) string {
	switch {
	case !slices.Contains(measurement.PathCodes(), f.Code), f.PathFailure:
		return difference(f)
	case f.Code == measurement.FoundSilentHops && f.Fatal:
		return "nothing proves that the trial took its path: " + difference(f)
	case f.Code == measurement.FoundSilentHops:
		return difference(f) + fmt.Sprintf("; packets arrived with the right TTL, %d, which proves their number", f.TTL)
	case f.Fatal:
		return "the trial did not take its path: " + difference(f)
	}
	return "the path differs from that of earlier trials: " + difference(f)
}

// difference is a finding without what it means for the trial.
func difference(f finding) string {
	text := ""
	if say, known := findings[f.Code]; known {
		text = say(f)
	}
	// A newer hopbench has further codes.
	text = cmp.Or(text, f.Name, string(f.Code), noReason)
	if f.Pair != "" {
		text = f.Pair + ": " + text
	}
	return text
}

// reason is what was recorded.
func reason(f finding) string { return cmp.Or(f.Text, noReason) }

func brought(f finding, what string) string {
	return fmt.Sprintf("%d of %d %s returned a result", f.Count, f.Of, what)
}

// testFailed says why a test gave no outcome, and whether that is known.
func testFailed(f finding) string {
	text := reason(f)
	if f.Failure == "failed" {
		text += " (unknown whether the path or the instrument failed)"
	}
	return text
}

// part says of which part of a load test a finding is.
func part(f finding) string {
	switch f.Part {
	case "idle":
		return "without load: "
	case "loaded":
		return "under load: "
	}
	return ""
}

func theTrace(f finding) string {
	if f.Back {
		return "the trace back to the source"
	}
	return "the trace"
}

func below(f finding) string {
	if f.Outer {
		return "below the tunnel "
	}
	return ""
}

// whose is whose rate a limit is.
var whose = map[measurement.Limit]string{
	measurement.LimitSource:      "the source's egress cap",
	measurement.LimitDestination: "the destination's egress cap",
	measurement.LimitHop:         "the rate of a hop",
	measurement.LimitReverseHop:  "the rate of a hop, in the reverse direction,",
}

func aboveLimit(f finding) string {
	what := cmp.Or(whose[f.Limit], string(f.Limit))
	if f.LimitPairs > 1 {
		what += ", times the pairs,"
	}
	return fmt.Sprintf("%.4g bit/s received is more than %s of %.4g bit/s allows", f.Received, what, f.AtMost)
}

// dropped says how many packets the ends lost themselves, and where.
func dropped(f finding) string {
	places := []string{"unknown place"}
	if len(f.Drops) > 0 {
		places = nil
	}
	for i, d := range f.Drops {
		if i == maxPlaces {
			places = append(places, "…")
			break
		}
		places = append(places, fmt.Sprintf("%s %.0f", DropPlace(d), d.Packets))
	}
	if f.Count > 1 {
		places[len(places)-1] += fmt.Sprintf("; each may be of up to %d that were joined", f.Count)
	}
	return fmt.Sprintf("the hosts themselves dropped %s (%s)", quantity.Count(int(math.Round(f.Dropped)), "packet"), strings.Join(places, ", "))
}

// DropPlace is where an end lost packets.
func DropPlace(d measurement.EndDrop) string {
	if d.End == "both" {
		return "both ends' " + d.Place
	}
	return d.End + "'s " + d.Place
}

// firstPairs lists the first few pairs and says how many more there are.
func firstPairs(pairs []string, separator string) string {
	if more := len(pairs) - maxPairs; more > 0 {
		return strings.Join(pairs[:maxPairs], separator) + fmt.Sprintf(" and %s more", quantity.Count(more, "pair"))
	}
	return strings.Join(pairs, separator)
}

// remedy says what has all trials of a test measured with one setting.
func remedy(setting string) string {
	switch setting {
	case "placement":
		return "let both ends use the same CPUs for the whole run"
	case "source_wait", "destination_wait":
		return "do not use spin, or keep the CPUs that it needs free for the whole run"
	case "flow_scheduling", "receive_wait":
		return "allow both ends more threads (ulimit -u), or use fewer flows"
	case "send_method":
		return "set send_method: copy for the test, which works on every path"
	case "receive_method":
		return "set copy_payload: true for the test, which works on every system"
	case "gso", "gro":
		return "set " + setting + ": off for the test, which works on every path"
	}
	return "run all trials on hosts with the same system"
}

// otherClient names who else tested with a server.
func otherClient(f finding) string {
	who := quantity.Count(f.Count, "other client")
	if f.Address != "" {
		who = f.Address
		if f.Count > 1 {
			who += " and " + quantity.Count(f.Count-1, "other client")
		}
	}
	return fmt.Sprintf("%s tested with the same server at the same time and moved %s: let one test at a time", who, quantity.Format(float64(f.Bytes), measurement.Bytes))
}
