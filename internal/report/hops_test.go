package report

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// counting is a hop that passes on the payload of a trial's bins times factor,
// in packets of 40 kB that have 66 bytes of headers each, and answers every
// other with an acknowledgement. It is read every 100 ms, first before the
// trial.
func counting(name string, instance int, b *measurement.Bins, factor float64) measurement.HopSeries {
	const perPacket, headers = 40_000, 66
	s := measurement.HopSeries{Name: name, Instance: instance}
	for at := -0.02; at < float64(b.Width)*float64(len(b.Bytes))+0.1; at += 0.1 {
		payload := bytesUntil(b, at) * factor
		packets := payload / perPacket
		connections := 3.0
		s.Samples = append(s.Samples, measurement.HopSample{
			At: measurement.Seconds(at), ForwardBytes: payload + packets*headers, ForwardPackets: packets,
			BackwardBytes: packets / 2 * headers, BackwardPackets: packets / 2,
			DroppedPackets: math.Round(at), CPU: measurement.Seconds(at+0.02) / 2, Connections: &connections,
		})
	}
	return s
}

// bytesUntil is what the bins hold up to a moment.
func bytesUntil(b *measurement.Bins, at float64) (sum float64) {
	for i, n := range b.Bytes {
		sum += n * max(0, min(1, at/float64(b.Width)-float64(i)))
	}
	return sum
}

// watchedFixture is the fixture with the counters of its appliances, one of
// which counts too much and one of which is two instances.
func watchedFixture(t testing.TB) *result.Result {
	r := fixture(t, 6)
	r.Paths[2].SameAs = "one-appliance"
	r.Paths[2].Hops[2].Off = true
	for i := range r.Trials {
		trial := &r.Trials[i]
		switch {
		case trial.Throughput == nil:
		case trial.Path == "one-appliance":
			trial.HopSeries = []measurement.HopSeries{
				counting("appliance", 1, trial.Throughput, 0.25), counting("appliance", 2, trial.Throughput, 0.755),
			}
		case trial.Path == "two-appliances":
			trial.HopSeries = []measurement.HopSeries{counting("appliance-1", 0, trial.Throughput, 1.08)}
			trial.Fingerprint.Switched, trial.Fingerprint.Settle = true, 0.2
		}
	}
	return r
}

