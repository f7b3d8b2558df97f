package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testutil"
)

func published(t testing.TB) *result.PublishedData {
	t.Helper()
	data, err := LoadPublished(experiments.PublishedFile, experiments.Published())
	testutil.OK(t, err)
	return data
}

// What follows from several printed numbers at once would not follow from
// numbers that were mistyped.
func TestPublishedNumbersAgree(t *testing.T) {
	data := published(t)
	// ntttcp's sender counted whole buffers of 128 KiB, and its rates are its
	// bytes over the 60 s of the run.
	var buffers []float64
	for _, id := range []string{"E3.4", "E3.5"} {
		bytes := numbersOf(data, id, "transferred_bytes", result.PublishedSender)
		rates := numbersOf(data, id, "goodput_bits_per_second", result.PublishedSender)
		if len(bytes) != 2 || len(rates) != 2 {
			t.Fatalf("%s has the bytes %v and the rates %v", id, bytes, rates)
		}
		for i := range bytes {
			buffers = append(buffers, bytes[i]/131072)
			if rate := bytes[i] * 8 / 60; math.Abs(rate-rates[i]) >= 10 { // printed to 10 bit/s
				t.Errorf("%s: %v bytes in 60 s are %v bit/s, printed are %v", id, bytes[i], rate, rates[i])
			}
		}
	}
	if want := []float64{21, 22, 21, 20}; !slices.Equal(buffers, want) {
		t.Errorf("the senders counted %v buffers, want %v", buffers, want)
	}
	// Intrusion detection costs the printed factor.
	off := numbersOf(data, "E1.24", "goodput_bits_per_second", "")[0]
	deny := numbersOf(data, "E1.25", "goodput_bits_per_second", "")[0]
	if factor := math.Round(off/deny*10) / 10; factor != 10.7 {
		t.Errorf("E1.24 over E1.25 is %v", factor)
	}
	// Rates printed in bytes are those of the values.
	units := map[string]float64{"MB/s": 8 << 20, "MiB/s": 8 << 20} // NcFTP prints 10^10 bytes as 9.31 GB
	inBytes := regexp.MustCompile(`^([0-9.]+) (MB/s|MiB/s)$`)
	found := 0
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			for _, f := range s.Figures {
				m := inBytes.FindStringSubmatch(f.Printed)
				if m == nil {
					continue
				}
				found++
				number, err := strconv.ParseFloat(m[1], 64)
				if err != nil || math.Abs(number*units[m[2]]-f.Value) > 1 {
					t.Errorf("%s: %s are %v bit/s, not %v (%v)", s.ID, f.Printed, number*units[m[2]], f.Value, err)
				}
			}
		}
	}
	if found != 3 {
		t.Errorf("%d rates are printed in bytes, want 3", found)
	}
}

// Digits that stand in the studies twice are said to: copies are no repetition.
func TestPublishedCopiesAreSaid(t *testing.T) {
	data := published(t)
	first := map[string]string{}
	copies := 0
	for _, s := range data.Studies[0].Settings {
		byRun := map[int]string{}
		notes := map[int]string{}
		for _, f := range s.Figures {
			if f.Run > 0 {
				byRun[f.Run] += f.Metric + f.End + f.Printed + " "
				notes[f.Run] += f.Note
			}
		}
		for _, run := range slices.Sorted(maps.Keys(byRun)) {
			digits := byRun[run]
			here := fmt.Sprintf("%s run %d", s.ID, run)
			if other := first[digits]; other != "" {
				copies++
				if !strings.Contains(notes[run], "the same digits") {
					t.Errorf("%s has the digits of %s and does not say so", here, other)
				}
			}
			first[digits] = here
		}
	}
	if copies != 2 {
		t.Errorf("%d runs are copies of another, want 2", copies)
	}
}

// The experiments' own published figures are those of the file.
func TestExperimentsQuoteThePublishedFigures(t *testing.T) {
	data := published(t)
	for _, name := range experiments.Names() {
		e := bundled(t, name)
		if e.Published == nil {
			continue
		}
		for _, f := range e.Published.Figures {
			if !quotes(data, f) {
				t.Errorf("%s: %s has no %s of %v in %s", name, f.ID, f.Metric, f.Value, experiments.PublishedFile)
			}
			if !conditionsOf(data, f) {
				t.Errorf("%s: %s, %s was not published with %d flows and %v", name, f.ID, f.Metric, f.Flows, f.Duration.Duration())
			}
		}
	}
}

