package meter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// scripted is a source whose answers a test makes.
type scripted struct {
	read     func(ctx context.Context) (Reading, error)
	interval time.Duration
}

func (s scripted) Read(ctx context.Context) (Reading, error) { return s.read(ctx) }
func (s scripted) Interval() time.Duration                   { return s.interval }
func (scripted) Close() error                                { return nil }

// counts is a source that counted 1000 bytes a second, at moments that are a grain
// apart.
func counts(timing Timing, grain time.Duration) scripted {
	began := time.Now().Add(-time.Hour)
	return scripted{interval: time.Second, read: func(context.Context) (Reading, error) {
		since := time.Since(began)
		if grain > 0 {
			since = since.Truncate(grain)
		}
		r := Reading{Taken: time.Now(), Timing: timing, Totals: measurement.HopSample{ForwardBytes: 1000 * since.Seconds()}}
		if timing == Dated {
			r.Taken = began.Add(since)
		}
		return r, nil
	}}
}

// watchFor has hops watched in a trial.
func watchFor(t *testing.T, trial time.Duration, meters map[string]Meter) (o measurement.Outcome, ended time.Duration) {
	t.Helper()
	h := &Hops{meters: meters, paths: map[string][]string{}}
	for name := range meters {
		h.paths["p"] = append(h.paths["p"], name)
	}
	slices.Sort(h.paths["p"])
	w := h.Watch(t.Context(), "p", measurement.Spec{Kind: measurement.TCP, Duration: measurement.SecondsOf(trial), Flows: 1, Direction: measurement.Send})
	o.Started = time.Now()
	time.Sleep(trial)
	for _, h := range w.Now() {
		if len(h.Samples) != 1 || h.Samples[0].ForwardBytes < 0 {
			t.Errorf("while it goes on, hop %s has counted %+v", h.Name, h.Samples)
		}
	}
	end := time.Now()
	w.End(&o)
	return o, time.Since(end)
}

func TestWatchKeepsWhatIsNew(t *testing.T) {
	for _, c := range []struct {
		name    string
		timing  Timing
		grain   time.Duration
		trial   time.Duration
		samples int
		said    measurement.Seconds
	}{
		{name: "when asked", timing: Asked, trial: 10 * time.Second, samples: 11},
		{name: "dated", timing: Dated, grain: 15 * time.Second, trial: 70 * time.Second, samples: 5, said: 15},
		{name: "seen", timing: Seen, grain: 15 * time.Second, trial: 70 * time.Second, samples: 5, said: 15},
		{name: "seen twice", timing: Seen, grain: 15 * time.Second, trial: 16 * time.Second, samples: 2, said: 15},
	} {
		synctest.Test(t, func(t *testing.T) {
			o, _ := watchFor(t, c.trial+time.Millisecond, map[string]Meter{"fw": counts(c.timing, c.grain)})
			if len(o.HopSeries) != 1 || len(o.Facts) != 0 {
				t.Fatalf("%s: %+v, facts %q", c.name, o.HopSeries, o.Facts)
			}
			s := o.HopSeries[0]
			if s.Name != "fw" || s.Grain != c.said || len(s.Samples) < c.samples {
				t.Errorf("%s: %+v", c.name, s)
			}
			if first := s.Samples[0]; first.ForwardBytes != 0 || first.At > 0 {
				t.Errorf("%s: begins with %+v", c.name, first)
			}
			for i, sample := range s.Samples {
				rate := sample.ForwardBytes - 1000*float64(sample.At-s.Samples[0].At)
				if late := 1000 * float64(c.grain) / float64(time.Second); rate > 1 || rate < -1-late {
					t.Errorf("%s: sample %d is %v bytes off", c.name, i, rate)
				}
			}
		})
	}
}

// The date of what a source counted is known as well as the network lets it: what is told
// again with another one is nothing new.
func TestWatchOfDatesThatJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := counts(Dated, 15*time.Second)
		exact, n := source.read, 0
		source.read = func(ctx context.Context) (Reading, error) {
			r, err := exact(ctx)
			n++
			r.Taken = r.Taken.Add(time.Duration(n*7%11) * 100 * time.Microsecond)
			return r, err
		}
		o, _ := watchFor(t, 70*time.Second, map[string]Meter{"fw": source})
		if len(o.HopSeries) != 1 {
			t.Fatalf("%+v, facts %q", o.HopSeries, o.Facts)
		}
		s := o.HopSeries[0]
		if s.Grain < 14.9 || s.Grain > 15.1 {
			t.Errorf("the grain is %v s, want 15", s.Grain)
		}
		for i, sample := range s.Samples[1:] {
			if sample.ForwardBytes == s.Samples[i].ForwardBytes {
				t.Errorf("sample %d says again that there were %v bytes", i+1, sample.ForwardBytes)
			}
		}
	})
}

