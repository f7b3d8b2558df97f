// Package detect finds changes of the level of one series of measurements that goes on for
// months: round trips, rates, shares. It is statistics of numbers alone.
//
// A change is announced when Run samples in a row, or more, lie beyond a limit on the same side of
// the level: the runs rule of control charts (Western Electric, Statistical Quality Control
// Handbook, 1956), whose limit is here taken from the series itself. Of all Run samples in a
// row that lie in the reference the nearest to the level is the statistic: single outliers
// do not move it, and what correlation of neighbours and a daily cycle do to it is in its
// distribution. Beyond its largest values that distribution is continued as an exponential
// (peaks over a threshold: Pickands, Ann. Statist. 3, 1975; Weissman, J. Amer. Stat. Assoc.
// 73, 1978), up to the chance of a false alarm that was asked for. The mean excess counts
// with its upper confidence bound, over clusters and not over samples: what few days show is
// extrapolated with care, and the limits narrow as days come in.
//
// Besides that, blocks of as many samples as a reference is learned from, usually a day, have
// their medians compared with those of the blocks before, by the prediction interval of
// Student's t: what is too small to be told from the noise of single samples. A daily cycle
// is in each block alike.
package detect

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
)

// Run is how many samples in a row must lie beyond a limit at least. Where single ones lie
// beyond it so often that three in a row would come by chance more often than false alarms
// may, as where there is a sample every minute, it is more, up to mostRun.
const (
	Run     = 3
	mostRun = 12
)

// Constants of the limits; TestAYearWithoutChange says what they bring.
const (
	keep       = 2880 // samples of the reference at least: 30 days of every 15 minutes
	leastTail  = 5    // of the largest values that the tail is taken from, at least
	mostTail   = 40   // and at most
	tailShare  = 25   // one of so many, between
	confidence = 2.3  // standard errors by which the mean excess counts more
	care       = 5    // by which the tail is asked for fewer false alarms than are stated
	tolerated  = 2    // times the false alarms that single outliers may bring before a run is longer
	refitShare = 64   // limits are worked out anew after one of so many samples is new
	chance     = 0.8  // of the smallest effect to be found in Run samples
	leastDays  = 7    // blocks that one is compared with, at least: all days of a week
	mostDays   = 60   // and at most
	slowShare  = 0.1  // of the false alarms that blocks may bring
)

// Scale is that on which values are judged.
type Scale int

// The scales.
const (
	// Ratio is logarithmic: values are above 0, or have an Offset.
	Ratio Scale = iota
	// Difference is for values that may be below 0.
	Difference
)

// Options of a series.
type Options struct {
	// Scale is that on which values are judged.
	Scale Scale
	// Offset, in the unit of the values, is what Ratio adds to them, so that one may be 0:
	// below it differences are judged, above it ratios.
	Offset float64
	// Fraction of the level, or Amount in the unit of the values, is the smallest effect that
	// matters: no limit is nearer to the level.
	Fraction, Amount float64
	// FalseAlarmsPerYear is how many false alarms of this series a year of SamplesPerYear
	// may bring.
	FalseAlarmsPerYear, SamplesPerYear float64
	// Learn is how many samples make the first reference, and that after a change.
	Learn int
}

// Kind of what a sample told.
type Kind int

// The kinds.
const (
	Nothing Kind = iota
	// Learned is that the first reference, or that after a change, is there.
	Learned
	// Changed is that the level has changed.
	Changed
	// Back is that the level before the last change is in force again.
	Back
)

// Limits are what the detector holds of the level, in the unit of the values.
type Limits struct {
	Level float64
	// Low and High: Run samples in a row beyond one of them are a change.
	Low, High float64
	// SmallestDrop and SmallestRise are the smallest changes of level, as amounts above 0,
	// that are found within Run samples in four of five cases, as the noise is. A drop that
	// would have to be below 0 of a series judged by its ratio is infinite: it cannot be.
	SmallestDrop, SmallestRise float64
	// SlowDrop and SlowRise are those that the medians of blocks show in four of five cases,
	// at the end of the first whole block after the change; 0 while there are too few blocks.
	SlowDrop, SlowRise float64
	// Block is how many samples a block has.
	Block int
	// Run is how many samples in a row beyond a limit are a change.
	Run int
	// Samples are those of the reference.
	Samples int
}

// Finding is what a sample told.
type Finding struct {
	Kind Kind
	// Before is the level that was in force, and Now the median of the Run samples that
	// tell of the change, of Changed and Back.
	Before, Now float64
}