func TestHopsAgree(t *testing.T) {
	r := watchedFixture(t)
	m := newModel(r)
	flows := m.Tests[2]
	for path, want := range map[int]float64{1: 0.005, 2: 0.08} {
		checks := checkHops(m.watchedTrials(m.Paths[path], flows), flows.Spec, "")
		if len(checks) != 1 || checks[0].back || len(checks[0].differences) != 6 {
			t.Fatalf("%s: %+v", m.Paths[path].Name, checks)
		}
		for _, d := range checks[0].differences {
			if math.Abs(d-want) > 1e-9 {
				t.Errorf("%s: the hops counted %+.12f more, want %+v", m.Paths[path].Name, d, want)
			}
		}
	}
	if n := len(m.watchedTrials(m.Paths[0], flows)); n != 0 {
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
	there, back := counting("r", 0, bins, 0.75), counting("r", 0, bins, 0.2)
	for i := range there.Samples {
		s := &there.Samples[i]
		s.BackwardBytes += back.Samples[i].ForwardBytes
		s.BackwardPackets += back.Samples[i].ForwardPackets
	}
	trial.HopSeries = []measurement.HopSeries{there}
	for direction, want := range map[measurement.Direction][]hopCheck{
		measurement.Both:    {{"r", false, []float64{0}, nil}, {"r", true, []float64{-0.2}, nil}},
		measurement.Send:    {{"r", false, []float64{-0.25}, nil}},
		measurement.Receive: {{"r", true, []float64{-0.8}, nil}},
	} {
		got := checkHops([]*measurement.Trial{trial}, measurement.Spec{Kind: measurement.TCP, Direction: direction}, "")
		if len(got) != len(want) {
			t.Fatalf("%s: %+v", direction, got)
		}
		for i := range got {
			if got[i].hop != want[i].hop || got[i].back != want[i].back || math.Abs(got[i].differences[0]-want[i].differences[0]) > 1e-9 {
				t.Errorf("%s: got %+v, want %+v", direction, got[i], want[i])
			}
		}
	}
	// What waits in a queue behind the hop has reached nobody: that is said, and
	// the hop still does not agree.
	queued := *trial
	queued.Flows = []measurement.Flow{{Info: []measurement.TCPInfo{{At: 0, InFlight: 1e6}, {At: 1, InFlight: 21e6}}}}
	queued.HopSeries = []measurement.HopSeries{counting("r", 0, bins, 1.2)}
	got := checkHops([]*measurement.Trial{&queued}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Send}, "")
	if len(got) != 1 || math.Abs(got[0].differences[0]-0.2) > 1e-9 || math.Abs(got[0].queued[0]-0.2) > 0.02 {
		t.Errorf("with what waits: %+v", got)
	}
	said := agreement(got)
	if len(said) != 1 || !strings.Contains(said[0], "does not agree") || !strings.Contains(said[0], "waits in a queue") {
		t.Errorf("with what waits, it says %q", said)
	}
	// Too little of the window is covered for a comparison.
	short := *trial
	short.HopSeries = []measurement.HopSeries{{Name: "r", Samples: there.Samples[:5]}}
	if got := checkHops([]*measurement.Trial{&short}, measurement.Spec{Kind: measurement.TCP, Direction: measurement.Send}, ""); got != nil {
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
		apart, explained := hopCheck{differences: c.differences, queued: c.queued}.apart()
		reason := queueReason(apart, explained)
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
		if got := headersOf(trial, measurement.Spec{Kind: c.kind}, c.tunnel); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

func TestHopsGolden(t *testing.T) {
	r := watchedFixture(t)
	page := string(htmlText(t, r))
	start := strings.Index(page, `<section id="hops">`)
	end := start + strings.Index(page[start:], "</section>")
	text := page[start:end]
	for {
		from, to := strings.Index(text, "<svg"), strings.Index(text, "</svg>")
		if from < 0 {
			break
		}
		text = text[:from] + "(picture)" + text[to+len("</svg>"):]
	}
	golden(t, "section-hops.html", []byte(text))
	var b bytes.Buffer
	if err := Markdown(&b, r); err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(b.String(), "\n## What the hops counted\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Error("the Markdown report says nothing of the hops")
	}
	golden(t, "hops.md", []byte(section))
}

// The report says which hops are switched off, on whose nodes a path lies, and
// how long it settled.
func TestSwitchedPathsAreShown(t *testing.T) {
	all := renderAll(t, watchedFixture(t))
	for _, want := range []string{
		`<li class="node off"><span class="kind">router</span><b>appliance-2</b><span>switched off</span>`,
		"<small>on the nodes and addresses of one appliance</small>",
		"<small>without appliance-2</small>",
		"switched in place, 200\u00a0ms to settle",
	} {
		if !strings.Contains(all["html"], want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if want := "**two appliances**<br>without appliance-2 |"; !strings.Contains(all["markdown"], want) {
		t.Errorf("the Markdown report does not say %q", want)
	}
	plain := renderAll(t, fixture(t, 6))
	for name, text := range plain {
		for _, never := range []string{"switched", "without app", "hops counted"} {
			if strings.Contains(text, never) {
				t.Errorf("%s speaks of %q where there is nothing of the kind", name, never)
			}
		}
	}
}

func TestFigureOfHops(t *testing.T) {
	m := newModel(watchedFixture(t))
	figures := m.hopFigures()
	if len(figures) != 4 { // 2 tests on 2 paths
		t.Fatalf("%d figures", len(figures))
	}
	trial := m.watchedTrials(m.Paths[2], m.Tests[2])[0]
	lines, more := hopLines(trial, 66)
	if len(lines) != 2 || more != 0 || len(lines[0].points) < 10 {
		t.Fatalf("%d lines of %d points, %d more", len(lines), len(lines[0].points), more)
	}
	for i, p := range lines[0].points {
		if q := lines[1].points[i]; q.x != p.x || math.Abs(q.y-1.08*p.y) > 1e-6*p.y {
			t.Errorf("at %v s the hop has %v, the receivers %v", p.x, q, p)
		}
	}
	for range 7 {
		trial.HopSeries = append(trial.HopSeries, trial.HopSeries[0])
		trial.HopSeries[len(trial.HopSeries)-1].Name += strings.Repeat("x", len(trial.HopSeries))
	}
	if lines, more := hopLines(trial, 66); len(lines) != 1+maxHopLines || more != 3 {
		t.Errorf("8 hops: %d lines, %d more", len(lines), more)
	}
}

// Series that no testbed makes are shown without harm.
func TestHostileSeries(t *testing.T) {
	for name, samples := range map[string][]measurement.HopSample{
		"none":      nil,
		"one":       {{At: 0.5}},
		"no time":   {{At: 0.5}, {At: 0.5}},
		"unordered": {{At: 0.5}, {At: 0.1}, {At: 0.9}},
		"backwards": {{At: 0, ForwardBytes: 1e9}, {At: 0.5, ForwardBytes: 5}, {At: 1.2, ForwardBytes: -1e300}},
		"huge":      {{At: -1e300}, {At: 1e300, ForwardBytes: math.MaxFloat64, BackwardBytes: math.MaxFloat64}},
		"not a number": {{At: 0}, {At: 0.3, ForwardBytes: math.NaN()}, {At: measurement.Seconds(math.Inf(1))},
			{At: 0.6, Connections: new(float64)}, {At: 1.3}},
	} {
		r := fixture(t, 2)
		for i := range r.Trials {
			if r.Trials[i].Throughput != nil {
				for range 100 {
					r.Trials[i].HopSeries = append(r.Trials[i].HopSeries, measurement.HopSeries{Name: "<b>|" + name, Samples: samples})
				}
				r.Trials[i].HopSeries = append(r.Trials[i].HopSeries, measurement.HopSeries{Samples: samples})
			}
		}
		all := renderAll(t, r)
		if strings.Contains(all["html"], "<b>|") {
			t.Errorf("%s: a name is markup", name)
		}
	}
}
