package figure

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// Bounds on a histogram from outside: what a trial of hours needs, and no
// more than about 5 MB of counters when decoded.
const (
	maxHistogramBytes   = 1 << 20
	maxHistogramValue   = int64(24 * 3600 * 1e9) // a day in nanoseconds
	maxHistogramDigits  = 4
	histogramHeaderSize = 40
)

// decodeHistogram reads a histogram in HdrHistogram's V2 compressed encoding,
// plain or in the base64 that the Go library writes. Anything else, and
// anything larger than the bounds above, is an error.
func decodeHistogram(b []byte) (*hdrhistogram.Histogram, error) {
	if len(b) > maxHistogramBytes {
		return nil, fmt.Errorf("decode histogram: %d bytes are more than the %d allowed", len(b), maxHistogramBytes)
	}
	if len(b) >= 4 && int32(binary.BigEndian.Uint32(b))&^0xf0 == hdrhistogram.V2CompressedEncodingCookieBase {
		b = base64.StdEncoding.AppendEncode(nil, b)
	}
	if err := checkHistogramHeader(b); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	h, err := hdrhistogram.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}

// checkHistogramHeader reads the range and the precision before the library
// reserves memory for them. The layout is that of HdrHistogram's
// V2EncodingCookie: cookie, payload length, offset, digits (int32 each), then
// the lowest and the highest value (int64), all big endian.
func checkHistogramHeader(encoded []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(encoded))
	if err != nil {
		return err
	}
	if len(raw) < 8 {
		return errors.New("too short for a header")
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		return err
	}
	var header [histogramHeaderSize]byte
	if _, err := io.ReadFull(z, header[:]); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	digits := int32(binary.BigEndian.Uint32(header[12:]))
	highest := int64(binary.BigEndian.Uint64(header[24:]))
	if digits < 0 || digits > maxHistogramDigits || highest > maxHistogramValue {
		return fmt.Errorf("%d digits up to %d ns are more than the %d digits up to a day that are allowed", digits, highest, maxHistogramDigits)
	}
	return nil
}

// merged is the latency of all trials of a test on a path together.
type merged struct {
	total  int64              // requests that were due
	values []hdrhistogram.Bar // ascending, of those that were answered
}

// mergeLatency adds the histograms that the trials that count have of a part of a test. Histograms of one run share their geometry, so that adding
// bucket by bucket is exact.
func mergeLatency(m *report.Model, t report.Test, path int, part kind.Latency) (merged, []error) {
	counts := map[int64]int64{}
	var errs []error
	var out merged
	for _, trial := range m.Counted(m.Paths[path], t) {
		d := part.Of(trial.Outcome)
		if d == nil || len(d.HDR) == 0 {
			continue
		}
		h, err := decodeHistogram(d.HDR)
		if err != nil {
			errs = append(errs, fmt.Errorf("trial %s: %w", trial.ID, err))
			continue
		}
		if d.Unanswered > 0 && out.total <= math.MaxInt64-d.Unanswered {
			out.total += d.Unanswered
		}
		for _, bar := range h.Distribution() {
			if bar.Count > 0 && out.total <= math.MaxInt64-bar.Count {
				counts[bar.From/2+bar.To/2] += bar.Count
				out.total += bar.Count
			}
		}
	}
	for v, n := range counts {
		out.values = append(out.values, hdrhistogram.Bar{From: v, To: v, Count: n})
	}
	slices.SortFunc(out.values, func(a, b hdrhistogram.Bar) int { return cmp.Compare(a.From, b.From) })
	return out, errs
}

// tail is the position of a quantile on an axis that gives every further nine
// the same room: 0 for the minimum, 1 for p90, 2 for p99.
func tail(q float64) float64 { return -math.Log10(max(1-q, 1e-12)) }

// answered is how many of the requests have a time.
func (l merged) answered() (n int64) {
	for _, b := range l.values {
		n += b.Count
	}
	return n
}

// curve is the quantiles as points (tail position, seconds), up to the last
// that at least ten requests lie beyond. It ends where those without an answer begin.
func (l merged) curve() []point {
	if l.total < 20 {
		return nil
	}
	limit := tail(1 - 10/float64(l.total))
	var out []point
	var below int64
	for _, b := range l.values {
		x := tail(float64(below) / float64(l.total))
		if x > limit {
			break
		}
		out = append(out, point{x, float64(b.From) / 1e9})
		below += b.Count
		out = append(out, point{min(tail(float64(below)/float64(l.total)), limit), float64(b.From) / 1e9})
	}
	return out
}

