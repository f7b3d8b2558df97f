package export

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// smallFleet is a run with one trial of a fleet whose machines have sent these blocks.
func smallFleet(machines []string, pairs []measurement.Pair, blocks ...samples.Block) Run {
	return Run{
		Result: &result.Result{
			Testbed: result.Testbed{Kind: result.TestbedFleet}, Paths: []result.PathInfo{{Name: "p"}},
			Tests:  []result.TestInfo{{Name: "bulk", Spec: measurement.Spec{Kind: measurement.TCP}}},
			Trials: []measurement.Trial{{ID: "t", Path: "p", Test: "bulk", Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Pairs: pairs}}},
		},
		Agents: func(string) ([]string, error) { return machines, nil },
		Blocks: func(string) iter.Seq2[samples.Block, error] {
			return func(yield func(samples.Block, error) bool) {
				for _, b := range blocks {
					if !yield(b, nil) {
						return
					}
				}
			}
		},
	}
}

// sent are the blocks that wait in an outbox.
func sent(outbox *samples.Outbox) (all []samples.Block) {
	for b, ok := outbox.Next(); ok; b, ok = outbox.Next() {
		all = append(all, b)
	}
	return all
}

// shown are when the steps of a client were, how long they took and what they carried.
func shown(s *sheet) (out [][3]float64) {
	for _, step := range s.steps {
		out = append(out, [3]float64{step.At, step.Step, step.throughput()})
	}
	return out
}

