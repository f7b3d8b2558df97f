package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// renderings is every way to write a result.
var renderings = []struct {
	name  string
	write func(io.Writer, *result.Result) error
}{
	{"terminal", func(w io.Writer, r *result.Result) error {
		return terminal.Write(w, r, terminal.Options{Width: 80, Colour: true, Verbose: true})
	}},
	{"brief terminal", func(w io.Writer, r *result.Result) error { return terminal.Write(w, r, terminal.Options{Colour: true}) }},
	{"narrow terminal", func(w io.Writer, r *result.Result) error { return terminal.Write(w, r, terminal.Options{Width: 20}) }},
	{"markdown", markdown.Write},
	{"html", html.Write},
	{"csv", data.CSV},
	{"pairs", data.PairsCSV},
	{"json", data.Write},
	{"picture", figure.Picture},
}

// renderAll writes r every way and returns the texts by name.
func renderAll(t testing.TB, r *result.Result) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, x := range renderings {
		var b bytes.Buffer
		if err := x.write(&b, r); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		out[x.name] = b.String()
	}
	if err := checkPage([]byte(out["html"])); err != nil {
		t.Errorf("html: %v", err)
	}
	if err := wellFormed([]byte(out["picture"])); err != nil {
		t.Errorf("picture: %v", err)
	}
	for name, text := range out {
		if name != "json" && (strings.Contains(text, "NaN") || strings.Contains(text, "Inf")) {
			t.Errorf("%s shows a number that is none", name)
		}
	}
	return out
}

func TestDegenerateResults(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cases := map[string]func(r *result.Result) *result.Result{
		"nil":              func(*result.Result) *result.Result { return nil },
		"zero":             func(*result.Result) *result.Result { return &result.Result{} },
		"no trials":        func(r *result.Result) *result.Result { r.Trials, r.Cells, r.Costs = nil, nil, nil; return r },
		"no costs":         func(r *result.Result) *result.Result { r.Costs = nil; return r },
		"no tests":         func(r *result.Result) *result.Result { r.Tests = nil; return r },
		"no declared path": func(r *result.Result) *result.Result { r.Paths = nil; return r },
		"zero blocks":      func(r *result.Result) *result.Result { r.Experiment.Blocks = 0; return r },
		"no intervals": func(r *result.Result) *result.Result {
			for i := range r.Cells {
				r.Cells[i].Low, r.Cells[i].High = nil, nil
			}
			for i := range r.Costs {
				c := &r.Costs[i]
				c.Low, c.High, c.DifferenceLow, c.DifferenceHigh = nil, nil, nil, nil
			}
			return r
		},
		"not finite": func(r *result.Result) *result.Result {
			r.Cells[0].Median, r.Costs[0].Ratio, r.Experiment.Scale = nan, inf, nan
			r.Cells[1].Low, r.Costs[1].High = &nan, &inf
			r.Trials[0].Metrics["rtt_p50_seconds"] = nan
			for i := range r.Trials {
				if b := r.Trials[i].Throughput; b != nil {
					b.Bytes[3], b.Width = inf, measurement.Seconds(nan)
					r.Trials[i].Flows[0].Info[2].RTT = measurement.Seconds(nan)
					break
				}
			}
			return r
		},
		"extreme": func(r *result.Result) *result.Result {
			for i := range r.Cells {
				r.Cells[i].Median = []float64{1e308, -1e308, 5e-324, 0}[i%4]
			}
			for i := range r.Costs {
				r.Costs[i].Ratio, r.Costs[i].Difference = []float64{1e308, 5e-324, 0, -1}[i%4], 1e308
			}
			for i := range r.Trials {
				r.Trials[i].Block = []int{-5, 0, math.MaxInt32, 3}[i%4]
				for k := range r.Trials[i].Metrics {
					r.Trials[i].Metrics[k] = []float64{1e308, -1e308, 0, 5e-324}[i%4]
				}
			}
			return r
		},
		"one path only": func(r *result.Result) *result.Result {
			r.Paths = r.Paths[:1]
			r.Costs = nil
			r.Trials = slices.DeleteFunc(r.Trials, func(t measurement.Trial) bool { return t.Path != "direct" })
			r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Path != "direct" })
			return r
		},
		"all trials failed": func(r *result.Result) *result.Result {
			for i := range r.Trials {
				r.Trials[i].Gate = measurement.Gate{}
				r.Trials[i].Metrics = nil
			}
			r.Cells, r.Costs = nil, nil
			return r
		},
		"garbage histograms": func(r *result.Result) *result.Result {
			for i := range r.Trials {
				if l := r.Trials[i].Latency; l != nil {
					l.HDR = []byte("not a histogram")
				}
			}
			return r
		},
		"twenty paths": func(r *result.Result) *result.Result {
			for i := range 20 {
				p := r.Paths[1]
				p.Name = fmt.Sprintf("path-%d", i)
				p.Title = strings.Repeat("long name ", 6) + p.Name
				r.Paths = append(r.Paths, p)
			}
			return r
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			texts := renderAll(t, change(reporttest.Run(t, 6)))
			if len(texts["terminal"]) == 0 || len(texts["html"]) == 0 {
				t.Error("nothing was rendered")
			}
		})
	}
}

