// Package summary writes the tests of one path as they come in, in a form that can
// be pasted into a ticket.
package summary

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Options say how a Summary looks.
type Options struct {
	// Verbose adds every metric and every effective setting of each test.
	Verbose bool
	// Markdown writes GitHub-flavoured Markdown instead of aligned text.
	Markdown bool
	// BinsOf, when above 0, adds the receiver's throughput in intervals of so
	// many seconds.
	BinsOf measurement.Seconds
}

// summaryWidth is the number of columns that text keeps to, so that it can be
// pasted into a ticket.
const summaryWidth = 98

// labelColumns is the width of the first column, which longer labels exceed, and leastText the
// columns that these leave for the text: others have a line of their own.
const labelColumns, leastText = 18, 50

// Summary shows the tests of one path as they come in, each with a line or a
// few, in a form that can be pasted into a ticket. It keeps the first error of
// the writer and writes nothing after it.
type Summary struct {
	w     io.Writer
	o     Options
	notes []string
	// effective is the last short line of what was effective: it is told again
	// when it changes.
	effective string
	// idle says that the round trip of the idle path was told, loss that a share of loss
	// was, with its interval.
	idle, loss bool
	err        error
}

// New begins a summary with a title.
func New(w io.Writer, title string, o Options) *Summary {
	s := &Summary{w: w, o: o}
	if o.Markdown {
		s.print("### %s\n\n| test | result |\n|---|---|\n", markdown.Text(title))
	} else {
		s.print("%s\n", typeset.Line(title))
	}
	return s
}

func (s *Summary) print(format string, args ...any) {
	if s.err == nil {
		// Text that is pasted into a ticket has plain spaces.
		_, s.err = io.WriteString(s.w, strings.ReplaceAll(fmt.Sprintf(format, args...), words.NBSP, " "))
	}
}

// Trial adds one test, without its intervals where they were told while it went on.
func (s *Summary) Trial(test result.TestInfo, t measurement.Trial, told bool) {
	text, below := "no result", []string(nil)
	if t.Gate.Passed {
		t = s.oneIdle(test.Spec.Kind, t)
		text, below = words.Trial(test.Spec, t), trialLines(test.Spec.Defaults(), t, s.o, told)
		_, interval := t.LossOf(test.Spec)
		s.loss = s.loss || interval && strings.Contains(text, "loss ")
		if e := shortEffective(t.Effective); !s.o.Verbose && e != "" && e != s.effective {
			s.effective = e
			below = append(below, e)
		}
	}
	for _, c := range t.Gate.Findings {
		if c.Fatal {
			text += ": " + words.Finding(c)
		} else {
			s.note(test.Title + ": " + words.Finding(c))
		}
	}
	for _, fact := range t.Facts {
		s.note(test.Title + ": " + fact)
	}
	s.Row(test.Title, text, below...)
}

// oneIdle leaves out of a load test the round trip of the idle path, where a test of its
// own told it: two figures of one thing help nobody.
func (s *Summary) oneIdle(kind measurement.Kind, t measurement.Trial) measurement.Trial {
	switch {
	case kind == measurement.RR || kind == measurement.Ping:
		s.idle = true
	case kind == measurement.Load && s.idle:
		t.Metrics = maps.Clone(t.Metrics)
		delete(t.Metrics, "idle_rtt_p50_seconds")
		t.IdleLatency = nil
	}
	return t
}

// Row adds a line of one's own, with lines below it.
func (s *Summary) Row(label, text string, below ...string) {
	label, text = typeset.Line(label), typeset.Line(text)
	if s.o.Markdown {
		cell := []string{markdown.Text(text)}
		for _, l := range below {
			cell = append(cell, markdown.Text(l))
		}
		for i, l := range cell { // Markdown shows several blanks as one
			cell[i] = strings.NewReplacer(words.Gap+"(", " (", words.Gap, " · ").Replace(l)
		}
		s.print("| %s | %s |\n", markdown.Text(label), strings.Join(cell, "<br>"))
		return
	}
	room := summaryWidth - max(labelColumns, typeset.Columns(label)+1)
	if room < leastText {
		for _, l := range typeset.Wrap(label, summaryWidth) {
			s.print("%s\n", l)
		}
		label, room = "", summaryWidth-labelColumns
	}
	indent := strings.Repeat(" ", labelColumns)
	for i, l := range wrapFields(text, room) {
		if i == 0 {
			l = typeset.Pad(label, labelColumns-1) + " " + l
		} else {
			l = indent + l
		}
		s.print("%s\n", strings.TrimRight(l, " "))
	}
	for _, l := range below {
		s.Below(l)
	}
}

