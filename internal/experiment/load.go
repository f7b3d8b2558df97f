package experiment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// defaultBlocks is how many blocks an experiment has that does not say.
const defaultBlocks = 10

// maxBlocks is the maximum of File.Blocks.
const maxBlocks = 1000

// Bounds of what a testbed can be asked for.
const (
	// minRate and minWindow hold after scaling: slower than this, a trial of
	// seconds carries too few packets to measure anything.
	minRateBitsPerSecond = kind.LeastRateBitsPerSecond
	minWindowBytes       = kind.LeastBufferBytes
	maxWindowBytes       = kind.MaxBufferBytes
	// maxDelay and maxImpairment hold for the hops of a path together.
	maxDelay      = 10 * time.Second
	maxImpairment = 0.5 // of all frames; beyond it no transport gets through
	// maxSettle bounds what is waited after switching a path, and before a trial.
	maxSettle     = 10 * time.Minute
	defaultSettle = 200 * time.Millisecond
	// maxTrials bounds blocks × paths × tests.
	maxTrials = 100_000
)

// Load reads an experiment file. File names it in messages. What the file has
// wrong comes back as strict.Errors, all at once.
func Load(file string, text []byte) (*Experiment, error) { return load(file, text, false) }

// LoadStored reads the text of an experiment that the folder of a run has kept,
// whose keys and values may have the names of an earlier version.
func LoadStored(file string, text []byte) (*Experiment, error) { return load(file, text, true) }

func load(file string, text []byte, stored bool) (*Experiment, error) {
	kind := document()
	kind.Stored = stored
	d, f := strict.New(file, text, kind), new(File)
	if !d.Decode(f) {
		return nil, d.Err()
	}
	e := (&loader{Decoder: d, file: f}).experiment()
	if err := d.Err(); err != nil {
		return nil, err
	}
	e.File, e.Text = file, string(text)
	return e, nil
}

// loader turns a decoded file into an Experiment and checks what the file's
// types cannot say. A field whose decoding failed is zero and was reported;
// checks pass over it.
type loader struct {
	*strict.Decoder
	file  *File
	scale float64
}

// atScale says how a scaled value came about, nothing for an unscaled one.
func (l *loader) atScale() string {
	if l.scale == 1 {
		return ""
	}
	return " at a scale of " + quantity.FormatScale(l.scale)
}

func (l *loader) experiment() *Experiment {
	f := l.file
	e := &Experiment{
		Name: string(f.Name), Title: string(f.Title), Description: string(f.Description),
		Source: string(f.Source), Destination: string(f.Destination), Baseline: string(f.Baseline),
		Scale: 1, Blocks: f.Blocks, Pairs: max(f.Pairs, 1), Model: string(f.Model),
	}
	if f.Scale != "" {
		e.Scale = strict.Parsed(quantity.ParseScale, f.Scale)
	}
	l.scale = e.Scale
	if !l.Written(&f.Blocks) {
		e.Blocks = defaultBlocks
	}
	for i := range f.Endpoints {
		e.Endpoints = append(e.Endpoints, l.endpoint(&f.Endpoints[i]))
	}
	e.Paths = l.paths(f.Paths)
	l.pairs(e)
	for i := range f.Tests {
		e.Tests = append(e.Tests, l.test(&f.Tests[i]))
	}
	l.flowsOfPairs(e)
	e.Rest = l.Between(&f.Rest, 0, 0, maxSettle)
	e.Matters = l.matters(f.Matters, e.Tests)
	l.combinations(e)
	l.names()
	l.completed(e)
	e.Contrasts = l.contrasts(f.Contrasts)
	if f.Published != nil {
		e.Published = l.published(f.Published, e)
	}
	l.trials(e)
	return e
}

func (l *loader) endpoint(f *FileEndpoint) Endpoint {
	return Endpoint{
		Name:                string(f.Name),
		EgressBitsPerSecond: l.rate(&f.EgressRate),
		ReceiveWindowBytes:  l.window(&f.ReceiveWindow, "receive window"),
		CongestionControl:   string(f.CongestionControl),
		SoftwareSwitch:      f.VSwitch,
		NICs:                max(f.NICs, 1),
	}
}

