package measurement

import "encoding/json"

// Gate is the judgement whether a trial counts.
type Gate struct {
	Passed bool `json:"passed"`
	// Broken says that the trial does not count because its path failed: an
	// outcome, the worst of all. A trial that neither passed nor is broken is
	// missing.
	Broken   bool      `json:"broken,omitempty"`
	Findings []Finding `json:"findings,omitempty"` // of the gates that fail or warn
}

// UnmarshalJSON reads a gate; format 1 called the findings checks.
func (g *Gate) UnmarshalJSON(data []byte) error {
	type plain Gate
	old := struct {
		*plain
		Checks []Finding `json:"checks"`
	}{plain: (*plain)(g)}
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	if old.Checks != nil {
		g.Findings = old.Checks
	}
	return nil
}

// FindingCode says what a Finding is about.
type FindingCode string

// The codes. Their parameters are the fields of Finding that
// docs/data-format.md lists for each.
const (
	FoundText              FindingCode = "text"        // a sentence of format 1
	FoundTestFailed        FindingCode = "test_failed" // Failure says in which way
	FoundHopDied           FindingCode = "hop_died"    // and with it this path
	FoundHopDiedBefore     FindingCode = "hop_died_before"
	FoundBedBroke          FindingCode = "bed_broke" // what measures did, whatever the path
	FoundUnknownKind       FindingCode = "unknown_kind"
	FoundNoBytes           FindingCode = "no_bytes" // confirmed by the receiver
	FoundNoPackets         FindingCode = "no_packets"
	FoundNoAnswers         FindingCode = "no_answers"
	FoundFlowsMissing      FindingCode = "flows_missing"
	FoundShortFlow         FindingCode = "short_flow"  // carried too little for a rate
	FoundShortFlows        FindingCode = "short_flows" // likewise, all together
	FoundNoSeries          FindingCode = "no_series"
	FoundCutShort          FindingCode = "cut_short"
	FoundAboveLimit        FindingCode = "above_limit" // more than the rate that was declared
	FoundMoreThanSent      FindingCode = "more_than_sent"
	FoundAllLost           FindingCode = "all_lost"
	FoundDrops             FindingCode = "drops" // by the hosts themselves
	FoundDropsOfSearch     FindingCode = "drops_of_search"
	FoundDropsOfAll        FindingCode = "drops_of_all"
	FoundFewPackets        FindingCode = "few_packets"
	FoundAboveLossBound    FindingCode = "above_loss_bound"
	FoundFewAnswers        FindingCode = "few_answers"
	FoundUnanswered        FindingCode = "unanswered" // so many requests that there is no median
	FoundImpossibleTimes   FindingCode = "impossible_times"
	FoundFailedConnections FindingCode = "failed_connections"
	FoundShortTransfer     FindingCode = "short_transfer"
	FoundClockStepped      FindingCode = "clock_stepped"
	FoundOtherRun          FindingCode = "other_run"     // of hopbench, on the same machine
	FoundOtherClient       FindingCode = "other_client"  // of the same server
	FoundPairsMissing      FindingCode = "pairs_missing" // holes: nothing came from them, by no fault of the path
	FoundPairsFailed       FindingCode = "pairs_failed"  // by the path
	FoundPairsWithoutBytes FindingCode = "pairs_without_bytes"
	FoundPairsCutShort     FindingCode = "pairs_cut_short"
	FoundPairsWithoutRTT   FindingCode = "pairs_without_rtt"
	FoundOtherInstrument   FindingCode = "other_instrument"
	FoundBusyCPUs          FindingCode = "busy_cpus"
	FoundBusyCPU           FindingCode = "busy_cpu" // a single one
	FoundStolenCPU         FindingCode = "stolen_cpu"
	FoundStandstill        FindingCode = "standstill" // of an end whose CPUs had room

	// Of the path that a trial took.
	FoundPathFailed       FindingCode = "path_failed"   // before it could be seen
	FoundNotSwitched      FindingCode = "not_switched"  // to the path
	FoundNotConfirmed     FindingCode = "not_confirmed" // after the trial, that the path was in force
	FoundTraceFailed      FindingCode = "trace_failed"
	FoundSilentHops       FindingCode = "silent_hops" // that answer otherwise; nothing speaks for another path
	FoundOtherHops        FindingCode = "other_hops"
	FoundOtherTTL         FindingCode = "other_ttl"
	FoundOtherReturnedTTL FindingCode = "other_returned_ttl"
	FoundOtherTunnelMTU   FindingCode = "other_tunnel_mtu"
	FoundOtherHopCount    FindingCode = "other_hop_count"
	FoundOtherMTU         FindingCode = "other_mtu"
	FoundTTLChanged       FindingCode = "ttl_changed" // since the first trial
	FoundMTUChanged       FindingCode = "mtu_changed" // likewise
)

// GateCodes lists the codes of what a trial brought back.
func GateCodes() []FindingCode {
	return []FindingCode{FoundText, FoundTestFailed, FoundHopDied, FoundHopDiedBefore, FoundBedBroke, FoundUnknownKind, FoundNoBytes, FoundNoPackets, FoundNoAnswers, FoundFlowsMissing, FoundShortFlow, FoundShortFlows,
		FoundNoSeries, FoundCutShort, FoundAboveLimit, FoundMoreThanSent, FoundAllLost, FoundDrops, FoundDropsOfSearch, FoundDropsOfAll, FoundFewPackets, FoundAboveLossBound, FoundFewAnswers,
		FoundUnanswered, FoundImpossibleTimes, FoundFailedConnections, FoundShortTransfer, FoundClockStepped, FoundOtherRun, FoundOtherClient, FoundPairsMissing, FoundPairsFailed, FoundPairsWithoutBytes, FoundPairsCutShort, FoundPairsWithoutRTT,
		FoundOtherInstrument, FoundBusyCPUs, FoundBusyCPU, FoundStolenCPU, FoundStandstill}
}

