// Package terminal writes reports, comparisons and indexes as lines of text.
package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Options of a terminal report.
type Options struct {
	// Width is the number of columns to fit; 0 means 100. Below 40 the lines
	// of the table may be longer than Width.
	Width int
	// Colour allows ANSI colours. The caller knows whether it writes to a
	// terminal and what NO_COLOR says; this package does not look.
	Colour bool
	// Verbose writes all that the report tells; without it, what one screen has room
	// for, and what else there is.
	Verbose bool
	// Unkept is a run of hopbench test without a folder, and so without a report.
	Unkept bool
}

// Write writes the report for a terminal.
func Write(w io.Writer, r *result.Result, o Options) error {
	t, m := newTerminal(o), report.New(r)
	t.top(m)
	if o.Verbose {
		t.write(m)
	} else {
		t.brief(m)
	}
	return typeset.Flush(w, t.b.String(), "terminal report")
}

// ANSI styles (ECMA-48 SGR), kept to the eight basic colours so that they
// follow the reader's own palette.
const (
	styleBold   = "1"
	styleDim    = "2"
	styleRed    = "31"
	styleGreen  = "32"
	styleYellow = "33"
)

// terminal renders a model as lines of text.
type terminal struct {
	b      strings.Builder
	width  int
	colour bool
	// verbose is all that the report tells.
	verbose bool
	// unkept has no report.
	unkept bool
}

func newTerminal(o Options) *terminal {
	if o.Width <= 0 {
		o.Width = 100
	}
	return &terminal{width: max(o.Width, 24), colour: o.Colour, verbose: o.Verbose, unkept: o.Unkept}
}