// Below adds a line below a row, in a summary that is not Markdown.
func (s *Summary) Below(line string) {
	for _, part := range wrapFields(typeset.Clean(line, false), summaryWidth-labelColumns-2) {
		s.print("%s  %s\n", strings.Repeat(" ", labelColumns), part)
	}
}

// note keeps a sentence for the end; one that several tests have is told once.
func (s *Summary) note(text string) {
	_, fact, _ := strings.Cut(text, ": ")
	for _, known := range s.notes {
		if _, other, _ := strings.Cut(known, ": "); other == fact {
			return
		}
	}
	s.notes = append(s.notes, typeset.Line(text))
}

// End adds the ratings after RFC 6349 and what a reader must know in addition to the
// figures, and returns the first error of the writer.
func (s *Summary) End(r *result.Result) error {
	s.ratings(r)
	names := words.NamesIn(r)
	for _, a := range r.Attributions {
		i := slices.IndexFunc(r.Tests, func(t result.TestInfo) bool { return t.Name == a.Test })
		if i < 0 {
			continue
		}
		if limit := words.Attribution(a, r.Tests[i].Spec); limit != "" {
			s.notes = append(s.notes, typeset.Line(names.Test(a.Test)+": "+limit))
		}
	}
	// Each trial had its row, which says why it does not count.
	rest := slices.DeleteFunc(slices.Clone(r.Notes), func(n result.Note) bool {
		return n.Code == result.NoteBrokenTrials || n.Code == result.NoteExcludedTrials
	})
	for _, n := range names.Notes(rest) {
		s.notes = append(s.notes, typeset.Line(n))
	}
	if s.loss {
		s.notes = append(s.notes, "Intervals of losses are 95 % intervals and assume independent packets; losses come in clusters, so the true value may lie outside.")
	}
	if len(s.notes) > 0 {
		s.print("\n")
	}
	for _, n := range s.notes {
		if s.o.Markdown {
			s.print("- %s\n", markdown.Text(n))
			continue
		}
		for i, l := range typeset.Wrap(n, summaryWidth-len("note: ")) {
			if i == 0 {
				s.print("note: %s\n", l)
			} else {
				s.print("      %s\n", l)
			}
		}
	}
	return s.err
}

func (s *Summary) ratings(r *result.Result) {
	if len(r.RFC6349) == 0 {
		return
	}
	rows := [][]string{{"RFC 6349", "transfer time ratio", "TCP efficiency", "buffer delay"}}
	names := words.NamesIn(r)
	for _, q := range r.RFC6349 {
		rows = append(rows, []string{typeset.Line(names.Test(q.Test)), optional(q.TransferTimeRatio, 1, 2, ""),
			optional(q.TCPEfficiency, 100, 2, "%"), optional(q.BufferDelay, 100, 0, "%")})
	}
	s.print("\n")
	for i, row := range rows {
		if s.o.Markdown {
			row[0] = markdown.Text(row[0])
			s.print("| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				s.print("|---|---:|---:|---:|\n")
			}
			continue
		}
		s.print("%s%21s%18s%16s\n", typeset.Pad(row[0], labelColumns), row[1], row[2], row[3])
	}
	q := r.RFC6349[0]
	if q.IdealSource == result.IdealGiven {
		s.notes = append(s.notes, fmt.Sprintf("The ideal transfer of RFC 6349 is %s, the given rate less the headers of Ethernet, IP and TCP.",
			words.Rate(q.Ideal)))
		return
	}
	s.notes = append(s.notes, "The ideal transfer of RFC 6349 is taken from the largest goodput of each direction here; --rate gives the bottleneck's own.")
}

// optional is a number times a factor, in a unit, that may not be known.
func optional(v *float64, factor float64, decimals int, unit string) string {
	if v == nil {
		return words.None
	}
	return words.Unit(quantity.Number(*v*factor, decimals), unit)
}

// wrapFields breaks a text between its fields, or in them where one alone is
// too wide.
func wrapFields(text string, width int) []string {
	var lines []string
	current := ""
	for _, field := range strings.Split(text, words.Gap) {
		switch {
		case current != "" && typeset.Columns(current)+len(words.Gap)+typeset.Columns(field) <= width:
			current += words.Gap + field
			continue
		case current != "":
			lines = append(lines, current)
		}
		current = field
		if typeset.Columns(current) > width {
			parts := typeset.Wrap(current, width)
			lines, current = append(lines, parts[:len(parts)-1]...), parts[len(parts)-1]
		}
	}
	return append(lines, current)
}