// LatencyFigures draws the distribution of every latency test, of a load test
// without load and under load. What could not be decoded is named in the
// caption.
func LatencyFigures(m *report.Model) []Figure {
	var out []Figure
	for i, t := range m.Tests {
		var all []series
		var problems []error
		samples, unanswered := int64(0), int64(0)
		for p := range m.Paths {
			for _, part := range t.Descriptor().Latencies {
				l, errs := mergeLatency(m, t, p, part)
				problems = append(problems, errs...)
				if points := l.curve(); len(points) > 1 {
					all = append(all, series{path: p, idle: part.Idle, points: points})
					samples += l.answered()
					unanswered += l.total - l.answered()
				}
			}
		}
		caption := ""
		if len(problems) > 0 {
			caption = fmt.Sprintf("%s could not be read; the first: %s.", quantity.Count(len(problems), "histogram"), typeset.Line(problems[0].Error()))
		}
		switch {
		case len(all) > 0:
			f := latencyFigure(m, fmt.Sprintf("latency-%d", i), t, all, samples, unanswered)
			f.Caption = caption
			out = append(out, f)
		case caption != "":
			out = append(out, Figure{Title: t.Label, Caption: caption})
		}
	}
	return out
}

// latencyFigure draws the curves of one test.
func latencyFigure(m *report.Model, id string, t report.Test, all []series, samples, unanswered int64) Figure {
	axisLabel, curves := words.Latency(t.Kind), "Percentile curve per path"
	of := fmt.Sprintf("%d samples", samples)
	if unanswered > 0 {
		of += fmt.Sprintf(" and %d requests without an answer, which come last", unanswered)
	}
	if len(t.Descriptor().Latencies) > 1 {
		curves += ", dashed without load"
	}
	p := newPanel(id, "Distribution of "+axisLabel+", "+t.Label,
		fmt.Sprintf("%s, all trials together, %s.", curves, of), m.Paths, panelHeight)
	var xs, ys []float64
	for _, s := range all {
		for _, q := range s.points {
			xs, ys = append(xs, q.x), append(ys, q.y)
		}
	}
	_, xHigh := span(xs)
	p.x = axis{low: 0, high: max(xHigh, 1), from: p.left, to: p.right}
	low, high := span(ys)
	if low > 0 && high/low > 20 {
		p.y = logAxis(ys, p.bottom, p.top)
	} else {
		p.y = linearAxis(ys, true, p.bottom, p.top, 4)
	}
	unit := p.y.unitOf(measurement.SecondsUnit)
	p.axes(tailTicks(p.x.high), p.y.ticks(5, unit), "percentile", axisName(axisLabel, unit, p.y.log))
	var labels []endLabel
	p.plot(nines, 0, one, unit, func() { labels = p.curves(m, all) })
	p.endLabels(labels)
	return Figure{Title: t.Label, SVG: p.end()}
}

// curves draws them with lines to where their names are.
func (p *panel) curves(m *report.Model, all []series) []endLabel {
	var labels []endLabel
	for _, s := range all {
		drawn := p.place(minMax(s.points, int(p.right-p.left)))
		label, classes := m.Paths[s.path].Label, " curve"
		tooltip := label
		if s.idle { // its colour and its dashes name the path
			label, tooltip, classes = "idle", label+", idle", " curve idle"
		}
		p.polyline(drawn, class("s", s.path)+classes, tooltip)
		last := drawn[len(drawn)-1]
		p.line(last.x, last.y, p.right, last.y, class("s", s.path)+" lead")
		labels = append(labels, endLabel{path: s.path, label: label, y: last.y})
	}
	return labels
}

// tailTicks labels the percentiles up to the end of the axis.
func tailTicks(high float64) []tick {
	out := []tick{{0, "min"}, {tail(0.5), "50"}}
	label := "90"
	for x := 1.0; x <= high && x <= 9; x++ {
		out = append(out, tick{x, label})
		switch x {
		case 1:
			label = "99"
		case 2:
			label = "99.9"
		default:
			label += "9"
		}
	}
	return out
}