func TestGarbageHistogramIsNamed(t *testing.T) {
	r := reporttest.Run(t, 6)
	for i := range r.Trials {
		if l := r.Trials[i].Latency; l != nil {
			l.HDR = []byte("not a histogram")
			break
		}
	}
	if !strings.Contains(string(htmlText(t, r)), "1 histogram could not be read") {
		t.Error("the page does not say that a histogram could not be read")
	}
}

func TestNonFiniteValuesAreCounted(t *testing.T) {
	r := reporttest.Run(t, 6)
	r.Trials[0].Metrics["rtt_p50_seconds"] = math.NaN()
	r.Cells[0].Median = math.Inf(-1)
	before := len(r.Cells)
	var back result.Result
	testutil.OK(t, json.Unmarshal(written(t, data.Write, r), &back))
	if len(back.Cells) != before-1 || back.Notes[len(back.Notes)-1].Code != result.NoteNotFinite || back.Notes[len(back.Notes)-1].Count != 2 {
		t.Errorf("got %d cells and notes %+v, want %d cells and a note that counts 2 values", len(back.Cells), back.Notes, before-1)
	}
	if !math.IsNaN(r.Trials[0].Metrics["rtt_p50_seconds"]) || len(r.Cells) != before {
		t.Error("the result itself was changed")
	}
}

// hostile is a text that would break out of every medium.
const hostile = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'|`*_[x](javascript:alert(1))\x1b[31m\x00\u202e\xff"

// TestAnyResultRenders changes random parts of a result's JSON and holds that
// whatever still is a result renders every way.
func TestAnyResultRenders(t *testing.T) { rendersWhatever(t, reporttest.Run(t, 1), 7, 60, 30) }

// rendersWhatever renders so many mutations of r, of which so many have to be
// results still; stream tells the random numbers of its callers apart.
func rendersWhatever(t *testing.T, r *result.Result, stream, mutations uint64, results int) {
	t.Helper()
	document, err := json.Marshal(r)
	testutil.OK(t, err)
	rendered := 0
	for seed := range mutations {
		rng := rand.New(rand.NewPCG(seed, stream))
		var tree any
		testutil.OK(t, json.Unmarshal(document, &tree))
		changed, err := json.Marshal(mutate(rng, tree, 0.003+0.05*rng.Float64()))
		testutil.OK(t, err)
		var r result.Result
		if json.Unmarshal(changed, &r) != nil {
			continue
		}
		rendered++
		renderAll(t, &r)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if rendered < results {
		t.Errorf("only %d changed documents were results", rendered)
	}
}

// mutate replaces or drops values of a JSON tree, keeping their types so that
// the document stays a result.
func mutate(rng *rand.Rand, v any, p float64) any {
	hit := rng.Float64() < p
	switch v := v.(type) {
	case map[string]any:
		// In one order, so that a seed is all it takes to see a failure again.
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if rng.Float64() < p {
				delete(v, k)
				continue
			}
			v[k] = mutate(rng, v[k], p)
		}
	case []any:
		if hit {
			return v[:rng.IntN(len(v)+1)]
		}
		for i := range v {
			v[i] = mutate(rng, v[i], p)
		}
	case float64:
		if hit {
			if v == math.Trunc(v) {
				return []float64{0, -1, 1, 7, 1e9}[rng.IntN(5)]
			}
			return []float64{0, -1, 1e-300, 1e300, -1e300, 0.5}[rng.IntN(6)]
		}
	case string:
		if hit && !strings.Contains(v, "T09:") { // a time must stay a time
			return []string{"", "<b>&\"'", "東京のルーター", strings.Repeat("long ", 50), "\x1b[2J"}[rng.IntN(5)]
		}
	}
	return v
}

func FuzzResult(f *testing.F) {
	small := reporttest.Run(f, 1) // short documents mutate faster
	for i := range small.Trials {
		t := &small.Trials[i]
		if t.Throughput != nil {
			t.Throughput.Bytes = t.Throughput.Bytes[:3]
			t.Flows = t.Flows[:1]
			t.Flows[0].Info = t.Flows[0].Info[:2]
		}
	}
	small.Trials = small.Trials[:6]
	for _, r := range []*result.Result{small, {}} {
		b, err := json.Marshal(r)
		testutil.OK(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r result.Result
		if json.Unmarshal(b, &r) == nil {
			renderAll(t, &r)
		}
	})
}