// Detector of one series. It is not for several goroutines at a time.
type Detector struct {
	o     Options
	chart chart
	// last are the newest values, at most mostRun.
	last []float64
	// after are the values since a change, until they make a new reference; nil otherwise.
	// sorted are the same by size: sorting them for each sample takes minutes of a watch that
	// has a round every few seconds.
	after, sorted []float64
	// days are the medians of blocks, of which the one under way has so many samples.
	days  []float64
	today int
	// student is the last quantile that slow needed: it changes once a block.
	student struct {
		p        float64
		df       int
		quantile float64
	}
}

// New is a detector that has seen nothing.
func New(o Options) *Detector { return &Detector{o: o} }

// Rare says that the series has fewer samples than was thought: so many make a reference, and
// so many come in a year.
func (d *Detector) Rare(learn int, samplesPerYear float64) {
	d.o.Learn, d.o.SamplesPerYear = learn, samplesPerYear
}

// Learning says that there is no reference yet, or none since a change; missing is how many
// samples it lacks.
func (d *Detector) Learning() (missing int, learning bool) {
	switch {
	case d.after != nil:
		return d.o.Learn - len(d.after), true
	case len(d.chart.values) < d.o.Learn:
		return d.o.Learn - len(d.chart.values), true
	}
	return 0, false
}

// Limits are those in force; false while the first reference is learned. After a change they
// are around the level since, as far as it is known.
func (d *Detector) Limits() (Limits, bool) {
	if !d.chart.fitted {
		return Limits{}, false
	}
	c := d.chart
	if d.after != nil {
		c.level, c.values = statistics.MedianOfSorted(d.sorted), d.after
	}
	return d.inUnits(c), true
}

// Add takes the next sample, of which least is the smallest difference
// that it can show: a packet of those that were sent, 0 if that is not known.
func (d *Detector) Add(value, least float64) Finding {
	x := d.o.judged(value)
	if !(math.Abs(x) < 1e100) { // nothing that anybody measured
		return Finding{}
	}
	if d.last = append(d.last, x); len(d.last) > mostRun {
		d.last = d.last[1:]
	}
	if !d.chart.fitted {
		d.chart.values = append(d.chart.values, x)
		if len(d.chart.values) < d.o.Learn {
			return Finding{}
		}
		d.chart.fit(d.o, least)
		return Finding{Kind: Learned}
	}
	if d.after != nil {
		return d.afterChange(x, least)
	}
	if d.chart.beyond(d.last, 1) {
		return d.change(d.chart.level)
	}
	d.chart.add(x, d.o.Learn)
	d.chart.refit(d.o, least)
	if d.today++; d.today < d.o.Learn {
		return Finding{}
	}
	return d.endDay(least)
}

// endDay compares the block that ends with those before it.
func (d *Detector) endDay(least float64) Finding {
	d.today = 0
	block := d.chart.values[max(len(d.chart.values)-d.o.Learn, 0):]
	day := statistics.Median(block)
	if level, limits, ok := d.slow(); ok && (day > level+limits.up || day < level-limits.down) {
		d.chart, d.days = chart{values: slices.Clone(block)}, []float64{day}
		d.chart.fit(d.o, least)
		return Finding{Kind: Changed, Before: d.o.unit(level), Now: d.o.unit(day)}
	}
	if d.days = append(d.days, day); len(d.days) > mostDays {
		d.days = slices.Clone(d.days[1:])
	}
	return Finding{}
}

// sides are distances from a level, upwards and downwards.
type sides struct{ up, down float64 }

// slow is the level that the next block is compared with, and how far from it its median is
// a change; false while there are too few.
func (d *Detector) slow() (level float64, limits sides, ok bool) {
	level, spread, ok := d.dailyNoise()
	if !ok {
		return 0, sides{}, false
	}
	p := d.o.FalseAlarmsPerYear * slowShare / (d.o.SamplesPerYear / float64(d.o.Learn)) / 2
	if s := &d.student; s.p != 1-p || s.df != len(d.days)-1 {
		s.p, s.df = 1-p, len(d.days)-1
		s.quantile = statistics.StudentQuantile(s.p, s.df)
	}
	limit := spread * d.student.quantile
	floor := d.o.floor(level, 0)
	return level, sides{max(limit, floor.up), max(limit, floor.down)}, true
}

