// Package export writes a run for other programs: a spreadsheet with the tables of its
// result and a sheet per client, or what was counted over time as one long table, in
// Parquet or CSV. Rows of that are
// written as they are read, so that a table may be larger than memory.
package export

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

// Run is what is exported.
type Run struct {
	Result *result.Result
	// Blocks are the samples that agents of a fleet sent for a trial, none elsewhere.
	Blocks func(trial string) iter.Seq2[samples.Block, error]
	// Agents are the machines of a fleet that did a trial, of seats 1, 2 and so on.
	Agents func(trial string) ([]string, error)
	// OnDamaged hears of each block of samples of a machine that cannot be read, and is left
	// out. May be nil.
	OnDamaged func(trial, machine string)
}

// errNothing says that no test of a run counted anything over time.
var errNothing = errors.New("no test of this run counted anything over time; trials.csv has the metrics of each, and so has --format xlsx")

// errNoTrials says that a run has nothing at all.
var errNoTrials = errors.New("the run has no trials to export; continue it with hopbench run --resume")

// Row is a line of the table of samples: what a flow, or all flows of a pair together,
// did in one step of time. docs/data-format.md explains the columns.
type Row struct {
	Trial       string   `parquet:"trial,dict"`
	Path        string   `parquet:"path,dict"`
	Test        string   `parquet:"test,dict"`
	Passed      bool     `parquet:"passed"`
	Attempt     int32    `parquet:"attempt"`
	Pair        int32    `parquet:"pair"` // counted from 1; 0 of a flow whose pair is not known
	Source      string   `parquet:"source,dict"`
	Destination string   `parquet:"destination,dict"`
	Flow        int32    `parquet:"flow"` // counted from 1; 0 of all flows of the pair together
	At          float64  `parquet:"at_seconds"`
	Step        float64  `parquet:"step_seconds"`
	Received    *float64 `parquet:"received_bytes"` // nil where it is not known, as the following
	RTT         *float64 `parquet:"rtt_seconds"`
	Window      *int64   `parquet:"congestion_window_bytes"`
	Retransmits *int64   `parquet:"retransmitted_segments"`
}

// rows are those of all trials, in the order in which they ran.
func (r Run) rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		coder, err := samples.NewCoder()
		if err != nil {
			yield(Row{}, err)
			return
		}
		clean := report.OnlyFinite(r.Result)
		paths := map[string]result.PathInfo{}
		for _, p := range clean.Paths {
			paths[p.Name] = p
		}
		any := false
		for i := range clean.Trials {
			t := &clean.Trials[i]
			row := Row{Trial: typeset.Line(t.ID), Path: typeset.Line(t.Path), Test: typeset.Line(t.Test), Passed: t.Gate.Passed}
			series := trialSeries{Trial: t, row: row, path: paths[t.Path]}
			if clean.Testbed.Kind == result.TestbedFleet {
				if series.machines, err = r.Agents(t.ID); err != nil {
					yield(Row{}, err)
					return
				}
				if len(t.Pairs) == 0 && len(series.machines) == 1 {
					series.path.Source, series.path.Dest = series.machines[0], destination(clean, t, series.machines[0])
				}
			}
			sampled := map[int32]bool{} // pairs
			for row, err := range r.sampled(series, coder) {
				sampled[row.Pair] = true
				if !yield(row, err) || err != nil {
					return
				}
			}
			any = any || len(sampled) > 0
			for row := range series.kept(sampled) {
				any = true
				if !yield(row, nil) {
					return
				}
			}
		}
		if !any {
			yield(Row{}, errNothing)
		}
	}
}

// trialSeries is a trial, and what all of its rows have in common.
type trialSeries struct {
	*measurement.Trial
	row  Row
	path result.PathInfo
	// machines are the sources of a fleet's pairs.
	machines []string
}

// destination is the machine of a fleet to which the only pair of a trial sent, by its host.
func destination(r *result.Result, t *measurement.Trial, source string) string {
	ends := r.Testbed.Endpoints
	for _, later := range r.Resumed {
		ends = slices.Concat(ends, later.Endpoints)
	}
	for _, e := range ends {
		if e.Host == t.Destination.Host && e.Name != source {
			return e.Name
		}
	}
	return t.Destination.Host
}

// of is a row of a pair, counted from 1.
func (t trialSeries) of(pair int) Row {
	row := t.row
	row.Pair = int32(pair)
	switch {
	case pair >= 1 && pair <= len(t.Pairs):
		row.Source, row.Destination = typeset.Line(t.Pairs[pair-1].Source), typeset.Line(t.Pairs[pair-1].Destination)
	case pair == 1 && len(t.Pairs) == 0:
		row.Source, row.Destination = typeset.Line(t.path.Source), typeset.Line(t.path.Dest)
	case pair >= 1 && pair <= len(t.machines):
		row.Source = typeset.Line(t.machines[pair-1])
	default:
		row.Source = fmt.Sprintf("seat %d", pair)
	}
	return row
}