// Samples that an agent merged, as it could not send them, begin where the finer ones before
// them end, which is at no multiple of their steps: they stay there, and no moment has the
// bytes of two.
func TestCoarseStepsStayInTheirPlace(t *testing.T) {
	const rate = 1000 // bytes a second of each of two flows
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	outbox := samples.NewOutbox(coder, 1<<30)
	block := func(step time.Duration, ats ...time.Duration) samples.Block {
		var all []samples.Sample
		for flow := 1; flow <= 2; flow++ {
			for _, at := range ats {
				all = append(all, samples.Sample{At: at, Flow: flow, Bytes: int64(rate * step.Seconds())})
			}
		}
		testutil.OK(t, errors.Join(outbox.Add("t", 1, 1, step, all), outbox.Acknowledge(0, 1<<30)))
		b, _ := outbox.Next()
		return b
	}
	r := smallFleet([]string{"c1", "c2"}, []measurement.Pair{{Source: "c1", Destination: "s1"}, {Source: "c2", Destination: "s2"}},
		block(time.Second, 0, 1000200*time.Microsecond, 1999900*time.Microsecond), // clocks are never even
		block(10*time.Second, 3*time.Second, 13*time.Second))
	all, err := r.sheets()
	testutil.OK(t, err)
	got := shown(all[0])
	if want := [][3]float64{{0, 1, 16000}, {1.0002, 1, 16000}, {1.9999, 1, 16000}, {3, 10, 16000}, {13, 10, 16000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the client has %v, want %v", got, want)
	}
	lines, err := r.lines(all)
	testutil.OK(t, err)
	for i, v := range lines[0].throughput {
		if at := 10 * float64(i); at+10 <= 23 && (v < 15990 || v > 16010) {
			t.Errorf("from %v s on all clients together have %v bit/s", at, v)
		}
	}
}

// The last second of a client is as long as the test is: what went on evenly does not fall at
// its end.
func TestLastSecondIsAsLongAsItIs(t *testing.T) {
	const rate = 1000 // bytes a second of the flow
	for name, c := range map[string]struct {
		step  time.Duration
		steps int
	}{"few flows": {100 * time.Millisecond, 22}, "many flows": {time.Second, 2}} {
		coder, err := samples.NewCoder()
		testutil.OK(t, err)
		outbox := samples.NewOutbox(coder, 1<<30)
		testutil.OK(t, outbox.Acknowledge(0, 1<<30))
		for i := range c.steps {
			at := time.Duration(i) * c.step
			testutil.OK(t, outbox.Add("t", 1, 1, c.step, []samples.Sample{{At: at, Flow: 1, Bytes: int64(rate * c.step.Seconds())}}))
		}
		last := time.Duration(c.steps) * c.step
		testutil.OK(t, outbox.Add("t", 1, 1, 2250*time.Millisecond-last, []samples.Sample{{At: last, Flow: 1, Bytes: int64(rate*2250/1000 - rate*last.Seconds())}}))
		all, err := smallFleet([]string{"c1"}, nil, sent(outbox)...).sheets()
		testutil.OK(t, err)
		got := shown(all[0])
		if want := [][3]float64{{0, 1, 8000}, {1, 1, 8000}, {2, 0.25, 8000}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the client has %v, want %v", name, got, want)
		}
	}
}

// A time is what an agent says it is: one that says that all it counted took a nanosecond, or
// a few microseconds of a long trial, must not have a spreadsheet take all memory, and for many
// trials neither.
func TestSpreadsheetOfTinyStepsIsBounded(t *testing.T) {
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	for name, c := range map[string]struct {
		at, step time.Duration
		trials   int
		fits     bool
	}{
		"a nanosecond":                {time.Minute, 1, 1, false},
		"a second of a million":       {1_000_000 * time.Second, 1, 1, false},
		"hours, in many trials":       {900_000 * time.Second, time.Second, 3, false},
		"the last of a trial":         {time.Minute, 100 * time.Microsecond, 1, true},
		"whole seconds, in one trial": {900_000 * time.Second, time.Second, 1, true},
	} {
		r := smallFleet([]string{"c1"}, nil)
		r.Blocks = func(trial string) iter.Seq2[samples.Block, error] {
			return func(yield func(samples.Block, error) bool) {
				outbox := samples.NewOutbox(coder, 1<<30)
				testutil.OK(t, errors.Join(outbox.Add(trial, 1, 1, c.step, []samples.Sample{{At: c.at, Flow: 1, Bytes: 1000}}), outbox.Acknowledge(0, 1<<30)))
				b, _ := outbox.Next()
				yield(b, nil)
			}
		}
		r.Result.Trials = nil
		for i := range c.trials {
			r.Result.Trials = append(r.Result.Trials, measurement.Trial{ID: fmt.Sprint("t", i), Path: "p", Test: "bulk", Gate: measurement.Gate{Passed: true}})
		}
		all, err := r.sheets()
		testutil.OK(t, err)
		if _, err := r.lines(all); (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Seconds of a client begin anywhere in the time of its pair, which may have started later, and
// between two readings: what went on evenly has the same throughput in each, the first and the
// last too, which are as long as they were.
func TestSecondsOfAPairThatStartsLater(t *testing.T) {
	const rate = 10_000 // bytes a second of each of two flows
	for name, c := range map[string]struct {
		delay       float64
		first, last [2]float64 // at and step
	}{
		"half a second":        {2.5, [2]float64{2.5, 0.5}, [2]float64{5, 0.2}},
		"just before a second": {2.3997, [2]float64{2.3997, 0.6003}, [2]float64{5, 0.0997}},
		"between two readings": {0.97, [2]float64{0.97, 0.03}, [2]float64{3, 0.67}},
		"with the first":       {0, [2]float64{0, 1}, [2]float64{2, 0.7}},
	} {
		coder, err := samples.NewCoder()
		testutil.OK(t, err)
		outbox := samples.NewOutbox(coder, 1<<30)
		testutil.OK(t, outbox.Acknowledge(0, 1<<30))
		for i := range 27 {
			at := time.Duration(i)*100*time.Millisecond + time.Duration(i%2)*600*time.Microsecond // readings are never quite even
			var all []samples.Sample
			for flow := 1; flow <= 2; flow++ {
				all = append(all, samples.Sample{At: at, Flow: flow, Bytes: rate / 10, Retransmits: 1})
			}
			testutil.OK(t, outbox.Add("t", 2, 1, 100*time.Millisecond, all))
		}
		pairs := []measurement.Pair{{Source: "c1", Destination: "s1"}, {Source: "c2", Destination: "s2", Delay: measurement.Seconds(c.delay)}}
		all, err := smallFleet([]string{"c1", "c2"}, pairs, sent(outbox)...).sheets()
		testutil.OK(t, err)
		steps := all[0].steps
		bytes, retransmits := 0.0, int64(0)
		for _, s := range steps {
			bytes, retransmits = bytes+*s.Received, retransmits+*s.Retransmits
			if v := s.throughput(); math.Abs(v-2*8*rate) > 0.025*2*8*rate {
				t.Errorf("%s: %v bit/s in %v s from %v s on", name, v, s.Step, s.At)
			}
		}
		if math.Abs(bytes-2*27*rate/10) > 1e-6 || retransmits != 2*27 {
			t.Errorf("%s: %v bytes and %d retransmits in all", name, bytes, retransmits)
		}
		for _, s := range []struct {
			step
			want [2]float64
		}{{steps[0], c.first}, {steps[len(steps)-1], c.last}} {
			if math.Abs(s.At-s.want[0]) > 1e-3 || math.Abs(s.Step-s.want[1]) > 1e-3 {
				t.Errorf("%s: %v s from %v s on, want %v", name, s.Step, s.At, s.want)
			}
		}
	}
}