// dailyNoise is the mean of the medians of blocks, and by how much the next one differs from
// it, as a standard deviation.
func (d *Detector) dailyNoise() (mean, spread float64, ok bool) {
	n := float64(len(d.days))
	if n < leastDays {
		return 0, 0, false
	}
	for _, v := range d.days {
		mean += v / n
	}
	for _, v := range d.days {
		spread += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, math.Sqrt(spread * (1 + 1/n)), true
}

// change begins the time after a change.
func (d *Detector) change(before float64) Finding {
	// The samples before the last of the run are no part of the old level.
	run := d.chart.run
	if n := len(d.chart.values); d.after == nil && n >= run-1 {
		d.chart.values = d.chart.values[:n-(run-1)]
	}
	d.after = slices.Clone(d.last[len(d.last)-run:])
	d.sorted, d.today = slices.Sorted(slices.Values(d.after)), 0
	return Finding{Kind: Changed, Before: d.o.unit(before), Now: d.o.unit(statistics.MedianOfSorted(d.sorted))}
}

// afterChange takes a sample while the level since a change is being learned.
func (d *Detector) afterChange(x, least float64) Finding {
	level := statistics.MedianOfSorted(d.sorted)
	moved := d.chart
	moved.level = level
	d.after = append(d.after, x)
	at, _ := slices.BinarySearch(d.sorted, x)
	d.sorted = slices.Insert(d.sorted, at, x)
	switch {
	case len(d.after) >= 2*d.chart.run && d.chart.near(d.last):
		d.after, d.sorted = nil, nil
		return Finding{Kind: Back, Before: d.o.unit(level), Now: d.o.unit(statistics.Median(d.last[len(d.last)-d.chart.run:]))}
	case len(d.after) >= 2*d.chart.run && moved.beyond(d.last, 1.5):
		return d.change(level)
	case len(d.after) < d.o.Learn:
		return Finding{}
	}
	d.chart = chart{values: d.after}
	d.after, d.sorted, d.days = nil, nil, nil
	d.chart.fit(d.o, least)
	return Finding{Kind: Learned}
}

// judged is a value on the scale that is judged, and unit the way back.
func (o Options) judged(value float64) float64 {
	if o.Scale == Difference {
		return value
	}
	return math.Log(value + o.Offset)
}

func (o Options) unit(x float64) float64 {
	if o.Scale == Difference {
		return x
	}
	v := math.Exp(x) - o.Offset
	if math.Abs(v) < o.Offset*1e-9 {
		return 0 // but for rounding
	}
	return v
}

func (d *Detector) inUnits(c chart) Limits {
	at := func(x float64) float64 { return finite(d.o.unit(x)) }
	l := Limits{Level: at(c.level), Low: at(c.level - c.down.limit), High: at(c.level + c.up.limit), Run: c.run, Samples: len(c.values), Block: d.o.Learn}
	if d.o.Scale == Ratio {
		l.Low = max(l.Low, 0)
	}
	l.SmallestDrop, l.SmallestRise = finite(l.Level-at(c.level-c.down.smallest)), finite(at(c.level+c.up.smallest)-l.Level)
	if level, limits, ok := d.slow(); ok && d.after == nil {
		// The block after the change differs from its level, too.
		_, spread, _ := d.dailyNoise()
		more := spread * statistics.NormalQuantile(chance)
		l.SlowDrop, l.SlowRise = finite(at(level)-at(level-limits.down-more)), finite(at(level+limits.up+more)-at(level))
	}
	return l
}

// finite is a number that JSON can hold.
func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// chart is a level with its limits, on the scale that is judged.
type chart struct {
	values   []float64 // of the reference, in the order of time
	level    float64
	up, down side
	run      int // samples in a row beyond a limit that are a change
	fitted   bool
	fresh    int // values since the last fit
}

// side is how far from the level a limit and the smallest effect are.
type side struct{ limit, smallest float64 }

// add takes a value into the reference, which keeps as many as it was learned from at least:
// a day with its cycle.
func (c *chart) add(x float64, learn int) {
	c.fresh++
	most := max(keep, learn)
	if c.values = append(c.values, x); len(c.values) > most+most/refitShare {
		c.values = slices.Clone(c.values[len(c.values)-most:])
	}
}

// refit works the limits out anew once enough is new.
func (c *chart) refit(o Options, least float64) {
	if c.fresh >= max(1, len(c.values)/refitShare) {
		c.fit(o, least)
	}
}

// fit works level and limits out.
func (c *chart) fit(o Options, least float64) {
	c.fresh, c.fitted = 0, true
	c.level = statistics.Median(c.values)
	floor := o.floor(c.level, least)
	c.run = Run
	for c.fitRun(o, floor); c.run < mostRun && c.byChance(o); c.fitRun(o, floor) {
		c.run++
	}
}

// fitRun works the limits out for runs of so many samples.
func (c *chart) fitRun(o Options, floor sides) {
	n := max(len(c.values)-c.run+1, 0)
	up, down := make([]float64, n), make([]float64, n)
	for i := range n {
		run := c.values[i : i+c.run]
		up[i], down[i] = slices.Min(run)-c.level, c.level-slices.Max(run)
	}
	// Half of the false alarms may be on either side.
	p := o.FalseAlarmsPerYear / o.SamplesPerYear / 2 / care
	c.up, c.down = sideOf(up, p), sideOf(down, p)
	c.up.atLeast(floor.up)
	c.down.atLeast(floor.down)
}

// byChance says that single samples lie beyond a limit so often that as many in a row as are a
// change come by chance, of samples that do not depend on each other, more often than false
// alarms may: what the largest runs of the reference do not show, where there were none.
func (c *chart) byChance(o Options) bool {
	var up, down float64
	for _, v := range c.values {
		switch {
		case v > c.level+c.up.limit:
			up++
		case v < c.level-c.down.limit:
			down++
		}
	}
	share := math.Max(up, down) / float64(len(c.values))
	return math.Pow(share, float64(c.run))*o.SamplesPerYear > tolerated*o.FalseAlarmsPerYear
}

// floor is how near a limit may be to a level, all on the scale that is judged: what matters,
// or least where that is more.
func (o Options) floor(level, least float64) sides {
	value := o.unit(level)
	matters := max(o.Fraction*value, o.Amount, least)
	drop := o.judged(value - matters)
	if math.IsNaN(drop) {
		drop = math.Inf(-1) // nothing could be so much lower
	}
	return sides{o.judged(value+matters) - level, level - drop}
}

// sideOf is the limit that a statistic exceeds with a probability of p, and the effect that
// carries it beyond with the chance that the smallest effect has.
func sideOf(statistic []float64, p float64) side {
	if len(statistic) == 0 {
		return side{}
	}
	values := slices.Clone(statistic)
	n := len(values)
	k := min(max(n/tailShare, leastTail), mostTail, n-1)
	base := statistics.Select(values, n-1-k)
	tail := values[n-k:]
	slices.Sort(tail) // so that its sum does not depend on their order
	var excess float64
	for _, v := range tail {
		excess += v - base
	}
	s := side{limit: max(base, 0)}
	if k > 0 {
		s.limit = max(tail[k-1], 0)
		mean := excess / float64(k) * (1 + confidence/math.Sqrt(float64(clusters(statistic, base))))
		s.limit = max(s.limit, base+mean*math.Log(float64(k)/float64(n)/p))
	}
	s.smallest = s.limit - statistics.Select(values, int((1-chance)*float64(n-1)))
	return s
}

// clusters is how many separate times a statistic was beyond a value: values less than a
// few Run apart are of one.
func clusters(statistic []float64, beyond float64) int {
	count, last := 0, math.MinInt/2
	for i, v := range statistic {
		if v <= beyond {
			continue
		}
		if i-last > 4*Run {
			count++
		}
		last = i
	}
	return max(count, 1)
}

func (s *side) atLeast(floor float64) {
	if s.limit < floor {
		s.smallest += floor - s.limit
		s.limit = floor
	}
}

// newest are as many of the newest values as make a run; false where there are fewer.
func (c *chart) newest(last []float64) (run []float64, ok bool) {
	if len(last) < c.run {
		return nil, false
	}
	return last[len(last)-c.run:], true
}

// beyond says that the newest values lie beyond a limit, taken so many times, on one side.
func (c *chart) beyond(last []float64, times float64) bool {
	run, ok := c.newest(last)
	return ok && (slices.Min(run) > c.level+times*c.up.limit || slices.Max(run) < c.level-times*c.down.limit)
}

// near says that the newest values lie within half of the limits.
func (c *chart) near(last []float64) bool {
	run, ok := c.newest(last)
	return ok && slices.Max(run) <= c.level+c.up.limit/2 && slices.Min(run) >= c.level-c.down.limit/2
}