// sampled are the rows of a fleet's samples.
func (r Run) sampled(t trialSeries, coder *samples.Coder) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for block, err := range r.Blocks(t.ID) {
			if err != nil {
				yield(Row{}, fmt.Errorf("samples of trial %s: %w", t.ID, err))
				return
			}
			row := t.of(block.Seat)
			all, err := coder.Samples(block)
			if err != nil { // what one machine sent must not keep the others' from being written
				if r.OnDamaged != nil {
					r.OnDamaged(row.Trial, row.Source)
				}
				continue
			}
			row.Attempt, row.Step = int32(block.Attempt), nanoseconds(block.Step.Seconds())
			delay := float64(measurement.StartOfSeat(t.Pairs, block.Seat)) // a block counts from its pair's own start
			// What rows point at is theirs.
			received, retransmits := make([]float64, len(all)), make([]int64, len(all))
			rtts, windows := make([]float64, len(all)), make([]int64, len(all))
			for i, s := range all {
				row.Flow, row.At = int32(min(s.Flow, math.MaxInt32)), nanoseconds(delay+s.At.Seconds())
				received[i], retransmits[i], rtts[i], windows[i] = float64(s.Bytes), s.Retransmits, nanoseconds(s.RTT.Seconds()), s.CongestionWindow
				row.Received, row.Retransmits, row.RTT, row.Window = &received[i], &retransmits[i], nil, nil
				if s.RTT > 0 {
					row.RTT = &rtts[i]
				}
				if s.CongestionWindow > 0 {
					row.Window = &windows[i]
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// kept are the rows of what a trial keeps itself: the receiver's count of each pair, and
// what the sending kernel said of flows. Pairs of a fleet that have sent samples have those
// instead, and its flows are of nobody known.
func (t trialSeries) kept(sampled map[int32]bool) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		if len(t.Pairs) == 0 && t.Throughput != nil && !sampled[1] && !bins(t.of(1), 0, *t.Throughput, flowsRTT(t.Flows), yield) {
			return
		}
		for k, p := range t.Pairs {
			if p.Throughput != nil && !sampled[int32(k+1)] && !bins(t.of(k+1), float64(p.Delay), *p.Throughput, p.RTT, yield) {
				return
			}
		}
		if len(sampled) > 0 {
			return
		}
		for i, f := range t.Flows {
			if !t.flow(i+1, f, yield) {
				return
			}
		}
	}
}

// bins are the rows of a receiver's count that began at delay, in seconds. A
// round-trip time is the mean of those in the bin.
func bins(row Row, delay float64, b measurement.Bins, rtts []measurement.PairRTT, yield func(Row) bool) bool {
	width := float64(b.Width)
	if width <= 0 {
		return true
	}
	means := report.MeanRTTs(b, rtts)
	row.Step = nanoseconds(width)
	for i := range b.Bytes {
		row.At, row.Received, row.RTT = nanoseconds(delay+float64(i)*width), &b.Bytes[i], nil
		if !math.IsNaN(means[i]) {
			row.RTT = new(nanoseconds(means[i]))
		}
		if !yield(row) {
			return false
		}
	}
	return true
}

// nanoseconds rounds seconds to those: what is written down has no digits of arithmetic.
func nanoseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }

// flowsRTT are the round-trip times of all flows.
func flowsRTT(flows []measurement.Flow) (out []measurement.PairRTT) {
	for _, f := range flows {
		for _, s := range f.Info {
			if s.RTT > 0 {
				out = append(out, measurement.PairRTT{At: s.At, RTT: s.RTT})
			}
		}
	}
	return out
}

// flow are the rows of a flow's series, each from the sample before it. Of several pairs
// a flow has its addresses in the place of names, as it is not kept whose it is.
func (t trialSeries) flow(number int, f measurement.Flow, yield func(Row) bool) bool {
	row := t.of(1)
	if len(t.Pairs) > 0 {
		row.Pair, row.Source, row.Destination = 0, typeset.Line(f.Source), typeset.Line(f.Destination)
	}
	row.Flow = int32(number)
	var last measurement.TCPInfo
	for i := range f.Info {
		s := &f.Info[i]
		row.At, row.Step, row.Retransmits, row.RTT, row.Window = nanoseconds(float64(last.At)), nanoseconds(float64(s.At-last.At)), new(s.Retransmits-last.Retransmits), nil, nil
		if rtt := nanoseconds(float64(s.RTT)); rtt > 0 {
			row.RTT = &rtt
		}
		if s.CongestionWindow > 0 {
			row.Window = &s.CongestionWindow
		}
		if !yield(row) {
			return false
		}
		last = *s
	}
	return true
}