// quotes says that a row has the value: one of its numbers, the median or the
// mean of those of one end or of its readings, or a round trip of which half was printed. Rows
// without numbers cannot be quoted wrongly.
func quotes(data *result.PublishedData, f result.Figure) bool {
	metric, _ := measurement.MetricNamed(f.Metric)
	numbers := 0
	near := func(v float64) bool { return math.Abs(v-f.Value) <= 1e-9*f.Value }
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			together := map[string][]float64{}
			for _, n := range s.Figures {
				if s.ID != f.ID || n.Unit != metric.Unit {
					continue
				}
				numbers++
				if near(n.Value) || n.Metric == "half_rtt_seconds" && near(2*n.Value) {
					return true
				}
				kind := fmt.Sprint(n.Metric, n.End, n.Second > 0)
				together[kind] = append(together[kind], n.Value)
			}
			for _, values := range together {
				slices.Sort(values)
				middle := func() float64 { k := len(values); return (values[(k-1)/2] + values[k/2]) / 2 }
				all := near(middle()) || math.Abs(mean(values)-f.Value) <= 1e-6*f.Value
				values = slices.Compact(values) // a run that was pasted twice is one
				if all || near(middle()) {
					return true
				}
			}
		}
	}
	return numbers == 0 && exists(data, f.ID)
}

// conditionsOf says that a row was measured with the flows and for as long as the
// figure says: rates and retransmits must say what the row does.
func conditionsOf(data *result.PublishedData, f result.Figure) bool {
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			has := slices.ContainsFunc(s.Figures, func(n result.PublishedNumber) bool { return n.Metric == f.Metric })
			if s.ID == f.ID && has && s.Flows == f.Flows && s.Duration == f.Duration {
				return true
			}
		}
	}
	// Round trips and hops have neither.
	return f.Flows == 0 && f.Duration == 0
}

func exists(data *result.PublishedData, id string) bool {
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			if s.ID == id {
				return true
			}
		}
	}
	return false
}

func TestBadPublishedFiles(t *testing.T) {
	const head = "format: hopbench.published/1\nmetrics:\n  - {name: laps_count, label: laps, unit: count}\nstudies:\n  - name: s\n    title: T\n    settings:\n      - id: X1\n        path: p\n"
	figure := func(text string) string { return head + "        figures:\n          - " + text + "\n" }
	for _, c := range []struct{ name, text, want string }{
		{"no figures", head, `p.yaml:8:9: setting "X1" says nothing; write figures, or what it says`},
		{"no value", figure("{metric: laps_count}"), "p.yaml:11:13: a figure for laps_count has no value, or several"},
		{"value and sender", figure("{metric: laps_count, value: 1, sender: 2}"), "has no value, or several"},
		{"value and readings", figure("{metric: laps_count, value: 1, readings: 1 2, unit: x}"), "has no value, or several"},
		{"unknown metric", figure("{metric: goodputt_bits_per_second, value: 1bit}"), `p.yaml:11:22: there is no metric "goodputt_bits_per_second"; did you mean "goodput_bits_per_second"?`},
		{"wrong unit", figure("{metric: goodput_bits_per_second, value: 1.98Gbps}"), `unknown unit "Gbps" in rate "1.98Gbps"; write 1.98Gbit`},
		{"unit of readings", figure("{metric: goodput_bits_per_second, readings: 985 951}"), "readings and their unit belong together"},
		{"bad reading", figure("{metric: goodput_bits_per_second, readings: 985 9S1, unit: Mbit}"), `value of goodput_bits_per_second`},
		{"printed beside ends", figure("{metric: laps_count, sender: 2, printed: two}"), "printed needs a value"},
		{"twice", figure("{metric: laps_count, value: 1}\n          - {metric: laps_count, value: 2}"), "p.yaml:12:13: X1 has a second figure for laps_count; the first is at line 11"},
		{"metric of the catalogue", strings.Replace(head, "laps_count", "hops_count", 1) + "        says: x\n", `metric "hops_count" is in the catalogue`},
		{"unknown key", figure("{metric: laps_count, valeu: 1}"), `unknown key "valeu" in figure 1 of setting "X1"; did you mean "value"?`},
		{"another format", strings.Replace(head, "published/1", "published/9", 1), `this is a file of format "hopbench.published/9", which this version`},
		{"empty", "", "start with format: hopbench.published/1"},
	} {
		_, err := LoadPublished("p.yaml", []byte(c.text))
		var problems strict.Errors
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// FuzzLoadPublished holds that whatever is read has finite values and comes
// without a panic.
func FuzzLoadPublished(f *testing.F) {
	f.Add(experiments.Published())
	f.Fuzz(func(t *testing.T, text []byte) {
		data, err := LoadPublished("p.yaml", text)
		if err != nil {
			var problems strict.Errors
			if !errors.As(err, &problems) {
				t.Errorf("the error is a %T", err)
			}
			return
		}
		for _, study := range data.Studies {
			for _, s := range study.Settings {
				for _, n := range s.Figures {
					if math.IsNaN(n.Value) || math.IsInf(n.Value, 0) || n.Value < 0 {
						t.Errorf("%s: %+v", s.ID, n)
					}
				}
			}
		}
	})
}
