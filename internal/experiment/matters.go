package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/spelling"
	"github.com/hopbench/hopbench/internal/strict"
)

// This file reads the smallest effects that matter, from a file and from a
// command line: metrics and their margins.

// maxMatters bounds how many metrics a file may list.
const maxMatters = 100

// shortName is a metric's name without its unit.
func shortName(m measurement.Metric) string {
	for _, unit := range []string{"_bits_per_second", "_seconds_per_byte", "_seconds_per_packet", "_per_second", "_per_minute", "_seconds", "_bytes", "_fraction", "_count"} {
		if short, ok := strings.CutSuffix(m.Name, unit); ok {
			return short
		}
	}
	return m.Name
}

// judged are the metrics that verdicts are given on.
func judged() []measurement.Metric {
	return slices.DeleteFunc(measurement.Catalogue(), func(m measurement.Metric) bool { return !m.Compared })
}

// matterNames lists all names of the metrics that can have a margin: with their
// units, without, and the beginnings that several share.
func matterNames() (names []string) {
	for _, m := range judged() {
		short := shortName(m)
		for i, r := range short + "_" {
			if r == '_' && !slices.Contains(names, short[:i]) {
				names = append(names, short[:i])
			}
		}
		names = append(names, m.Name)
	}
	return names
}

// ShortMatterNames lists the same metrics without their units.
func ShortMatterNames() (names []string) {
	for _, m := range judged() {
		names = append(names, shortName(m))
	}
	return names
}

// metricsCalled finds the metrics that a name stands for: the one that has it, with
// or without its unit, or else all that begin with it (rtt: rtt_p50 and rtt_p99). Exact
// says which.
func metricsCalled(name string) (found []measurement.Metric, exact bool) {
	for _, m := range judged() {
		if name == m.Name || name == shortName(m) {
			return []measurement.Metric{m}, true
		}
		if strings.HasPrefix(shortName(m), name+"_") {
			found = append(found, m)
		}
	}
	return found, false
}

// readMargin reads the margin of a metric: a share where it is judged by its
// ratio, an amount in its unit where it is judged by its difference.
func readMargin(m measurement.Metric, text string) (margin measurement.Margin, problem *quantity.UnitError) {
	scale, example := "difference", map[measurement.Unit]string{
		measurement.SecondsUnit: "a time, as in 50us", measurement.Fraction: "a share, as in 0.1%", measurement.Bytes: "a size, as in 64kB",
	}[m.Unit]
	value := &margin.Amount
	var err error
	if m.ByRatio() {
		scale, example, value = "ratio", "a share, as in 3%", &margin.Fraction
		*value, err = quantity.ParseFraction(text)
	} else {
		*value, err = quantity.ParseValue(m.Unit, text)
	}
	switch {
	case err != nil:
		return margin, &quantity.UnitError{
			Problem: fmt.Sprintf("%q is no margin of %s, which is judged by its %s", strict.Clip(text), m.Label, scale),
			Remedy:  "write " + cmp.Or(example, "a plain number, as in 10"),
		}
	case *value == 0:
		return margin, &quantity.UnitError{Problem: fmt.Sprintf("a margin of zero for %s could never be shown to hold", m.Label), Remedy: "write the smallest effect that matters"}
	case scale == "ratio" && *value >= 1:
		return margin, &quantity.UnitError{Problem: fmt.Sprintf("a margin of %s for %s lets everything pass", strict.Clip(text), m.Label), Remedy: "write less than 100%"}
	}
	return margin, nil
}

// matter is one entry as it was read, with the name of its metrics.
type matter struct{ name, text string }