// rate reads a rate and checks that enough of it is left when scaled.
func (l *loader) rate(field *strict.RateText) float64 {
	rate := strict.Parsed(quantity.ParseRate, *field)
	if *field != "" && rate/l.scale < minRateBitsPerSecond {
		l.Wrong(field, "write at least "+quantity.FormatRate(minRateBitsPerSecond*l.scale)+", or leave it out for no limit",
			"rate %q is less than %s%s, too slow to measure", *field, quantity.FormatRate(minRateBitsPerSecond), l.atScale())
	}
	return rate
}

// window reads how many bytes may be in flight or wait, and checks that enough
// of them are left when scaled.
func (l *loader) window(field *strict.SizeText, what string) int64 {
	window := strict.Parsed(quantity.ParseBytes, *field)
	switch {
	case *field == "":
	case float64(window)/l.scale < minWindowBytes:
		l.Wrong(field, fmt.Sprintf("write at least %s, or leave it out for no limit", quantity.FormatBytes(int64(minWindowBytes*l.scale))),
			"%s %q is less than %s%s", what, *field, quantity.FormatBytes(minWindowBytes), l.atScale())
	case window > maxWindowBytes:
		l.Wrong(field, "write at most 1GiB, or leave it out for no limit",
			"%s %q is larger than a socket can have", what, *field)
	}
	return window
}

// size reads a size and checks its bounds, in bytes.
func (l *loader) size(field *strict.SizeText, least, most int64) int {
	n := strict.Parsed(quantity.ParseBytes, *field)
	if *field != "" && (n < least || n > most) {
		l.Wrong(field, "write a size from "+quantity.FormatBytes(least)+" to "+quantity.FormatBytes(most), "size %q is out of bounds", *field)
		return 0
	}
	return int(n)
}

// names checks that names are not given twice and that references name
// something.
func (l *loader) names() {
	f := l.file
	var endpoints []*strict.NameText
	for i := range f.Endpoints {
		endpoints = append(endpoints, &f.Endpoints[i].Name)
	}
	paths, tests := l.pathNames(), l.testNames()
	l.Unique("endpoint", endpoints)
	l.Unique("path", paths)
	l.Unique("test", tests)
	l.Refers(&f.Source, "source", "endpoint", endpoints)
	l.Refers(&f.Destination, "destination", "endpoint", endpoints)
	l.Refers(&f.Baseline, "baseline", "path", paths)
	if f.Source != "" && f.Source == f.Destination {
		l.Wrong(&f.Destination, "name the other endpoint", "destination %q is the source too", f.Destination)
	}
	l.trialNames(paths, tests)
}

func (l *loader) pathNames() (names []*strict.NameText) {
	for i := range l.file.Paths {
		names = append(names, &l.file.Paths[i].Name)
	}
	return names
}

func (l *loader) testNames() (names []*strict.NameText) {
	for i := range l.file.Tests {
		names = append(names, &l.file.Tests[i].Name)
	}
	return names
}

// trialNames checks that no two cells of a block would get the same trial id:
// path "a" with test "b-c" and path "a-b" with test "c".
func (l *loader) trialNames(paths, tests []*strict.NameText) {
	type cell struct{ path, test strict.NameText }
	first := make(map[string]cell)
	for _, path := range paths {
		for _, test := range tests {
			id := cellName(string(*path), string(*test))
			other, taken := first[id]
			if !taken {
				first[id] = cell{*path, *test}
			} else if other.path != *path && other.test != *test {
				l.Wrong(path, "rename one of the paths or tests",
					"path %q with test %q and path %q with test %q would both be named %q in results",
					other.path, other.test, *path, *test, id)
			}
		}
	}
}

// trials checks that the whole run is of a size that makes sense.
func (l *loader) trials(e *Experiment) {
	if n := e.Blocks * len(e.Paths) * len(e.Tests); n > maxTrials {
		l.Wrong(&l.file.Blocks, fmt.Sprintf("have at most %d in all", maxTrials),
			"%d blocks of %d paths and %d tests are %d trials", e.Blocks, len(e.Paths), len(e.Tests), n)
	}
}