// A source that says nothing, or says it late, costs the figures of its hop and nothing
// else.
func TestWatchOfPoorSources(t *testing.T) {
	hangs := func(ctx context.Context) (Reading, error) {
		<-ctx.Done()
		return Reading{}, ctx.Err()
	}
	gone := errors.New("connection refused")
	for _, c := range []struct {
		name   string
		read   func(n int, ctx context.Context) (Reading, error)
		series bool
		fact   string
	}{
		{name: "hangs", read: func(_ int, ctx context.Context) (Reading, error) { return hangs(ctx) }, fact: "missing: no answer within 500ms"},
		{name: "hangs later", read: func(n int, ctx context.Context) (Reading, error) {
			if n > 3 {
				return hangs(ctx)
			}
			return Reading{Taken: time.Now(), Totals: measurement.HopSample{ForwardBytes: float64(n)}}, nil
		}, series: true, fact: "have gaps: 1 of 4 readings failed"},
		{name: "fails", read: func(int, context.Context) (Reading, error) { return Reading{}, gone }, fact: "missing: connection refused"},
		{name: "fails now and then", read: func(n int, _ context.Context) (Reading, error) {
			if n == 2 {
				return Reading{}, gone
			}
			return Reading{Taken: time.Now(), Totals: measurement.HopSample{ForwardBytes: float64(n)}}, nil
		}, series: true, fact: "1 of 9 readings failed, the first because of this: connection refused"},
		{name: "starts anew", read: func(n int, _ context.Context) (Reading, error) {
			return Reading{Taken: time.Now(), Totals: measurement.HopSample{ForwardBytes: float64(n % 3)}}, nil
		}, fact: "began anew"},
		{name: "is wrong in itself", read: func(int, context.Context) (Reading, error) { panic("index out of range") }, fact: "missing: internal error"},
		{name: "stands still", read: func(int, context.Context) (Reading, error) {
			return Reading{Taken: time.Now(), Timing: Seen, Totals: measurement.HopSample{ForwardBytes: 7}}, nil
		}, fact: "nothing new to say"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			bad := scripted{interval: time.Second, read: func(ctx context.Context) (Reading, error) {
				n++
				return c.read(n, ctx)
			}}
			o, took := watchFor(t, 7500*time.Millisecond, map[string]Meter{"bad": bad, "fw": counts(Asked, 0)})
			if took > lastTime {
				t.Errorf("%s: the trial took %v longer", c.name, took)
			}
			at := slices.IndexFunc(o.HopSeries, func(s measurement.HopSeries) bool { return s.Name == "fw" })
			if at < 0 || len(o.HopSeries[at].Samples) < 8 {
				t.Errorf("%s: the other hop has %+v", c.name, o.HopSeries)
			}
			if (len(o.HopSeries) == 2) != c.series {
				t.Errorf("%s: %+v", c.name, o.HopSeries)
			}
			if len(o.Facts) != 1 || !strings.HasPrefix(o.Facts[0], "the figures of hop bad ") || !strings.Contains(o.Facts[0], c.fact) {
				t.Errorf("%s: facts %q, want %q", c.name, o.Facts, c.fact)
			}
		})
	}
}

// A test that never began has no axis to put figures on.
func TestWatchOfNoTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hops{meters: map[string]Meter{"fw": counts(Asked, 0)}, paths: map[string][]string{"p": {"fw"}}}
		var o measurement.Outcome
		w := h.Watch(t.Context(), "p", measurement.Spec{Kind: measurement.TCP, Duration: 1, Flows: 1})
		time.Sleep(time.Second)
		w.End(&o)
		if len(o.HopSeries) > 0 || len(o.Facts) > 0 {
			t.Errorf("%+v", o)
		}
		h.Watch(t.Context(), "another", measurement.Spec{}).End(&o)
	})
}
