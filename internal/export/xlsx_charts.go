package export

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/xuri/excelize/v2"
)

// charts draws a chart for each test: throughput over time, a line for each of its first
// trials that count, or for each at all where none does; and dashed what the hops of the
// first of them on each path carried.
func (b book) charts(lines []*line) error {
	var tests []string
	for _, l := range lines {
		if !slices.Contains(tests, l.test) {
			tests = append(tests, l.test)
		}
	}
	// All columns do not fit a page, the charts do.
	corner, err := excelize.CoordinatesToCellName(min(len(tests)*chartColumns, excelize.MaxColumns), chartRows, true)
	if err != nil {
		return err
	}
	if err := b.SetDefinedName(&excelize.DefinedName{Name: "_xlnm.Print_Area", RefersTo: aggregateSheet + "!$A$1:" + corner, Scope: aggregateSheet}); err != nil {
		return err
	}
	for i, test := range tests {
		series := chartLines(lines, test, true)
		if len(series) == 0 {
			series = chartLines(lines, test, false)
		}
		cell, err := excelize.CoordinatesToCellName(1+i*chartColumns, 1)
		if err != nil {
			return err
		}
		chart := drawing(excelize.Scatter, test+": all clients together", "bit/s")
		chart.Series = series
		chart.XAxis.Title, chart.XAxis.NumFmt = chartTitle("seconds", 10), excelize.ChartNumFmt{CustomNumFmt: "General"}
		if err := b.AddChart(aggregateSheet, cell, chart); err != nil {
			return err
		}
		b.numbersAt(fmt.Sprintf("xl/charts/chart%d.xml", i+1))
	}
	return nil
}

// drawing is a chart without its series, which fits chartRows and chartColumns, also where
// a program makes the rows a fifth lower than Excel's 20 pixels, as LibreOffice does. unit is that of the metrics: bits per second are written as Mbit/s or Gbit/s are.
func drawing(kind excelize.ChartType, title, unit string) *excelize.Chart {
	axis := excelize.ChartAxis{Font: excelize.Font{Color: ink, Size: 9}}
	chart := &excelize.Chart{
		Type: kind, Title: chartTitle(title, 14), Legend: excelize.ChartLegend{Position: "bottom"}, XAxis: axis, YAxis: axis,
		Dimension: excelize.ChartDimension{Width: 820, Height: 16*chartRows + 10},
	}
	chart.YAxis.MajorGridLines = true
	chart.YAxis.Title = chartTitle(unit, 10)
	chart.YAxis.NumFmt = excelize.ChartNumFmt{CustomNumFmt: "General"}
	if unit == "bit/s" {
		chart.YAxis.NumFmt.CustomNumFmt = `[>=1000000000]0.0#,,," G";[>=1000000]0.0#,," M";General`
	}
	return chart
}

func chartTitle(text string, size float64) excelize.ChartTitle {
	return excelize.ChartTitle{Paragraph: []excelize.RichTextRun{{Text: text, Font: &excelize.Font{Color: ink, Size: size}}}}
}

// ink is the colour of a chart's words, colours are those of its lines and bars: the light
// half of the report's palette.
const ink = "1A1F25"

func colour(hue int) excelize.Fill {
	colours := [...]string{"4C5763", "0062A3", "B24700", "00704E", "96346F", "7D5A00", "00707F"}
	return excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{colours[hue%len(colours)]}}
}

// numbersAt makes the horizontal axis of a scatter chart one of numbers, which excelize
// refers to as texts (ECMA-376 part 1, xVal).
func (b book) numbersAt(chart string) {
	part, _ := b.Pkg.Load(chart)
	text, ok := part.([]byte)
	if !ok {
		return
	}
	b.Pkg.Store(chart, textualX.ReplaceAll(text, []byte("<xVal><numRef>$1</numRef></xVal>")))
}

var textualX = regexp.MustCompile(`<xVal><strRef>(.*?)</strRef></xVal>`)

// chartLines are the lines of a test's chart, of the trials that count or of the others.
func chartLines(lines []*line, test string, counts bool) (out []excelize.ChartSeries) {
	var hops []excelize.ChartSeries
	seen := map[string]bool{}
	column := 1
	for _, l := range lines {
		if l.test == test && l.passed == counts {
			if len(out) < mostLines {
				out = append(out, chartSeries(column, column, column+1, len(l.at), l.colour))
			}
			for k := range l.hops {
				if !seen[l.path] {
					series := chartSeries(column+2+k, column, column+2+k, len(l.at), l.colour)
					series.Line.Dash = excelize.LineDashDash
					hops = append(hops, series)
				}
			}
			seen[l.path] = true
		}
		column += 2 + len(l.hops)
	}
	return append(out, hops[:min(len(hops), mostLines)]...)
}

// chartSeries is a line of a chart, named by the heading of one column of the aggregate
// sheet, with so many rows of two, in the colour of its path.
func chartSeries(name, x, y, rows, hue int) excelize.ChartSeries {
	at := func(column, row int) string {
		cell, err := excelize.CoordinatesToCellName(column, row, true)
		if err != nil {
			panic(err) // aggregate has counted the columns
		}
		return cell
	}
	const heading = chartRows + 1
	column := func(n int) string {
		return fmt.Sprintf("%s!%s:%s", aggregateSheet, at(n, heading+2), at(n, heading+1+rows))
	}
	return excelize.ChartSeries{
		Name: aggregateSheet + "!" + at(name, heading), Categories: column(x), Values: column(y), Fill: colour(hue),
		Line: excelize.LineOptions{Type: excelize.LineSolid, Width: 1.25}, Marker: excelize.ChartMarker{Symbol: "none"},
	}
}

// shapeChart draws the table whose heading is in row top, at a column of that row.
func (b book) shapeChart(s shape, column, top int) error {
	corner, err := excelize.CoordinatesToCellName(column, top)
	if err != nil {
		return err
	}
	chart := drawing(excelize.Col, s.metric+": median of each path", s.unit)
	for i := range min(len(s.header)-1, mostLines) {
		var cells [5]string
		for k, at := range [5][2]int{{2 + i, top}, {1, top + 1}, {1, top + len(s.rows)}, {2 + i, top + 1}, {2 + i, top + len(s.rows)}} {
			if cells[k], err = excelize.CoordinatesToCellName(at[0], at[1], true); err != nil {
				return err
			}
		}
		chart.Series = append(chart.Series, excelize.ChartSeries{
			Name: mediansSheet + "!" + cells[0], Categories: mediansSheet + "!" + cells[1] + ":" + cells[2], Values: mediansSheet + "!" + cells[3] + ":" + cells[4], Fill: colour(i + 1),
		})
	}
	return b.AddChart(mediansSheet, corner, chart)
}
