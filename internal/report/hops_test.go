package report

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

func TestHopsAgree(t *testing.T) {
	r := reporttest.Watched(t)
	m := New(r)
	flows := m.Tests[2]
	for path, want := range map[int]float64{1: 0.005, 2: 0.08} {
		checks := checkHops(m.WatchedTrials(m.Paths[path], flows), flows.Spec, "", nil)
		if len(checks) != 1 || checks[0].Reverse || len(checks[0].Differences) != 6 {
			t.Fatalf("%s: %+v", m.Paths[path].Name, checks)
		}
		for _, d := range checks[0].Differences {
			if math.Abs(d-want) > 1e-9 {
				t.Errorf("%s: the hops counted %+.12f more, want %+v", m.Paths[path].Name, d, want)
			}
		}
	}
	if n := len(m.WatchedTrials(m.Paths[0], flows)); n != 0 {
		t.Errorf("%d trials without hops are watched", n)
	}
}

// Both directions are held apart, by the flows' shares; acknowledgements are
// no payload.
func TestHopsAgreeBothWays(t *testing.T) {
	bins := &measurement.Bins{Width: 0.01, Bytes: slices.Repeat([]float64{1e6}, 100)}
	trial := &measurement.Trial{Outcome: measurement.Outcome{
		Throughput: bins, Warmup: 0.1,
		Flows: []measurement.Flow{
			{ReceivedBytes: 75, Final: &measurement.TCPInfo{MSS: 1448, PathMTU: 1500}}, {ReceivedBytes: 25, Reverse: true},
		},
	}}
	there, back := reporttest.Counting("r", 0, bins, 0.75), reporttest.Counting("r", 0, bins, 0.2)
	for i := range there.Samples {
		s := &there.Samples[i]
		s.BackwardBytes += back.Samples[i].ForwardBytes
		s.BackwardPackets += back.Samples[i].ForwardPackets
	}
	trial.HopSeries = []measurement.HopSeries{there}
	for direction, want := range map[measurement.Direction][]words.HopCheck{
		measurement.Both:    {{Hop: "r", Differences: []float64{0}}, {Hop: "r", Reverse: true, Differences: []float64{-0.2}}},
		measurement.Send:    {{Hop: "r", Differences: []float64{-0.25}}},
		measurement.Receive: {{Hop: "r", Reverse: true, Differences: []float64{-0.8}}},
	} {
		got := checkHops([]*measurement.Trial{trial}, measurement.Spec{Kind: measurement.TCP, Direction: direction}, "", nil)
		if len(got) != len(want) {
			t.Fatalf("%s: %+v", direction, got)
		}
		for i := range got {
			if got[i].Hop != want[i].Hop || got[i].Reverse != want[i].Reverse || math.Abs(got[i].Differences[0]-want[i].Differences[0]) > 1e-9 {
				t.Errorf("%s: got %+v, want %+v", direction, got[i], want[i])
			}
		}
	}
	// What is sent back does not cross a hop of one way.
	one := Path{Info: &result.PathInfo{Hops: []result.HopInfo{{Name: "l"}, {Name: "r", Parameters: map[string]string{"one_way": "true"}}}}}.oneWay()
	got := checkHops([]*measurement.Trial{trial}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Both}, "", one)
	if len(got) != 1 || got[0].Reverse {
		t.Errorf("%+v", got)
	}
	// What waits in a queue behind the hop has reached nobody: that is said, and
	// the hop still does not agree.
	queued := *trial
	queued.Flows = []measurement.Flow{{Info: []measurement.TCPInfo{{At: 0, InFlight: 1e6}, {At: 1, InFlight: 21e6}}}}
	queued.HopSeries = []measurement.HopSeries{reporttest.Counting("r", 0, bins, 1.2)}
	got = checkHops([]*measurement.Trial{&queued}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Send}, "", nil)
	if len(got) != 1 || math.Abs(got[0].Differences[0]-0.2) > 1e-9 || got[0].Apart != 1 || got[0].Queued != 1 {
		t.Errorf("with what waits: %+v", got)
	}
	said := words.HopAgreement(got, hopsAgree)
	if len(said) != 1 || !strings.Contains(said[0], "does not agree") || !strings.Contains(said[0], "waits in a queue") {
		t.Errorf("with what waits, it says %q", said)
	}
	// Too little of the window is covered for a comparison.
	short := *trial
	short.HopSeries = []measurement.HopSeries{{Name: "r", Samples: there.Samples[:5]}}
	if got := checkHops([]*measurement.Trial{&short}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Send}, "", nil); got != nil {
		t.Errorf("0.38 s of 0.9 s are compared: %+v", got)
	}
}

// A queue is a reason for what it accounts for, no more, and in its direction.
func TestQueueIsAReason(t *testing.T) {
	for _, c := range []struct {
		differences, queued []float64
		apart, explained    int
	}{
		{[]float64{0.02, -0.03}, []float64{0, 0.5}, 0, 0},
		{[]float64{0.05, -0.05}, []float64{0.05, -0.06}, 2, 2},
		{[]float64{0.05, 0.05, 0.2}, []float64{-0.05, 0.001, 0.1}, 3, 0},
		{[]float64{0.05, 0.05}, []float64{0.2, 0.03}, 2, 1},
	} {
		apart, explained := 0, 0
		for i := range c.differences {
			far, queue := compareHop(c.differences[i], c.queued[i], hopsAgree)
			if far {
				apart++
			}
			if queue {
				explained++
			}
		}
		reason := words.HopAgreement([]words.HopCheck{{Hop: "r", Differences: c.differences, Apart: apart, Queued: explained}}, hopsAgree)[0]
		if apart != c.apart || explained != c.explained || (explained > 0) != strings.Contains(reason, "waits in a queue") ||
			(explained > 0 && explained < apart) != strings.Contains(reason, "in 1 of them") {
			t.Errorf("%v with %v: %d, %d %q; want %d, %d", c.differences, c.queued, apart, explained, reason, c.apart, c.explained)
		}
	}
}

