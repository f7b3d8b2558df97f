package report_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
)

func TestHopsGolden(t *testing.T) {
	r := reporttest.Watched(t)
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
	reporttest.Golden(t, "section-hops.html", []byte(text))
	_, section, found := strings.Cut(string(written(t, markdown.Write, r)), "\n## What the hops counted\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Error("the Markdown report says nothing of the hops")
	}
	reporttest.Golden(t, "hops.md", []byte(section))
}

// The report says which hops are switched off, on whose nodes a path lies, and
// how long it settled.
func TestSwitchedPathsAreShown(t *testing.T) {
	all := renderAll(t, reporttest.Watched(t))
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
	plain := renderAll(t, reporttest.Run(t, 6))
	for name, text := range plain {
		for _, never := range []string{"switched", "without app", "hops counted"} {
			if strings.Contains(text, never) {
				t.Errorf("%s speaks of %q where there is nothing of the kind", name, never)
			}
		}
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
		r := reporttest.Run(t, 2)
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

// What a hop counted in one trial alone it counted nothing of in the others: the median is that
// of all trials, and never more of a part than of the whole.
func TestHopsCountNothingInMostTrials(t *testing.T) {
	r := reporttest.Watched(t)
	for i := range r.Trials {
		trial := &r.Trials[i]
		for k := range trial.HopSeries {
			for j := range trial.HopSeries[k].Samples {
				trial.HopSeries[k].Samples[j].DroppedPackets = 0
			}
			if last := &trial.HopSeries[k].Samples[len(trial.HopSeries[k].Samples)-1]; trial.Block == 1 {
				last.DroppedPackets, last.QueueDroppedPackets = 5000, 5000
			}
		}
	}
	for _, s := range report.New(r).Hops {
		dropped, full := slices.Index(s.Columns, "dropped"), slices.Index(s.Columns, "of them: queue full")
		for _, row := range s.Rows {
			if dropped < 0 || full < 0 || row.Values[dropped] != "0" || row.Values[full] != "0" {
				t.Errorf("%s, %s, %s: %q of %q", s.Path, s.Test, row.Name, row.Values, s.Columns)
			}
		}
	}
}

// What a hop does not count is not 0: of a source of bytes alone nothing else is known.
func TestHopsThatCountBytesAlone(t *testing.T) {
	r := reporttest.Watched(t)
	for i := range r.Trials {
		for k := range r.Trials[i].HopSeries {
			for j, s := range r.Trials[i].HopSeries[k].Samples {
				r.Trials[i].HopSeries[k].Samples[j] = measurement.HopSample{At: s.At, ForwardBytes: s.ForwardBytes}
			}
		}
	}
	for i := range r.Tests {
		r.Tests[i].Spec.Direction = measurement.Receive
	}
	sections := report.New(r).Hops
	for _, s := range sections {
		if strings.Contains(strings.Join(s.Sentences, " "), "does not agree") {
			t.Errorf("%s, %s: %q", s.Path, s.Test, s.Sentences)
		}
		if len(s.Columns) != 1 || s.Columns[0] != "to the destination" {
			t.Errorf("%s, %s: %q", s.Path, s.Test, s.Columns)
		}
	}
	if len(sections) == 0 {
		t.Error("no hops")
	}
}

// Of many tests on many paths a report has the hops of some, and says of how many it has none.
func TestHopsThatAreLeftOutAreCounted(t *testing.T) {
	r := reporttest.Watched(t) // two tests on two paths
	for n, i := range []int{0, 4, 11} {
		more := reporttest.Watched(t)
		for k := range i {
			name := fmt.Sprintf("more-%d-%d", n, k)
			more.Tests = append(more.Tests, result.TestInfo{Name: name, Spec: more.Tests[2].Spec})
			for _, trial := range r.Trials {
				if trial.Test == "flows-1" {
					trial.Test, trial.ID = name, trial.ID+name
					more.Trials = append(more.Trials, trial)
				}
			}
		}
		watched := 2 * (2 + i)
		texts := renderAll(t, more)
		tables, figures := "", ""
		if watched > 24 {
			tables = fmt.Sprintf("What hops counted in %d more tests on paths is in result.json alone.", watched-24)
		}
		if watched > 12 {
			figures = fmt.Sprintf("%d more are not drawn.", watched-12)
		}
		for name, text := range map[string]string{"html": texts["html"], "markdown": texts["markdown"]} {
			if strings.Contains(text, "result.json alone") != (tables != "") || !strings.Contains(text, tables) {
				t.Errorf("%s of %d: %q is not said", name, watched, tables)
			}
		}
		if page := texts["html"]; strings.Contains(page, "not drawn") != (figures != "") || !strings.Contains(page, figures) {
			t.Errorf("figures of %d: %q is not said", watched, figures)
		}
	}
}