// mattersOf finds the margins of entries by the full names of metrics. What is
// wrong is told with the index of its entry, and whether its margin is the reason.
func mattersOf(entries []matter, wrong func(entry int, margin bool, message, remedy string)) map[string]measurement.Margin {
	type source struct {
		entry int
		exact bool
	}
	out, from := map[string]measurement.Margin{}, map[string]source{}
	for i, e := range entries {
		metrics, exact := metricsCalled(e.name)
		if len(metrics) == 0 {
			message := fmt.Sprintf("there is no metric %q", strict.Clip(e.name))
			if m, known := measurement.MetricNamed(e.name); known {
				message = fmt.Sprintf("no verdict is given on %s", m.Name)
			}
			remedy := "leave it out; it can have " + strict.OneOf(ShortMatterNames())
			if right := spelling.Nearest(e.name, ShortMatterNames()); right != "" {
				remedy = fmt.Sprintf("did you mean %q?", right)
			}
			wrong(i, false, message, remedy)
			continue
		}
		var problem *quantity.UnitError
		for _, m := range metrics {
			var margin measurement.Margin
			if margin, problem = readMargin(m, e.text); problem != nil {
				wrong(i, true, problem.Problem, problem.Remedy)
				break
			}
			first, taken := from[m.Name]
			switch {
			case taken && first.exact == exact:
				wrong(i, false, fmt.Sprintf("%q and %q both set the margin of %s", entries[first.entry].name, e.name, m.Name), "leave one of them out")
			case !taken || exact:
				out[m.Name], from[m.Name] = margin, source{i, exact}
			}
		}
	}
	return out
}

// ParseMatters reads margins as a command line gives them, "rtt=50us,loss=0.1%", by
// the full names of their metrics.
func ParseMatters(text string) (map[string]measurement.Margin, error) {
	var entries []matter
	var problems []error
	for _, entry := range strings.Split(text, ",") {
		name, margin, found := strings.Cut(strings.TrimSpace(entry), "=")
		if !found {
			problems = append(problems, fmt.Errorf("%q is no metric with its margin; write it as in rtt=50us,goodput=3%%", strict.Clip(entry)))
		}
		entries = append(entries, matter{strings.TrimSpace(name), strings.TrimSpace(margin)})
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	out := mattersOf(entries, func(_ int, _ bool, message, remedy string) {
		problems = append(problems, fmt.Errorf("%s; %s", message, remedy))
	})
	return out, errors.Join(problems...)
}

// FormatMatters writes margins so that ParseMatters reads the very same.
func FormatMatters(matters map[string]measurement.Margin) string {
	var entries []string
	for _, m := range judged() {
		if margin, ok := matters[m.Name]; ok {
			entries = append(entries, shortName(m)+"="+formatMargin(m.Unit, margin))
		}
	}
	return strings.Join(entries, ",")
}

func formatMargin(unit measurement.Unit, margin measurement.Margin) string {
	switch {
	case margin.Fraction > 0:
		return quantity.FormatFraction(margin.Fraction)
	case unit == measurement.SecondsUnit:
		return quantity.FormatDuration(time.Duration(math.Round(margin.Amount * float64(time.Second))))
	case unit == measurement.Bytes:
		return quantity.FormatBytes(int64(margin.Amount))
	case unit == measurement.Fraction:
		return quantity.FormatFraction(margin.Amount)
	}
	return strconv.FormatFloat(margin.Amount, 'f', -1, 64)
}

// matters reads the margins of a file. Each has to be of a metric that one of its
// tests brings.
func (l *loader) matters(f FileMatters, tests []Test) map[string]measurement.Margin {
	var entries []matter
	var fields []*strict.Entry[string, ValueText]
	for i := range f {
		if f[i].Key != "" && f[i].Value != "" {
			entries, fields = append(entries, matter{f[i].Key, string(f[i].Value)}), append(fields, &f[i])
		}
	}
	brought := map[string]bool{}
	for _, t := range tests {
		for _, m := range measurement.MetricsOf(t.Spec.Kind) {
			brought[m.Name] = true
		}
	}
	for i, e := range entries {
		metrics, _ := metricsCalled(e.name)
		if len(metrics) > 0 && len(brought) > 0 && !slices.ContainsFunc(metrics, func(m measurement.Metric) bool { return brought[m.Name] }) {
			l.Wrong(&fields[i].Key, "leave it out, or add a test that measures it", "no test of the experiment measures %q", e.name)
		}
	}
	matters := mattersOf(entries, func(entry int, margin bool, message, remedy string) {
		if margin {
			l.Wrong(&fields[entry].Value, remedy, "%s", message)
		} else {
			l.Wrong(&fields[entry].Key, remedy, "%s", message)
		}
	})
	if len(matters) == 0 {
		return nil
	}
	return matters
}