// PathCodes lists the codes of the path that a trial took.
func PathCodes() []FindingCode {
	return []FindingCode{FoundPathFailed, FoundNotSwitched, FoundNotConfirmed, FoundTraceFailed, FoundSilentHops, FoundOtherHops, FoundOtherTTL, FoundOtherReturnedTTL, FoundOtherTunnelMTU,
		FoundOtherHopCount, FoundOtherMTU,
		FoundTTLChanged, FoundMTUChanged}
}

// Finding is what a gate found: a code and its parameters. A parameter that is
// left out is zero.
type Finding struct {
	// Name is that of the gate; none in Fingerprint.Why.
	Name string      `json:"name,omitempty"`
	Code FindingCode `json:"code"`
	// Fatal findings exclude the trial from every statistic; the others are
	// shown with it.
	Fatal bool `json:"fatal,omitempty"`
	// PathFailure says of a fatal finding that the path is its reason, not the
	// instrument.
	PathFailure bool   `json:"path_failure,omitempty"`
	Text        string `json:"text,omitempty"` // of FoundText, or an error's
	// Failure is why a test gave no outcome: refused, unreachable, vanished, timeout,
	// protocol, unauthorized, limit, unsupported, local, cancelled, or failed where
	// it is not known.
	Failure string `json:"failure,omitempty"`
	// What it speaks of.
	Kind  Kind   `json:"kind,omitempty"`
	End   string `json:"end,omitempty"`   // source, destination or, if both are one, host
	Part  string `json:"part,omitempty"`  // of a load test: idle or loaded
	Pair  string `json:"pair,omitempty"`  // of endpoints
	Outer bool   `json:"outer,omitempty"` // the path below a tunnel
	Back  bool   `json:"back,omitempty"`  // the way back
	Flow  int    `json:"flow,omitempty"`  // counted from 1
	// Address is that of another client.
	Address string `json:"address,omitempty"`
	// Count is how many, Of how many there are, Needed how many would do.
	Count       int      `json:"count,omitempty"`
	Of          int      `json:"of,omitempty"`
	Needed      int      `json:"needed,omitempty"`
	Bytes       int64    `json:"bytes,omitempty"`
	NeededBytes int64    `json:"needed_bytes,omitempty"`
	SentBytes   int64    `json:"sent_bytes,omitempty"`
	Pairs       []string `json:"pairs,omitempty"` // with the error of each that has one
	// Measured is how long a rate was measured or a transfer took.
	Measured Seconds `json:"measured_seconds,omitempty"`
	Planned  Seconds `json:"planned_seconds,omitempty"`
	// Step is by how much the real-time clock was set forward meanwhile.
	Step Seconds `json:"step_seconds,omitempty"`
	Min  Seconds `json:"min_seconds,omitempty"` // round trips
	Max  Seconds `json:"max_seconds,omitempty"`
	// Limit is whose rate limits what can be received, for LimitPairs at once.
	Received   float64 `json:"received_bits_per_second,omitempty"`
	AtMost     float64 `json:"at_most_bits_per_second,omitempty"`
	Limit      Limit   `json:"limit,omitempty"`
	LimitPairs int     `json:"limit_pairs,omitempty"`
	LossBound  float64 `json:"loss_bound,omitempty"`
	// Drops are the places where the ends lost Dropped packets, of about Lost in
	// all.
	Drops   []EndDrop `json:"drops,omitempty"`
	Dropped float64   `json:"dropped_packets,omitempty"`
	Lost    float64   `json:"lost_packets,omitempty"`
	CPUBusy float64   `json:"cpu_busy,omitempty"` // share of all CPUs
	// CPUStolen is the share of all CPU time in which a hypervisor ran something else.
	CPUStolen float64 `json:"cpu_stolen,omitempty"`
	// Standstill is the share of the measured time in which an end did not run.
	Standstill float64 `json:"standstill,omitempty"`
	// Setting is what differs between two trials, Was and Is its values.
	Setting string `json:"setting,omitempty"`
	Was     string `json:"was,omitempty"`
	Is      string `json:"is,omitempty"`
	// What was seen of the path, and what the plan or the first trial expects. A
	// silent hop is *, several addresses of which one answers are joined by |.
	Hops         []string `json:"hops,omitempty"`
	ExpectedHops []string `json:"expected_hops,omitempty"`
	TTL          int      `json:"ttl,omitempty"`
	ExpectedTTL  int      `json:"expected_ttl,omitempty"`
	MTU          int64    `json:"mtu_bytes,omitempty"`
	ExpectedMTU  int64    `json:"expected_mtu_bytes,omitempty"`
}

// Limit is what a rate cannot exceed.
type Limit string

// The limits.
const (
	LimitSource      Limit = "source_egress"
	LimitDestination Limit = "destination_egress"
	LimitHop         Limit = "hop"
	LimitReverseHop  Limit = "reverse_hop"
)

// EndDrop is a number of packets that an end lost in one place.
type EndDrop struct {
	End     string  `json:"end"` // source, destination or both: one counter of both
	Place   string  `json:"place"`
	Packets float64 `json:"packets"`
}

// UnmarshalJSON reads a finding; format 1 wrote it as a sentence, a check with
// its reason.
func (f *Finding) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*f = Finding{Code: FoundText}
		return json.Unmarshal(data, &f.Text)
	}
	type plain Finding
	old := struct {
		*plain
		Reason string `json:"reason"`
	}{plain: (*plain)(f)}
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	if f.Code == "" {
		f.Code, f.Text = FoundText, old.Reason
	}
	return nil
}