func TestHeaders(t *testing.T) {
	flow := func(mtu, mss int64) []measurement.Flow {
		return []measurement.Flow{{}, {Final: &measurement.TCPInfo{PathMTU: mtu, MSS: mss}}}
	}
	for _, c := range []struct {
		kind   measurement.Kind
		flows  []measurement.Flow
		tunnel string
		want   int
	}{
		{measurement.TCP, nil, "", 66},
		{measurement.FTP, nil, "", 66},
		{measurement.TCP, flow(1500, 1448), "", 66},
		{measurement.TCP, flow(1500, 1460), "", 54},
		{measurement.Load, flow(9000, 100), "", 66}, // the user's MSS says nothing of headers
		{measurement.UDP, nil, "", 42},
		{measurement.PPS, nil, "vxlan id 1, UDP port 4789, MTU 1450", 92},
	} {
		trial := &measurement.Trial{Outcome: measurement.Outcome{Flows: c.flows}}
		if got := FramingOf(trial, measurement.Spec{Kind: c.kind}, c.tunnel).Headers; got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// A source that counts bytes and no packets is taken to have carried full ones.
func TestFramingOfBytesAlone(t *testing.T) {
	f := Framing{Headers: 66, Payload: 1448}
	for _, c := range []struct{ bytes, packets, want float64 }{{1514e3, 1000, 1448e3}, {1514e3, 0, 1448e3}, {0, 0, 0}, {66, 2, 0}} {
		if got := f.payload(c.bytes, c.packets); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	trial := &measurement.Trial{Outcome: measurement.Outcome{Flows: []measurement.Flow{{Final: &measurement.TCPInfo{PathMTU: 1500, MSS: 1448}}}}}
	if got := FramingOf(trial, measurement.Spec{Kind: measurement.TCP}, ""); got != f {
		t.Errorf("%+v", got)
	}
	if got := (Framing{Headers: 42}).payload(1000, 0); got != 1000 {
		t.Errorf("of packets of unknown size: %v", got)
	}
}

// A hop whose source counts rarely is held to as much as that leaves open, and not at all
// in a trial that is too short for it.
func TestHopsOfRareSources(t *testing.T) {
	bins := &measurement.Bins{Width: 0.1, Bytes: slices.Repeat([]float64{1e6}, 600)} // a minute
	spec := measurement.Spec{Kind: measurement.TCP, Direction: measurement.Send}
	for _, c := range []struct {
		grain, counted float64
		check          words.HopCheck // without Differences
		says           string
	}{
		{0, 1, words.HopCheck{Hop: "fw"}, "agrees with what the receivers confirmed, within 3"},
		{0, 1.2, words.HopCheck{Hop: "fw", Apart: 1}, "does not agree"},
		{15, 1.2, words.HopCheck{Hop: "fw", Grain: 15, Within: hopsAgree + 15./45}, "counts every 15"},
		{15, 1.5, words.HopCheck{Hop: "fw", Grain: 15, Within: hopsAgree + 15./45, Apart: 1}, "does not agree"},
		{25, 1.5, words.HopCheck{Hop: "fw", Grain: 25, TooShort: 1}, "is not compared with what the receivers confirmed in 1 trial: its source counts every 25"},
	} {
		s := reporttest.Counting("fw", 0, bins, c.counted)
		s.Grain = measurement.Seconds(c.grain)
		if c.grain > 0 { // what is read at 0 s, 15 s, 30 s and 45 s
			all := s.Samples
			s.Samples = nil
			for _, sample := range all {
				if n := len(s.Samples); n < 4 && float64(sample.At) >= 15*float64(n) {
					s.Samples = append(s.Samples, sample)
				}
			}
		}
		trial := &measurement.Trial{Outcome: measurement.Outcome{
			Throughput: bins, Flows: []measurement.Flow{{Final: &measurement.TCPInfo{MSS: 1448, PathMTU: 1500}}}, HopSeries: []measurement.HopSeries{s},
		}}
		checks := checkHops([]*measurement.Trial{trial}, spec, "", nil)
		if len(checks) != 1 {
			t.Fatalf("%+v", checks)
		}
		got, said := checks[0], strings.Join(words.HopAgreement(checks, hopsAgree), " ")
		if math.Abs(got.Within-c.check.Within) < 0.01 { // which samples there are decides
			got.Within = c.check.Within
		}
		differences := got.Differences
		got.Differences = nil
		if !reflect.DeepEqual(got, c.check) || (len(differences) == 0) != (c.check.TooShort > 0) || !strings.Contains(strings.ReplaceAll(said, words.NBSP, " "), c.says) {
			t.Errorf("every %v s, %v times: %+v %v: %q", c.grain, c.counted, got, differences, said)
		}
	}
}