// style wraps s in an SGR sequence when colour is allowed.
func (t *terminal) style(code, s string) string {
	if !t.colour || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// paragraph writes text with a mark before the first line and the further
// lines indented below it.
func (t *terminal) paragraph(mark, code, text string) {
	if text == "" {
		return
	}
	indent := strings.Repeat(" ", typeset.Columns(mark))
	for i, l := range typeset.Wrap(text, t.width-typeset.Columns(mark)) {
		if i == 0 {
			fmt.Fprintln(&t.b, t.style(code, mark)+l)
		} else {
			fmt.Fprintln(&t.b, indent+l)
		}
	}
}

func (t *terminal) heading(s string) {
	fmt.Fprintf(&t.b, "\n%s\n", t.style(styleBold, s))
}

// top is what both begin with.
func (t *terminal) top(m *report.Model) {
	for _, l := range typeset.Wrap(m.Title, t.width) {
		fmt.Fprintln(&t.b, t.style(styleBold, l))
	}
	for _, l := range typeset.Wrap(m.Status, t.width) {
		fmt.Fprintln(&t.b, t.style(styleDim, l))
	}
	fmt.Fprintln(&t.b)
	for _, s := range m.Above {
		t.paragraph("! ", styleYellow, s)
	}
	if len(m.Verdicts) == 0 {
		t.paragraph("", "", m.Headline)
	}
}

// brief renders what one screen has room for.
func (t *terminal) brief(m *report.Model) {
	b := m.Brief()
	if t.unkept {
		b.More += "; so does the report that --out keeps."
	} else {
		b.More += "; the report does, too."
	}
	t.verdicts(b.Verdicts)
	t.table(m)
	rest := t.listed(b.Counts) + min(len(b.Remarks), 1) + 1 + t.lines(b.More)
	t.list("What limits each path", t.limits(b, t.screen()-t.used()-rest))
	t.list("Also", append(b.Counts, t.remarks(b)...))
	fmt.Fprintln(&t.b)
	t.paragraph("", styleDim, b.More)
}

const (
	// screenLines is how many lines of screenColumns a report may take.
	screenLines, screenColumns = 60, 100
	// maxRemarks is how many kinds of remark are worth reading.
	maxRemarks = 5
)

// screen is how many lines it may take: more where they are narrow.
func (t *terminal) screen() int { return screenLines * max(screenColumns, t.width) / t.width }

// used is how many lines there are.
func (t *terminal) used() int { return strings.Count(t.b.String(), "\n") }

// lines is how many a text takes, and listed how many a list takes with its heading.
func (t *terminal) lines(text string) int { return len(typeset.Wrap(text, t.width)) }

func (t *terminal) listed(texts []string) int {
	n := 2
	for _, text := range texts {
		n += t.entry(text)
	}
	return n
}

// entry is how many lines a text of a list takes.
func (t *terminal) entry(text string) int { return len(typeset.Wrap(text, t.width-2)) }

// limits are what limits each path, with what explains it if there is room for so many lines.
func (t *terminal) limits(b report.Brief, room int) []string {
	if t.listed(b.Limits) <= room {
		return b.Limits
	}
	return b.ShortLimits
}

// remarks are as many as the screen has room for, and how many there are besides.
func (t *terminal) remarks(b report.Brief) []string {
	room := t.screen() - t.used() - t.listed(b.Counts) - 1 - t.lines(b.More)
	var shown []string
	for i, r := range b.Remarks {
		rest := 0
		if i < len(b.Remarks)-1 {
			rest = 1 // the line that counts them
		}
		if room -= t.entry(r); len(shown) == maxRemarks || room < rest {
			return append(shown, fmt.Sprintf("and %s of another kind", quantity.Count(len(b.Remarks)-i, "remark")))
		}
		shown = append(shown, r)
	}
	return shown
}

// write renders the whole report.
func (t *terminal) write(m *report.Model) {
	t.verdicts(m.Verdicts)
	t.table(m)
	t.details(m)
	t.list("What limits each path", limits(m))
	t.published(m)
	if len(m.Others) > 0 {
		t.heading("Further metrics")
		t.verdicts(m.Others)
	}
	if len(m.Excluded) > 0 {
		t.heading(m.ExcludedName() + " trials")
		for _, e := range m.Excluded {
			t.paragraph("× ", styleYellow, e.ID+": "+e.Reason)
		}
	}
	t.list("Also seen", m.Seen)
	t.list("Where it was measured", m.Where)
	t.list("Notes", notes(m))
	t.list("What the published study left open", m.Open)
}

// verdicts writes a sentence each, marked.
func (t *terminal) verdicts(all []report.Verdict) {
	for _, v := range all {
		t.paragraph(verdictMark(v.Kind)+" ", verdictStyle(v.Kind), v.Text)
	}
}

// list writes lines under a heading, nothing without any.
func (t *terminal) list(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.heading(heading)
	for _, l := range lines {
		t.paragraph("- ", "", l)
	}
}

// details writes what tests say in addition to their primary metric, as tables split
// like the first one.
func (t *terminal) details(m *report.Model) {
	for _, d := range m.Details {
		lines := []tableLine{{label: d.Test, style: styleBold, cells: d.Columns}}
		for _, r := range d.Rows {
			lines = append(lines, tableLine{label: r.Name, cells: r.Values})
		}
		t.tables(lines, len(d.Columns))
	}
}

// notes are what a reader must know in addition to the figures.
func notes(m *report.Model) []string {
	var out []string
	if m.Statement != "" {
		out = append(out, m.Statement)
	}
	if m.ModelText != "" {
		out = append(out, "Model: "+m.ModelText)
	}
	return append(out, m.Notes...)
}

// verdictMark is a sign for a verdict that does not rely on colour.
func verdictMark(k result.Verdict) string {
	switch k {
	case result.Costs:
		return "▼"
	case result.Breaks:
		return "✗"
	case result.Gains:
		return "▲"
	case result.NoCost:
		return "="
	}
	return "?"
}

func verdictStyle(k result.Verdict) string {
	switch k {
	case result.Costs, result.Breaks:
		return styleRed
	case result.Gains, result.NoCost:
		return styleGreen
	}
	return styleYellow
}

// limits are the sentences on what limits each test on each path.
func limits(m *report.Model) []string {
	var out []string
	for _, s := range m.Shares {
		out = append(out, s.Path+", "+s.Test+": "+s.Sentence)
	}
	return out
}

// tableLine is a line of the table: a label and one text per column.
type tableLine struct {
	label string
	style string
	cells []string
	// styles of the cells, nil for none
	styles []string
}

// table writes the table, split by columns where it is wider than the
// terminal.
func (t *terminal) table(m *report.Model) {
	if len(m.Table.Columns) == 0 || len(m.Table.Rows) == 0 {
		return
	}
	t.tables(t.tableLines(m), len(m.Table.Columns))
}

// tables writes lines of so many columns as one table, or as several where it
// is wider than the terminal.
func (t *terminal) tables(lines []tableLine, end int) {
	for from := 0; from < end; {
		to := t.fits(lines, from, end)
		fmt.Fprintln(&t.b)
		t.tablePart(lines, from, to)
		from = to
	}
}

const gap = 2 // columns between columns

// labelWidth is the width of the first column, bounded so that a long path
// name leaves room for figures.
func (t *terminal) labelWidth(lines []tableLine) int {
	w := 0
	for _, l := range lines {
		w = max(w, typeset.Columns(l.label))
	}
	return min(w, max(t.width/3, 12))
}

// columnWidth is the width of a column, bounded likewise.
func (t *terminal) columnWidth(lines []tableLine, i int) int {
	w := 0
	for _, l := range lines {
		if i < len(l.cells) {
			w = max(w, typeset.Columns(l.cells[i]))
		}
	}
	return min(w, max(t.width-t.labelWidth(lines)-gap, 10))
}

// fits returns the end of the columns from `from` that fit one table. When
// all do not fit in one, they are spread evenly over the tables needed.
func (t *terminal) fits(lines []tableLine, from, end int) int {
	room := func(from int) int {
		used, to := t.labelWidth(lines), from
		for to < end {
			if used += gap + t.columnWidth(lines, to); used > t.width && to > from {
				break
			}
			to++
		}
		return to
	}
	to := room(from)
	if to == end {
		return end
	}
	parts, at := 0, from
	for at < end {
		at = room(at)
		parts++
	}
	return min(to, from+(end-from+parts-1)/parts)
}

// tablePart writes the columns [from, to).
func (t *terminal) tablePart(lines []tableLine, from, to int) {
	label := t.labelWidth(lines)
	total := label
	for i := from; i < to; i++ {
		total += gap + t.columnWidth(lines, i)
	}
	for _, l := range lines {
		if l.label == rule {
			fmt.Fprintln(&t.b, t.style(styleDim, strings.Repeat("─", min(total, t.width))))
			continue
		}
		text := t.style(l.style, typeset.Pad(typeset.Shorten(l.label, label), label))
		empty := true
		for i := from; i < to; i++ {
			c, w := "", t.columnWidth(lines, i)
			if i < len(l.cells) {
				c = l.cells[i]
			}
			empty = empty && c == ""
			style := l.style
			if l.styles != nil {
				style = l.styles[i]
			}
			padded := typeset.Pad(typeset.Shorten(c, w), w)
			text += strings.Repeat(" ", gap) + t.style(style, padded)
		}
		if !empty {
			fmt.Fprintln(&t.b, strings.TrimRight(text, " "))
		}
	}
}

// rule as a label stands for a horizontal line.
const rule = "\x00rule"

// tableLines lays the table out as lines, one fact per line.
func (t *terminal) tableLines(m *report.Model) []tableLine {
	head := tableLine{style: styleBold}
	metric := tableLine{label: "median", style: styleDim}
	for _, c := range m.Table.Columns {
		head.cells = append(head.cells, c.Test)
		metric.cells = append(metric.cells, c.Metric)
	}
	lines := []tableLine{head, metric}
	for i, r := range m.Table.Rows {
		if t.verbose || i == 0 {
			lines = append(lines, tableLine{label: rule})
		}
		lines = append(lines, t.rowLines(m, r)...)
	}
	return append(lines, tableLine{label: rule})
}

// rowLines is one path: its value, and under it whatever is known of it. One screen has
// room for what the baseline's is and what the others cost.
func (t *terminal) rowLines(m *report.Model, r report.Row) []tableLine {
	label := r.Path
	if r.Baseline {
		label += " (baseline)"
	}
	lines := []tableLine{{label: label, style: styleBold, cells: cellsOf(r, func(c report.Cell) string { return words.Unit(c.Value, c.Unit) })}}
	add := func(label, style string, f func(report.Cell) string) {
		cells := cellsOf(r, f)
		if strings.Join(cells, "") != "" {
			lines = append(lines, tableLine{label: "  " + label, style: style, cells: cells})
		}
	}
	if t.verbose || r.Baseline {
		add("95 % interval", "", func(c report.Cell) string { return c.Interval })
	}
	add("trials", styleYellow, func(c report.Cell) string { return c.Blocks })
	add("cost", styleBold, func(c report.Cell) string { return c.Cost })
	add("95 % interval", "", func(c report.Cell) string { return c.CostInterval })
	before := len(lines)
	add("verdict", "", func(c report.Cell) string { return c.Verdict })
	if len(lines) > before {
		for _, c := range r.Cells {
			lines[before].styles = append(lines[before].styles, verdictStyleOf(c))
		}
	}
	if !t.verbose {
		return lines
	}
	add("", styleYellow, func(c report.Cell) string { return c.Needed })
	add("shows from", styleDim, func(c report.Cell) string { return c.ShowsFrom })
	add("× "+m.ScaledBy, "", func(c report.Cell) string { return c.Scaled })
	for i := range maxPublished(r) {
		label := "published"
		if i > 0 {
			label = ""
		}
		add(label, styleDim, func(c report.Cell) string {
			if i < len(c.Published) {
				return c.Published[i]
			}
			return ""
		})
	}
	return lines
}

func verdictStyleOf(c report.Cell) string {
	if c.Verdict == "" {
		return ""
	}
	return verdictStyle(c.VerdictKind)
}

func maxPublished(r report.Row) int {
	n := 0
	for _, c := range r.Cells {
		n = max(n, len(c.Published))
	}
	return n
}

func cellsOf(r report.Row, f func(report.Cell) string) []string {
	out := make([]string, len(r.Cells))
	for i, c := range r.Cells {
		out[i] = f(c)
	}
	return out
}

// published writes the published figures and the measured ones, as a list
// where the terminal is too narrow for a table.
func (t *terminal) published(m *report.Model) {
	if len(m.Published) == 0 {
		return
	}
	title := words.PublishedTitle
	if m.ScaledBy != "" {
		title += " × " + m.ScaledBy
	}
	t.heading(title)
	t.publishedGrid(m.Published)
	for _, text := range m.Tally {
		t.paragraph("", "", text)
	}
	if m.Source != "" {
		t.paragraph("", "", "Source of the published figures: "+m.Source+".")
	}
}

// publishedGrid writes comparisons, each with its kind, reason and note on a line
// of their own below its row: a terminal has no room for these columns.
func (t *terminal) publishedGrid(all []report.FigureRow) {
	columns := report.PublishedTable{}.PublishedColumns()
	shown := len(columns) - 3
	rows, below := [][]string{columns[:shown]}, []string{""}
	for _, c := range all {
		rows = append(rows, c.PublishedCells()[:shown])
		below = append(below, strings.Trim(typeset.UpperFirst(c.Kind)+". "+strings.Trim(c.Reason+". "+c.Note, ". "), ". "))
	}
	t.grid(rows, below, func(r []string) string {
		text := fmt.Sprintf("%s %s, %s, %s: published %s, measured %s", r[0], r[1], r[2], r[3], r[4], r[5])
		for _, more := range []string{r[6], r[7]} {
			if more != "" {
				text += " " + more
			}
		}
		return text + ", " + r[8]
	})
}

// grid writes rows in columns as wide as needed; when that is wider than the
// terminal it writes each row as a paragraph instead. Columns of which only the
// head says anything are left out. What below says of a row, if it is not nil,
// comes indented after it.
func (t *terminal) grid(rows [][]string, below []string, paragraph func([]string) string) {
	widths := make([]int, len(rows[0]))
	total := -gap
	for i := range widths {
		for n, r := range rows {
			if n > 0 && r[i] != "" {
				widths[i] = max(widths[i], typeset.Columns(r[i]), typeset.Columns(rows[0][i]))
			}
		}
		if widths[i] > 0 {
			total += widths[i] + gap
		}
	}
	for n, r := range rows {
		if total > t.width {
			if n > 0 {
				text := paragraph(r)
				if below != nil && below[n] != "" {
					text += ". " + below[n]
				}
				t.paragraph("- ", "", text)
			}
			continue
		}
		text := ""
		for i, c := range r {
			if widths[i] > 0 {
				text += typeset.Pad(c, widths[i]+gap)
			}
		}
		style := ""
		if n == 0 {
			style = styleDim
		}
		fmt.Fprintln(&t.b, t.style(style, strings.TrimRight(text, " ")))
		if below != nil {
			t.paragraph("    ", "", below[n])
		}
	}
}
