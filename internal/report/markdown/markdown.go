// Package markdown writes reports, comparisons and indexes as GitHub-flavoured
// Markdown.
package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// markdownEscaper keeps a text from being read as Markdown or HTML.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`,
)

// Text escapes a text for a paragraph, a list item or a table cell.
func Text(s string) string { return markdownEscaper.Replace(typeset.Line(s)) }

// render renders the report as GitHub-flavoured Markdown (tables as in
// GFM 4.10).
func render(m *report.Model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", Text(m.Title))
	for _, s := range m.Above {
		fmt.Fprintf(&b, "**%s**\n\n", Text(s))
	}
	if len(m.Verdicts) == 0 {
		fmt.Fprintf(&b, "**%s**\n\n", Text(m.Headline))
	}
	verdicts(&b, m.Verdicts)
	fmt.Fprintf(&b, "\n%s\n", Text(m.Status))
	if m.Statement != "" {
		fmt.Fprintf(&b, "\n%s\n", Text(m.Statement))
	}
	table(&b, m)
	details(&b, m)
	published(&b, m)
	if len(m.Shares) > 0 {
		b.WriteString("\n## What limits each path\n\n")
		for _, s := range m.Shares {
			fmt.Fprintf(&b, "- **%s, %s**: %s\n", Text(s.Path), Text(s.Test), Text(s.Sentence))
		}
	}
	hops(&b, m)
	if len(m.Others) > 0 {
		b.WriteString("\n## Further metrics\n\n")
		verdicts(&b, m.Others)
	}
	var excluded []string
	for _, e := range m.Excluded {
		excluded = append(excluded, e.ID+": "+e.Reason)
	}
	list(&b, m.ExcludedName()+" trials", excluded)
	list(&b, "Also seen", m.Seen)
	list(&b, "Where it was measured", m.Where)
	notes := m.Notes
	if m.ModelText != "" {
		notes = append([]string{"Model: " + m.ModelText}, notes...)
	}
	list(&b, "Notes", notes)
	list(&b, "What the published study left open", m.Open)
	return b.String()
}

func list(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, s := range items {
		fmt.Fprintf(b, "- %s\n", Text(s))
	}
}

func verdicts(b *strings.Builder, all []report.Verdict) {
	for _, v := range all {
		fmt.Fprintf(b, "- %s\n", Text(v.Text))
	}
}

// table writes the table in the published shape; the lines of a cell
// are separated by <br>, which GitHub renders inside tables.
func table(b *strings.Builder, m *report.Model) {
	if len(m.Table.Columns) == 0 || len(m.Table.Rows) == 0 {
		return
	}
	b.WriteString("\n## Result\n\n| path |")
	for _, c := range m.Table.Columns {
		fmt.Fprintf(b, " %s<br>%s |", Text(c.Test), Text(c.Metric))
	}
	b.WriteString("\n|:--|")
	b.WriteString(strings.Repeat("--:|", len(m.Table.Columns)))
	for _, r := range m.Table.Rows {
		label := "**" + Text(r.Path) + "**"
		if r.Baseline {
			label += "<br>baseline"
		}
		if r.Off != "" {
			label += "<br>" + Text(r.Off)
		}
		fmt.Fprintf(b, "\n| %s |", label)
		for _, c := range r.Cells {
			fmt.Fprintf(b, " %s |", strings.Join(cell(m, c), "<br>"))
		}
	}
	b.WriteString("\n\nMedian and its 95 % interval; under it the cost against the baseline, with interval and verdict.\n")
}

// details writes what tests say in addition to their primary metric.
func details(b *strings.Builder, m *report.Model) {
	for _, d := range m.Details {
		fmt.Fprintf(b, "\n### %s, further medians\n\n", Text(d.Test))
		medians(b, d.Medians)
	}
}

func medians(b *strings.Builder, m report.Medians) {
	b.WriteString(tableRow(slices.Concat([]string{m.Of}, m.Columns)) + "|:--|" + strings.Repeat("--:|", len(m.Columns)) + "\n")
	for _, r := range m.Rows {
		b.WriteString(tableRow(slices.Concat([]string{r.Name}, r.Values)))
	}
}

// hops writes what the hops counted, and what the ends did.
func hops(b *strings.Builder, m *report.Model) {
	if len(m.Hops) == 0 {
		return
	}
	b.WriteString("\n## What the hops counted\n")
	for _, s := range m.Hops {
		fmt.Fprintf(b, "\n### %s, %s\n\n", Text(s.Path), Text(s.Test))
		for _, sentence := range s.Sentences {
			fmt.Fprintf(b, "- %s\n", Text(sentence))
		}
		b.WriteString("\n")
		medians(b, s.Medians)
		fmt.Fprintf(b, "\nTo compare, %d bytes of headers are taken off every packet that the hop counted.\n", s.Headers)
	}
	if m.MoreHops != "" {
		fmt.Fprintf(b, "\n%s\n", Text(m.MoreHops))
	}
	b.WriteString("\nThe tables are of whole trials at layer 2, medians. A large packet that is cut into segments behind the hop counts as one.\nWhat is lost behind a hop, or sent again, the hop counts and the receivers do not confirm.\n")
}

// cell is a cell as its lines.
func cell(m *report.Model, c report.Cell) []string {
	out := []string{"**" + Text(words.Unit(c.Value, c.Unit)) + "**"}
	add := func(prefix, s string) {
		if s != "" {
			out = append(out, prefix+Text(s))
		}
	}
	add("", c.Interval)
	add("", c.Blocks)
	if c.Cost != "" {
		out = append(out, Text(strings.TrimSpace(c.Cost+" "+c.CostInterval)), "*"+Text(strings.TrimSuffix(c.Verdict+", "+c.Needed, ", "))+"*")
	}
	add("shows from ", c.ShowsFrom)
	add("× "+m.ScaledBy+" = ", c.Scaled)
	for _, p := range c.Published {
		add("published: ", p)
	}
	return out
}

// published writes the published figures and the measured ones.
func published(b *strings.Builder, m *report.Model) {
	if len(m.Published) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", words.PublishedTitle)
	publishedTable(b, m.PublishedTable)
	for _, text := range m.Tally {
		fmt.Fprintf(b, "\n%s\n", Text(text))
	}
	if m.Source != "" {
		fmt.Fprintf(b, "\nSource of the published figures: %s.\n", Text(strings.TrimSuffix(m.Source, ".")))
	}
}

func publishedTable(b *strings.Builder, t report.PublishedTable) {
	b.WriteString(tableHead(t.PublishedColumns()))
	for _, row := range t.Published {
		b.WriteString(tableRow(row.PublishedCells()))
	}
}

// tableHead is the head of a table; columns of numbers are to the right.
func tableHead(columns []string) string {
	below := "|"
	for _, c := range columns {
		switch {
		case c == "published", c == "95 % interval", c == "ratio", strings.HasPrefix(c, "measured"):
			below += "--:|"
		default:
			below += ":--|"
		}
	}
	return tableRow(columns) + below + "\n"
}

func tableRow(cells []string) string {
	row := "|"
	for _, c := range cells {
		row += " " + Text(c) + " |"
	}
	return row + "\n"
}

// Write writes the report as GitHub-flavoured Markdown.
func Write(w io.Writer, r *result.Result) error {
	return typeset.Flush(w, render(report.New(r)), "Markdown report")
}
