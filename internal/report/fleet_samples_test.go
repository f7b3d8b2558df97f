package report_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
	"github.com/hopbench/hopbench/internal/words"
)

// sent is what agents sent for every trial.
type sent struct {
	agents []string
	blocks []samples.Block
	err    error
}

func (s sent) Agents(context.Context, string) ([]string, error) { return s.agents, s.err }

func (s sent) Samples(context.Context, string) iter.Seq2[samples.Block, error] {
	return func(yield func(samples.Block, error) bool) {
		for _, b := range s.blocks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// send adds the samples of a seat, one block for each list.
func (s *sent) send(t *testing.T, seat int, step time.Duration, lists ...[]samples.Sample) {
	t.Helper()
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	box := samples.NewOutbox(coder, 1<<20)
	testutil.OK(t, box.Acknowledge(0, 1<<20))
	for _, list := range lists {
		testutil.OK(t, box.Add("t", seat, 1, step, list))
	}
	for {
		b, ok := box.Next()
		if !ok {
			return
		}
		s.blocks = append(s.blocks, b)
	}
}

// fleetRun has one trial of so many seconds.
func fleetRun(seconds measurement.Seconds) *result.Result {
	return &result.Result{
		Testbed: result.Testbed{Kind: result.TestbedFleet}, Paths: []result.PathInfo{{Name: "direct", Baseline: true}},
		Tests:  []result.TestInfo{{Name: "flows", Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}},
		Trials: []measurement.Trial{{ID: "t", Block: 1, Path: "direct", Test: "flows", Gate: measurement.Gate{Passed: true}, Elapsed: seconds}},
	}
}

func at(seconds float64, flow int, bytes int64) samples.Sample {
	return samples.Sample{At: time.Duration(seconds * 1e9), Flow: flow, Bytes: bytes}
}

// What flows count is added up step by step; a time of which nothing is known is a hole, and
// so are steps of which only a part is.
func TestSamplesAreFolded(t *testing.T) {
	from := sent{agents: []string{"c1", "c2", "c3", "c4"}}
	from.send(t, 1, time.Second, []samples.Sample{at(0, 1, 100), at(0, 2, 10)}, []samples.Sample{at(1, 1, 200), at(1, 2, 20)})
	// Half a second late: spread over the steps, the torn first and last ones left out.
	from.send(t, 2, time.Second, []samples.Sample{at(0.6, 1, 100)}, []samples.Sample{at(1.6, 1, 300)}, []samples.Sample{at(2.6, 1, 100)})
	// A hole from 1 s to 5 s, and a coarse block; what is later than the trial is left out.
	from.send(t, 3, time.Second, []samples.Sample{at(0, 1, 7)}, []samples.Sample{at(5, 1, 8)})
	from.send(t, 3, 10*time.Second, []samples.Sample{at(6, 1, 1000)}, []samples.Sample{at(1e6, 1, 1000)})
	from.send(t, 9, time.Second, []samples.Sample{at(0, 1, 100)}) // of nobody
	r := fleetRun(61)
	report.AddSampled(t.Context(), r, from)
	got := r.Sampled["t"]
	if got == nil || got.Step != 1 || len(got.Clients) != 4 {
		t.Fatalf("%+v", got)
	}
	want := [][]result.SampledPart{
		{{First: 0, Bytes: []int64{110, 220}}},
		{{First: 1, Bytes: []int64{180, 220}}}, // 0.6 of 100 and 0.4 of 300; 0.6 of 300 and 0.4 of 100
		{{First: 0, Bytes: []int64{7}}, {First: 5, Bytes: append([]int64{8}, slices.Repeat([]int64{100}, 10)...)}},
		nil,
	}
	for i, c := range got.Clients {
		if c.Name != from.agents[i] || fmt.Sprint(c.Parts) != fmt.Sprint(want[i]) {
			t.Errorf("%s: %v, want %v", c.Name, c.Parts, want[i])
		}
	}
	// A short trial has the steps of its agents.
	short := sent{agents: []string{"c1"}}
	short.send(t, 1, 100*time.Millisecond, []samples.Sample{at(0, 1, 1), at(0.1, 1, 2), at(0.2, 1, 3)})
	r = fleetRun(2)
	report.AddSampled(t.Context(), r, short)
	if got := r.Sampled["t"]; fmt.Sprint(got.Clients[0].Parts) != "[{0 [1 2 3]}]" || got.Step != 0.1 {
		t.Errorf("%+v", got)
	}
	// What is no fleet has none.
	r.Sampled, r.Testbed.Kind = nil, result.TestbedLab
	report.AddSampled(t.Context(), r, short)
	if r.Sampled != nil {
		t.Errorf("a lab has %v", r.Sampled)
	}
}

// A pair of a later wave counts from its own start. It is shown when that was in the trial, or
// was planned, where it brought nothing back.
func TestSamplesOfLaterWaves(t *testing.T) {
	seconds := func(n int) (out []samples.Sample) {
		for i := range n {
			out = append(out, at(float64(i), 1, 100))
		}
		return out
	}
	from := sent{agents: []string{"c1", "c2", "c3"}}
	from.send(t, 1, time.Second, seconds(120))
	from.send(t, 2, time.Second, seconds(60))
	from.send(t, 3, time.Second, seconds(10))
	r := fleetRun(120)
	r.Trials[0].Pairs = []measurement.Pair{{Source: "c1"}, {Source: "c2", Delay: 60, PlannedDelay: 60}, {Source: "c3", PlannedDelay: 60, Error: "gone"}}
	report.AddSampled(t.Context(), r, from)
	for i, want := range []struct{ first, steps int }{{0, 120}, {60, 60}, {60, 10}} {
		c := r.Sampled["t"].Clients[i]
		if len(c.Parts) != 1 || c.Parts[0].First != want.first || len(c.Parts[0].Bytes) != want.steps {
			t.Errorf("%s: %v, want %d steps from %d on", c.Name, c.Parts, want.steps, want.first)
		}
	}
}

// Samples that cannot be read are named on the page, which has the receivers' count instead.
func TestSamplesThatCannotBeRead(t *testing.T) {
	damaged := sent{agents: []string{"c1"}}
	damaged.send(t, 1, time.Second, []samples.Sample{at(0, 1, 1)})
	damaged.blocks[0].Bytes++
	for want, from := range map[string]sent{"the disk &lt;fell&gt;": {err: errors.New("the disk <fell>")}, "damaged": damaged} {
		r := reporttest.Pairs(t, 1, 3)
		r.Testbed.Kind = result.TestbedFleet
		report.AddSampled(t.Context(), r, from)
		_, section, _ := strings.Cut(string(htmlText(t, r)), `<section id="clients">`)
		section, _, _ = strings.Cut(section, "</section>")
		if !strings.Contains(section, "the receivers’ count, as its samples cannot be read: ") || !strings.Contains(section, want) || !strings.Contains(section, "<figcaption>vm1-3<") {
			t.Errorf("%q is not said:\n%.500s", want, section)
		}
	}
}

// A damaged block of one machine is left out and named; all else is shown.
func TestOneDamagedBlock(t *testing.T) {
	from := sent{agents: []string{"c1", "c2"}}
	for seat := 1; seat <= 2; seat++ {
		from.send(t, seat, time.Second, []samples.Sample{at(0, 1, 100)}, []samples.Sample{at(1, 1, 200)})
	}
	damaged := &from.blocks[len(from.blocks)-1]
	data := slices.Clone(damaged.Data)
	data[len(data)-1] ^= 1
	bad, err := samples.Read(data) // its header is in order, and so it was kept
	testutil.OK(t, err)
	*damaged = bad
	r := fleetRun(2)
	report.AddSampled(t.Context(), r, from)
	want := "[{c1 [{0 [100 200]}] 0} {c2 [{0 [100]}] 1}]"
	if got := fmt.Sprint(r.Sampled["t"].Clients); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if page := string(htmlText(t, r)); !strings.Contains(page, "3 samples of 2 clients. Damaged and left out: 1 block of samples of c2.") {
		t.Error("what is damaged is not said")
	}
}

// sampledRun is a run of so many clients, each of so many seconds.
func sampledRun(clients, seconds int) *result.Result {
	r := fleetRun(measurement.Seconds(seconds))
	r.Paths = append(r.Paths, result.PathInfo{Name: "firewall"})
	r.Trials = append(r.Trials, r.Trials[0])
	r.Trials[1].ID, r.Trials[1].Path = "u", "firewall"
	r.Sampled = map[string]*result.Sampled{}
	for k, t := range []string{"t", "u"} {
		s := &result.Sampled{Step: 1, Samples: int64(64 * clients * seconds)}
		for i := range clients {
			bytes := make([]int64, seconds)
			for j := range bytes {
				bytes[j] = int64(1e8 * (1 + 0.3*math.Sin(float64(j*(i+1))) - 0.4*float64(k)))
			}
			c := result.SampledClient{Name: fmt.Sprintf("client-%d", i+1), Parts: []result.SampledPart{{Bytes: bytes}}}
			if i == 2 { // one that was away for a while
				c.Parts = []result.SampledPart{{Bytes: bytes[:seconds/3]}, {First: seconds / 2, Bytes: bytes[seconds/2:]}}
			}
			if i == 3 && k == 1 {
				c.Parts = nil
			}
			s.Clients = append(s.Clients, c)
		}
		r.Sampled[t] = s
	}
	return r
}

var pathData = regexp.MustCompile(` d="([^"]*)"`)

// However long a test was, and of however many clients, the page stays small, and each of
// its lines short.
func TestSampledPageIsSmall(t *testing.T) {
	const most, mostPoints = 3 << 20, 1000
	for _, c := range []struct{ clients, seconds, tiles int }{{1, 30, 1}, {30, 1740, 30}, {300, 4000, 60}} {
		page := htmlText(t, sampledRun(c.clients, c.seconds))
		if err := checkPage(page); err != nil {
			t.Error(err)
		}
		if len(page) > most {
			t.Errorf("%d clients over %d s: a page of %d bytes", c.clients, c.seconds, len(page))
		}
		longest := 0
		for _, d := range pathData.FindAllSubmatch(page, -1) {
			longest = max(longest, strings.Count(string(d[1]), ","))
		}
		if longest > mostPoints || longest < 20 {
			t.Errorf("%d clients over %d s: a line of %d points", c.clients, c.seconds, longest)
		}
		if n := strings.Count(string(page), "<figcaption>client-"); n != c.tiles {
			t.Errorf("%d clients have %d pictures", c.clients, n)
		}
		for _, want := range []string{`<section id="clients">`, "All clients together", "Trial t: ", `<span class="t1">firewall</span>`} {
			if !strings.Contains(string(page), want) {
				t.Errorf("%d clients: the page lacks %q", c.clients, want)
			}
		}
		if c.clients > 3 && !strings.Contains(string(page), "nothing came from client-4.") {
			t.Error("who sent nothing is not named")
		}
	}
}

// The clients of a lab are shown, too, by what their receivers counted.
func TestClientsOfALab(t *testing.T) {
	page := string(htmlText(t, reporttest.Pairs(t, 6, 3)))
	_, section, _ := strings.Cut(page, `<section id="clients">`)
	section, _, _ = strings.Cut(section, "</section>")
	for _, want := range []string{"<figcaption>vm1-1<", "<figcaption>vm1-3<", "the receivers’ count"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	if strings.Contains(section, "All clients together") {
		t.Error("there are no samples of all together")
	}
	if strings.Contains(string(htmlText(t, reporttest.Run(t, 1))), `id="clients"`) {
		t.Error("a single pair of hosts has a picture of its clients")
	}
}

func TestBrowserClients(t *testing.T) {
	browsertest.Program(t)
	for width, m := range measurePage(t, htmlText(t, sampledRun(30, 1740)), []int{360, 390, 1100}) {
		if m.Scroll > m.Width || len(m.Wide) > 0 || width != m.Width {
			t.Errorf("the page is %d wide in a window of %d; beyond its edge are %q", m.Scroll, m.Width, m.Wide)
		}
	}
}

// Where samples of some clients are missing in between, as those that a machine gave up, the sum
// of all clients is less than they carried: the page says for how long.
func TestSumWithHolesSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		lacking []int // seconds of the second client, of 10
		want    string
	}{
		"none":            {nil, ""},
		"three":           {[]int{2, 3, 7}, "For 3.00 s samples of some clients are missing, and all clients together are drawn with less than they carried."},
		"those of an end": {[]int{0, 8, 9}, ""},
	} {
		from := sent{agents: []string{"c1", "c2"}}
		for i := range 10 {
			from.send(t, 1, time.Second, []samples.Sample{at(float64(i), 1, 100)})
			if !slices.Contains(c.lacking, i) {
				from.send(t, 2, time.Second, []samples.Sample{at(float64(i), 1, 100)})
			}
		}
		r := fleetRun(10)
		report.AddSampled(t.Context(), r, from)
		caption := strings.ReplaceAll(figure.ClientFigures(report.New(r))[0].Caption, words.NBSP, " ")
		if c.want == "" && strings.Contains(caption, "missing") || !strings.Contains(caption, c.want) {
			t.Errorf("%s: %q", name, caption)
		}
	}
}