// trialLines are the details below a test's line.
func trialLines(spec measurement.Spec, t measurement.Trial, o Options, told bool) []string {
	var out []string
	for _, h := range t.Hops {
		where := "*"
		if h.Address != "" {
			where = fmt.Sprintf("%s  %s", h.Address, words.Time(h.RTT))
		}
		out = append(out, fmt.Sprintf("%2d  %s", h.TTL, where))
	}
	for _, step := range t.LossSearch {
		out = append(out, fmt.Sprintf("offered %s   received %s   loss %s", words.Rate(step.OfferedBitsPerSecond), words.Rate(step.ReceivedBitsPerSecond), words.Loss(step.Loss, float64(step.Packets))))
	}
	measured := t.Warmup + spec.Duration
	if spec.Duration == 0 && t.Throughput != nil { // all of a file
		measured = t.Throughput.Width * measurement.Seconds(len(t.Throughput.Bytes))
	}
	atItsEnd := t.Throughput == nil && spec.Tool == measurement.IPerf3 && len(t.Metrics) > 0
	switch {
	case o.BinsOf <= 0 || t.Throughput == nil && !atItsEnd:
	case told && (atItsEnd || !o.Verbose):
		out = append(out, fmt.Sprintf("measured from %.2f to %.2f s", float64(t.Warmup), float64(measured)))
	case atItsEnd:
		out = append(out, "no intervals: an iperf3 server says only at the end what it received")
	default:
		out = append(out, intervals(*t.Throughput, o.BinsOf, t.Warmup, measured)...)
	}
	if !o.Verbose {
		return out
	}
	for _, m := range measurement.MetricsOf(spec.Kind) {
		if v, ok := t.Metrics[m.Name]; ok {
			out = append(out, m.Label+": "+words.Value(v, m.Unit))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Effective)) {
		out = append(out, "effective "+name+": "+t.Effective[name])
	}
	return out
}

// shortEffective names what most decides a figure, of what was effective.
func shortEffective(effective map[string]string) string {
	var parts []string
	for _, name := range []string{"placement", "congestion_control", "send_method", "gso", "gro", "mptcp", "tool"} {
		if v := effective[name]; v != "" {
			parts = append(parts, words.EnvironmentName(name)+": "+v)
		}
	}
	return strings.Join(parts, words.Gap)
}

// intervals joins the receiver's bins into intervals of about so many seconds, as
// iperf3's -i prints them. Those of the measured time, from until to, begin and end with
// it: their mean is the test's figure. The others are marked.
func intervals(b measurement.Bins, of, from, to measurement.Seconds) []string {
	if b.Width <= 0 {
		return nil
	}
	at := func(s measurement.Seconds) int { return min(max(int(s/b.Width+0.5), 0), len(b.Bytes)) }
	each, first, last := max(1, int(of/b.Width+0.5)), at(from), at(to)
	var out []string
	if shown := b.Width * measurement.Seconds(each); math.Abs(float64(shown/of-1)) > 0.01 {
		out = append(out, fmt.Sprintf("intervals of %s, not %s: the receiver counted in steps of %s", words.Time(shown), words.Time(of), words.Time(b.Width)))
	}
	for i := 0; i < len(b.Bytes); {
		end, mark := len(b.Bytes), "   (after the measured time)"
		switch {
		case i < first:
			end, mark = first, "   (warm-up)"
		case i < last:
			end, mark = last, ""
		}
		n := min(each, end-i)
		sum := 0.0
		for _, v := range b.Bytes[i : i+n] {
			sum += v
		}
		out = append(out, interval(max(of, b.Width), (b.Width*measurement.Seconds(i)).Duration(), (b.Width*measurement.Seconds(i+n)).Duration(), sum)+mark)
		i += n
	}
	return out
}

// Part adds a line about the bytes of a part of a test that goes on.
func (s *Summary) Part(from, to time.Duration, bytes float64) {
	s.Below(interval(s.o.BinsOf, from, to, bytes))
}

// interval is a line about the bytes of a part of a test, of those of so many seconds. Its times
// differ where these are short, or it is.
func interval(of measurement.Seconds, from, to time.Duration, bytes float64) string {
	decimals := 2
	if of < 0.01 || to-from < 9*time.Millisecond {
		decimals = 4
	}
	return fmt.Sprintf("%6.*f–%.*f s   %s", decimals, from.Seconds(), decimals, to.Seconds(), words.Rate(bytes*8/(to-from).Seconds()))
}
