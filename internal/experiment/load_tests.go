package experiment

import (
	"fmt"
	"reflect"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/strict"
)

// quickDuration is the most that a test of a quick run measures, where the file
// does not say.
const quickDuration = 500 * time.Millisecond

func (l *loader) test(f *FileTest) Test {
	spec := measurement.Spec{Kind: measurement.Kind(f.Kind)}
	t := Test{Name: string(f.Name), Title: string(f.Title)}
	if f.Kind == "" {
		return t // reported where it was read
	}
	takes := takenBy(spec.Kind, reflect.TypeFor[FileTest]())
	l.apply(&f.Options, &spec, f.Name, takes)
	sound := l.consistent(f, &f.Options, spec)
	t.Spec = spec.Defaults()
	t.Full = l.length(f, &f.Full, "full", spec, takes, sound)
	t.Quick = l.length(f, &f.Quick, "quick", spec, takes, sound)
	if f.Quick == nil && t.Spec.Duration > 0 {
		t.Quick.Duration = min(t.Spec.Duration, measurement.SecondsOf(quickDuration))
		t.Quick.Ramp = min(t.Spec.Ramp, measurement.SecondsOf(quickDuration))
		t.Quick.WaveEvery = min(t.Spec.WaveEvery, measurement.SecondsOf(quickDuration))
	}
	return t
}

// length is the spec of a test at another length, which stands under the key. What
// is wrong with the test at any length was reported unless it is sound.
func (l *loader) length(f *FileTest, other **FileLength, key string, spec measurement.Spec, takes []string, sound bool) measurement.Spec {
	switch {
	case *other == nil:
	case !hasLengths(spec.Kind):
		l.inapplicable(other, key, spec.Kind, f.Name, takes)
	default:
		o := &(*other).Options
		if l.apply(o, &spec, f.Name, takenBy(spec.Kind, reflect.TypeFor[FileLength]())); sound {
			l.consistent(f, o, spec)
		}
	}
	return spec.Defaults()
}

// consistent checks the values of a test against each other. What the options do
// not say themselves is blamed on the test. It says whether all is well.
func (l *loader) consistent(f *FileTest, options *Options, spec measurement.Spec) bool {
	before := l.Found()
	spec = spec.Defaults()
	at := func(name string) any {
		for _, place := range []any{strict.KeyOf{Table: options, Key: name}, strict.KeyOf{Table: &f.Options, Key: name}} {
			if l.Written(place) {
				return place
			}
		}
		return &f.Kind
	}
	for _, p := range append(kind.Check(spec), kind.Ignored(spec)...) {
		l.Wrong(at(p.Option), p.Remedy, "test %q: %s", f.Name, p.Message)
	}
	pairs := max(l.file.Pairs, 1)
	for _, o := range kind.Options() {
		if pairs == 1 && o.Several && !kind.IsZero(o.Get(spec)) {
			l.Wrong(at(o.Name), "leave it out, or give the experiment pairs", "%s of test %q is of several pairs, and there is one", o.Name, f.Name)
		}
	}
	if spec.Waves > pairs && pairs > 1 {
		l.Wrong(at("waves"), fmt.Sprintf("write at most %d", pairs), "test %q has %d waves of %d pairs, so that some start nobody", f.Name, spec.Waves, pairs)
	}
	if n := spec.MissingPairs; n >= pairs && pairs > 1 {
		l.Wrong(at("missing"), fmt.Sprintf("write at most %d", pairs-1), "test %q may miss %d of %d pairs, so that no pair needs a result", f.Name, n, pairs)
	}
	if spec.LossBound > 0 && pairs > 1 && !l.Stored { // no step of one search is at the time of another's
		l.Wrong(at("loss_bound"), "leave it out and give a rate, or leave out the pairs", "test %q searches for a rate, and each of %d pairs would do so by itself", f.Name, pairs)
	}
	k, _ := kind.Of(spec.Kind)
	for _, latency := range k.Latencies {
		if asked := latency.Asked(spec) * float64(pairs); asked < kind.FewestRoundTrips && len(l.file.Paths) > 1 && !l.Stored {
			of := "count"
			if spec.RequestsPerSecond > 0 {
				of = "requests_per_second"
			}
			l.Wrong(at(of), fmt.Sprintf("have it ask for %d at least", kind.FewestRoundTrips), "test %q asks for %s, which are too few for a median, so that none of its trials would count", f.Name, quantity.Count(int(asked), "round trip"))
			break
		}
	}
	for _, o := range kind.Options() {
		v, ok := o.Get(spec).(float64)
		if !ok || v == 0 || o.LeastScaled == 0 {
			continue
		}
		least, each := o.LeastScaled*l.scale, ""
		if o.PerFlow {
			least, each = least*float64(spec.Flows), " for each segment"
		}
		if v < least {
			l.Wrong(at(o.Name), "write at least "+o.Format(least),
				"%s of test %q is %s, less than %s%s%s, too little to measure", o.Name, f.Name, o.Format(v), o.Format(o.LeastScaled), each, l.atScale())
		}
	}
	return l.Found() == before
}

// completed checks tests with what the endpoints say of them: one that sends in both
// directions has one receive window and one congestion control to use, those of either
// endpoint, and none has what does not go with them.
func (l *loader) completed(e *Experiment) {
	if len(l.file.Endpoints) != 2 {
		return // reported where it was read
	}
	a, b := &l.file.Endpoints[0], &l.file.Endpoints[1]
	for i, t := range e.Tests {
		if kind.Check(t.Spec) == nil { // else reported where it was read, as is what an endpoint itself has wrong
			for _, p := range kind.Check(e.spec(t)) {
				if at := (strict.KeyOf{Table: &l.file.Tests[i].Options, Key: p.Option}); l.Written(at) {
					l.Wrong(at, p.Remedy, "test %q at these endpoints: %s", t.Name, p.Message)
				}
			}
		}
		if !endsTune(t.Spec.Kind) || t.Spec.Direction != measurement.Both {
			continue
		}
		const remedy = "give both endpoints the same, or have a test for each direction"
		at := strict.KeyOf{Table: &l.file.Tests[i].Options, Key: "direction"}
		if strict.Parsed(quantity.ParseBytes, a.ReceiveWindow) != strict.Parsed(quantity.ParseBytes, b.ReceiveWindow) {
			l.Wrong(at, remedy, "test %q sends both ways, and the endpoints differ in receive_window", t.Name)
		}
		if a.CongestionControl != b.CongestionControl {
			l.Wrong(at, remedy, "test %q sends both ways, and the endpoints differ in congestion_control", t.Name)
		}
	}
}
