package watch

import (
	"cmp"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// watched are the metrics of a kind of test whose level is watched.
func watched(name measurement.Kind) []string {
	k, _ := kind.Of(name)
	return k.Watched
}

// SeriesOf counts the series of tests.
func SeriesOf(tests []result.TestInfo) (n int) {
	for _, t := range tests {
		n += len(watched(t.Spec.Kind))
	}
	return n
}

// leastPackets is how many packets of those sent a change of loss has to be: a few are lost
// now and then on every path.
const leastPackets = 5

// AddTrial takes what a trial of a path brought.
func (r *Round) AddTrial(t measurement.Trial, spec measurement.Spec) {
	if moved := payload(t.Outcome, spec); moved > 0 {
		if r.Payload == nil {
			r.Payload = map[string]int64{}
		}
		r.Payload[t.Test] += moved
	}
	if !t.Gate.Passed {
		r.Failed = append(r.Failed, Failure{Test: t.Test, Findings: t.Gate.Findings})
		return
	}
	if spec.Kind == measurement.Trace {
		r.Route = []string{}
		for _, h := range t.Hops {
			if h.Varies {
				h.Address = "" // flows are spread over several
			}
			r.Route = append(r.Route, h.Address)
		}
	}
	before := len(r.Points)
	for _, name := range watched(spec.Kind) {
		v, ok := t.Metrics[name]
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		p := Point{Series: Series{Test: t.Test, Metric: name}, Value: v}
		if packets, known := t.LossOf(spec); known && name == "loss_fraction" {
			p.Least = leastPackets / packets
		}
		r.Points = append(r.Points, p)
	}
	if len(r.Points) == before {
		r.Worked = append(r.Worked, TestOf{Test: t.Test})
	}
}

// payload is about what a test moved, both ways, its warm-up included, in bytes: what went
// at the rates that it brought back for as long as it took, and its requests with their
// answers.
func payload(o measurement.Outcome, spec measurement.Spec) int64 {
	m := o.Metrics
	seconds := float64(max(o.Warmup, 0)) + cmp.Or(float64(spec.Duration), m["transfer_seconds"])
	rate := max(m["sent_bits_per_second"], m["goodput_bits_per_second"]) + m["load_bits_per_second"]
	requests := (m["transactions_per_second"] + m["connections_per_second"]) * seconds
	if spec.Count > 0 {
		requests = float64(spec.Count)
	}
	return int64(rate/8*seconds + requests*exchangeBytes(spec))
}

// exchangeBytes is the payload of a request and its answer.
func exchangeBytes(s measurement.Spec) float64 {
	return float64(s.RequestBytes + s.ResponseBytes + 2*s.PayloadBytes)
}

// Bounded says which tests move no more than is known beforehand, and how much they do
// together in a round, both ways, in bytes.
func Bounded(tests []result.TestInfo) (names []string, bytes float64) {
	for _, t := range tests {
		s := t.Spec
		seconds := float64(s.Duration + s.MaxWarmup)
		switch k, _ := kind.Of(s.Kind); {
		case k.NoServer: // a few packets
			bytes += float64(s.Count) * exchangeBytes(s)
		case k.TimesAnswers() && s.RequestsPerSecond > 0:
			bytes += s.RequestsPerSecond * exchangeBytes(s) * seconds
		case s.RateBitsPerSecond > 0:
			bytes += s.RateBitsPerSecond / 8 * seconds
		default:
			continue
		}
		names = append(names, t.Name)
	}
	return names, bytes
}

// AddRun takes what a run of an experiment brought: its effects, what it moved, under one
// name, and which tests of a path brought nothing that counts.
func (r *Round) AddRun(name string, run *result.Result) {
	specs := map[string]measurement.Spec{}
	for _, t := range run.Tests {
		specs[t.Name] = t.Spec
	}
	var each Round
	counted := map[TestOf]bool{}
	for _, t := range run.Trials {
		each.AddTrial(t, specs[t.Test])
		counted[TestOf{t.Path, t.Test}] = counted[TestOf{t.Path, t.Test}] || t.Gate.Passed
	}
	for _, n := range each.Payload {
		r.Payload = map[string]int64{name: r.Payload[name] + n}
	}
	for _, t := range run.Trials {
		if of := (TestOf{t.Path, t.Test}); !counted[of] {
			counted[of] = true // its first failure is enough
			r.Failed = append(r.Failed, Failure{Path: t.Path, Test: t.Test, Findings: t.Gate.Findings})
		}
	}
	r.addEffects(run)
	for _, t := range run.Trials {
		of := TestOf{t.Path, t.Test}
		pointed := slices.ContainsFunc(r.Points, func(p Point) bool { return p.Path == of.Path && p.Test == of.Test })
		if t.Gate.Passed && !pointed && !slices.Contains(r.Worked, of) {
			r.Worked = append(r.Worked, of)
		}
	}
}

// addEffects takes the primary effects of a run, and the level of the path that each is
// compared with.
func (r *Round) addEffects(run *result.Result) {
	add := func(s Series, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && !slices.ContainsFunc(r.Points, func(p Point) bool { return p.Series == s }) {
			r.Points = append(r.Points, Point{Series: s, Value: v})
		}
	}
	for _, e := range run.Costs {
		if !e.Primary || e.N == e.Broken || e.Against != nil || e.Metric == measurement.BrokenTrials {
			continue
		}
		metric := measurement.MetricOf(e.Metric)
		// No rate and no time is 0 but for want of any.
		if e.ReferenceBroken < e.N && (e.ReferenceMedian != 0 || !metric.ByRatio() && metric.Unit != measurement.SecondsUnit) {
			add(Series{Path: e.Baseline, Test: e.Test, Metric: e.Metric}, e.ReferenceMedian)
		}
		if e.EstimateUnbounded || e.Counted() == 0 { // its number is 0, which nobody measured
			continue
		}
		effect := Series{Path: e.Path, Baseline: e.Baseline, Test: e.Test, Metric: e.Metric}
		if !metric.ByRatio() {
			add(effect, e.Difference)
		} else if e.Ratio > 0 {
			add(effect, e.Ratio)
		}
	}
}
