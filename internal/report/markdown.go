package report

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/words"
)

// markdownEscaper keeps a text from being read as Markdown or HTML.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`,
)

// markdownText escapes a text for a paragraph, a list item or a table cell.
func markdownText(s string) string { return markdownEscaper.Replace(line(s)) }

// markdown renders the report as GitHub-flavoured Markdown (tables as in
// GFM 4.10).
func markdown(m *model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", markdownText(m.Title))
	if len(m.Verdicts) == 0 {
		fmt.Fprintf(&b, "**%s**\n\n", markdownText(m.Headline))
	}
	for _, v := range m.Verdicts {
		fmt.Fprintf(&b, "- %s\n", markdownText(v.Text))
	}
	fmt.Fprintf(&b, "\n%s\n", markdownText(m.Status))
	if m.Statement != "" {
		fmt.Fprintf(&b, "\n%s\n", markdownText(m.Statement))
	}
	markdownTable(&b, m)
	markdownDetails(&b, m)
	markdownPublished(&b, m)
	if len(m.Shares) > 0 {
		b.WriteString("\n## What limits each path\n\n")
		for _, s := range m.Shares {
			fmt.Fprintf(&b, "- **%s, %s**: %s\n", markdownText(s.Path), markdownText(s.Test), markdownText(s.Sentence))
		}
	}
	markdownHops(&b, m)
	if len(m.Others) > 0 {
		b.WriteString("\n## Further metrics\n\n")
		for _, v := range m.Others {
			fmt.Fprintf(&b, "- %s\n", markdownText(v.Text))
		}
	}
	if len(m.Excluded) > 0 {
		b.WriteString("\n## Excluded trials\n\n")
		for _, e := range m.Excluded {
			fmt.Fprintf(&b, "- %s: %s\n", markdownText(e.ID), markdownText(e.Reason))
		}
	}
	markdownList(&b, "Also seen", m.Seen)
	notes := m.Notes
	if m.ModelText != "" {
		notes = append([]string{"Model: " + m.ModelText}, notes...)
	}
	markdownList(&b, "Notes", notes)
	markdownList(&b, "What the published study left open", m.Open)
	return b.String()
}

func markdownList(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, s := range items {
		fmt.Fprintf(b, "- %s\n", markdownText(s))
	}
}

// markdownTable writes the table in the published shape; the lines of a cell
// are separated by <br>, which GitHub renders inside tables.
func markdownTable(b *strings.Builder, m *model) {
	if len(m.Table.Columns) == 0 || len(m.Table.Rows) == 0 {
		return
	}
	b.WriteString("\n## Result\n\n| path |")
	for _, c := range m.Table.Columns {
		fmt.Fprintf(b, " %s<br>%s |", markdownText(c.Test), markdownText(c.Metric))
	}
	b.WriteString("\n|:--|")
	b.WriteString(strings.Repeat("--:|", len(m.Table.Columns)))
	for _, r := range m.Table.Rows {
		label := "**" + markdownText(r.Path) + "**"
		if r.Baseline {
			label += "<br>baseline"
		}
		if r.Off != "" {
			label += "<br>" + markdownText(r.Off)
		}
		fmt.Fprintf(b, "\n| %s |", label)
		for _, c := range r.Cells {
			fmt.Fprintf(b, " %s |", strings.Join(markdownCell(m, c), "<br>"))
		}
	}
	b.WriteString("\n\nMedian and its 95 % interval; under it the cost against the baseline, with interval and verdict.\n")
}

// markdownDetails writes what tests say beside their primary metric.
func markdownDetails(b *strings.Builder, m *model) {
	for _, d := range m.Details {
		fmt.Fprintf(b, "\n### %s, further medians\n\n| path |", markdownText(d.Test))
		for _, metric := range d.Metrics {
			fmt.Fprintf(b, " %s |", markdownText(metric))
		}
		b.WriteString("\n|:--|" + strings.Repeat("--:|", len(d.Metrics)) + "\n")
		for _, r := range d.Rows {
			fmt.Fprintf(b, "| %s |", markdownText(r.Path))
			for _, v := range r.Values {
				fmt.Fprintf(b, " %s |", markdownText(v))
			}
			b.WriteString("\n")
		}
	}
}

// markdownHops writes what the hops counted beside what the ends did.
func markdownHops(b *strings.Builder, m *model) {
	if len(m.Hops) == 0 {
		return
	}
	b.WriteString("\n## What the hops counted\n")
	for _, s := range m.Hops {
		fmt.Fprintf(b, "\n### %s, %s\n\n", markdownText(s.Path), markdownText(s.Test))
		for _, sentence := range s.Sentences {
			fmt.Fprintf(b, "- %s\n", markdownText(sentence))
		}
		b.WriteString("\n| hop |")
		for _, c := range s.Columns {
			fmt.Fprintf(b, " %s |", markdownText(c))
		}
		b.WriteString("\n|:--|" + strings.Repeat("--:|", len(s.Columns)) + "\n")
		for _, r := range s.Rows {
			fmt.Fprintf(b, "| %s |", markdownText(r.Hop))
			for _, v := range r.Values {
				fmt.Fprintf(b, " %s |", markdownText(v))
			}
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "\nTo compare, %d bytes of headers are taken off every packet that the hop counted.\n", s.Headers)
	}
	b.WriteString("\nThe tables are of whole trials at layer 2, medians. A large packet that is cut into segments behind the hop counts as one.\nWhat is lost behind a hop, or sent again, the hop counts and the receivers do not confirm.\n")
}

// markdownCell is a cell as its lines.
func markdownCell(m *model, c cell) []string {
	out := []string{"**" + markdownText(words.Unit(c.Value, c.Unit)) + "**"}
	add := func(prefix, s string) {
		if s != "" {
			out = append(out, prefix+markdownText(s))
		}
	}
	add("", c.Interval)
	add("", c.Blocks)
	if c.Cost != "" {
		out = append(out, markdownText(strings.TrimSpace(c.Cost+" "+c.CostInterval)), "*"+markdownText(strings.TrimSuffix(c.Verdict+", "+c.Needed, ", "))+"*")
	}
	if s, ok := m.scaled(); ok {
		add("× "+words.Scale(s)+" = ", c.Scaled)
	}
	for _, p := range c.Published {
		add("published: ", p)
	}
	return out
}

// markdownPublished writes the published figures beside the measured ones.
func markdownPublished(b *strings.Builder, m *model) {
	if len(m.Published) == 0 {
		return
	}
	measured := "measured"
	if s, ok := m.scaled(); ok {
		measured += " × " + words.Scale(s)
	}
	columns := publishedColumns(measured)
	fmt.Fprintf(b, "\n## %s\n\n%s", words.PublishedTitle, markdownHead(columns))
	for _, c := range m.Published {
		b.WriteString(markdownRow(c.publishedCells()))
	}
	if m.Source != "" {
		fmt.Fprintf(b, "\nSource of the published figures: %s.\n", markdownText(strings.TrimSuffix(m.Source, ".")))
	}
}

// markdownHead is the head of a table; columns of numbers are to the right.
func markdownHead(columns []string) string {
	below := "|"
	for _, c := range columns {
		switch {
		case c == "published", c == "95 % interval", c == "ratio", strings.HasPrefix(c, "measured"):
			below += "--:|"
		default:
			below += ":--|"
		}
	}
	return markdownRow(columns) + below + "\n"
}

func markdownRow(cells []string) string {
	row := "|"
	for _, c := range cells {
		row += " " + markdownText(c) + " |"
	}
	return row + "\n"
}