func (l *loader) published(f *FilePublished, e *Experiment) *Published {
	p := &Published{Source: string(f.Source), Open: kind.Texts(f.Open)}
	paths, tests := l.pathNames(), l.testNames()
	for i := range f.Figures {
		figure := &f.Figures[i]
		what := fmt.Sprintf("figure %d", i+1)
		l.Refers(&figure.Path, "path of "+what, "path", paths)
		l.Refers(&figure.Test, "test of "+what, "test", tests)
		if figure.Kind == "" && l.Stored {
			figure.Kind = string(result.FigurePlanted) // nobody said; it is no prediction
		}
		p.Figures = append(p.Figures, result.Figure{
			ID: string(figure.ID), Path: string(figure.Path), Test: string(figure.Test), Metric: figure.Metric,
			Kind: result.FigureKind(figure.Kind), Value: l.figureValue(figure, e), Tolerance: l.tolerance(figure, what),
			ToleranceFactor: float64(figure.ToleranceFactor), Flows: figure.Flows,
			Duration: measurement.SecondsOf(strict.Parsed(quantity.ParseDuration, figure.Duration)), Note: string(figure.Note),
		})
	}
	return p
}

// tolerance is how far the measurement may be from a figure, nil for no limit
// or where that is a factor.
func (l *loader) tolerance(f *FileFigure, what string) *float64 {
	kind, factor, share := result.FigureKind(f.Kind), l.Written(&f.ToleranceFactor), l.Written(&f.Tolerance)
	switch {
	case share && factor:
		l.Wrong(&f.ToleranceFactor, "write one of them", "%s has both a tolerance and a tolerance_factor", what)
	case kind == result.FigureOpen && share:
		l.Wrong(&f.Tolerance, "leave it out, or say what the model makes of it: kind: predicted", "%s is open, so nothing can judge it", what)
	case kind == result.FigureOpen && factor:
		l.Wrong(&f.ToleranceFactor, "leave it out, or say what the model makes of it: kind: predicted", "%s is open, so nothing can judge it", what)
	case kind == result.FigurePredicted && !share && !factor:
		l.Wrong(&f.Kind, "add tolerance: 0.05, or write kind: open", "%s is predicted, and nothing says how closely", what)
	}
	if f.Tolerance == "" {
		return nil
	}
	fraction := strict.Parsed(quantity.ParseFraction, f.Tolerance)
	return &fraction
}

// figureValue reads a published value in the unit of its metric.
func (l *loader) figureValue(f *FileFigure, e *Experiment) float64 {
	if f.Metric == "" {
		return 0
	}
	var names []string
	for _, t := range e.Tests {
		if t.Name != string(f.Test) {
			continue
		}
		for _, m := range measurement.MetricsOf(t.Spec.Kind) {
			names = append(names, m.Name)
		}
	}
	metric, known := measurement.MetricNamed(f.Metric)
	switch {
	case !known:
		if len(names) == 0 {
			for _, m := range measurement.Catalogue() {
				names = append(names, m.Name)
			}
		}
		l.Wrong(&f.Metric, strict.Instead(f.Metric, names), "there is no metric %q", strict.Clip(f.Metric))
		return 0
	case len(names) > 0 && !slices.Contains(names, f.Metric):
		l.Wrong(&f.Metric, strict.Instead(f.Metric, names), "test %q does not measure %q", f.Test, f.Metric)
		return 0
	}
	if f.Value == "" {
		return 0
	}
	return l.value(&f.Value, metric, string(f.Value))
}

// value reads a number in the unit of its metric.
func (l *loader) value(field any, metric measurement.Metric, text string) float64 {
	v, err := quantity.ParseValue(metric.Unit, text)
	if unit, ok := errors.AsType[*quantity.UnitError](err); ok {
		l.Wrong(field, unit.Remedy, "value of %s: %s", metric.Name, unit.Problem)
	} else if err != nil {
		l.Wrong(field, "", "value of %s: %v", metric.Name, err)
	}
	return v
}
