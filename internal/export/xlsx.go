package export

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

const (
	aggregateSheet = "aggregate"
	trialsSheet    = "trials"
	// chartRows are above the columns of the aggregate sheet, where its charts are, each as
	// wide as chartColumns of columnWidth letters.
	chartRows    = 30
	chartColumns = 5
	columnWidth  = 24
	// mostLines bounds the lines of a chart; more cannot be told apart.
	mostLines = 12
)

// XLSX writes a spreadsheet: all clients together over time with a chart for each test,
// the metrics of each trial, the tables of the result, and a sheet for each client. What
// is not known is empty. A run that counted nothing over time has no sheets of that.
func XLSX(w io.Writer, run Run) (err error) {
	if len(run.Result.Trials) == 0 {
		return errNoTrials
	}
	if err := fits(len(run.Result.Trials), len(clientHeader), "read result.json, or write fewer trials with --trial"); err != nil {
		return fmt.Errorf("write the sheet of trials: %w", err)
	}
	sheets, err := run.sheets()
	if err != nil && !errors.Is(err, errNothing) {
		return err
	}
	f := excelize.NewFile()
	defer func() { err = errors.Join(err, f.Close()) }()
	first := aggregateSheet
	if len(sheets) == 0 {
		first = trialsSheet
	}
	if err := f.SetSheetName("Sheet1", first); err != nil {
		return fmt.Errorf("write the spreadsheet: %w", err)
	}
	bold, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true}})
	if err != nil {
		return fmt.Errorf("write the spreadsheet: %w", err)
	}
	b := book{File: f, bold: bold}
	if len(sheets) > 0 {
		lines, err := run.lines(sheets)
		if err == nil {
			err = b.aggregate(lines)
		}
		if err != nil {
			return fmt.Errorf("write the sheet of all clients: %w", err)
		}
	}
	if err := b.sheet(run.trials()); err != nil {
		return fmt.Errorf("write the sheet of trials: %w", err)
	}
	clean := report.OnlyFinite(run.Result)
	if err := b.shapes(shapes(clean)); err != nil {
		return fmt.Errorf("write the sheet of medians: %w", err)
	}
	for _, t := range tables(clean) {
		if err := b.sheet(t); err != nil {
			return fmt.Errorf("write the sheet of %s: %w", t.name, err)
		}
	}
	names := sheetNames(sheets)
	for i, s := range sheets {
		if err := b.client(names[i], s); err != nil {
			return fmt.Errorf("write the sheet of client %s: %w", s.client, err)
		}
		s.steps = nil // it is in the file
	}
	if err := f.Write(w); err != nil {
		return fmt.Errorf("write the spreadsheet: %w; is the disk full?", err)
	}
	return nil
}

// sheetNames are names that a spreadsheet takes for its sheets: at most 31 characters,
// without []:*?/\ or an apostrophe at an end, and different, whatever the case.
func sheetNames(sheets []*sheet) []string {
	taken := map[string]bool{"history": true} // Excel's own
	for _, name := range []string{aggregateSheet, trialsSheet, mediansSheet, pathsSheet, hopsSheet, levelsSheet, effectsSheet, publishedSheet} {
		taken[name] = true
	}
	out := make([]string, len(sheets))
	for i, s := range sheets {
		clean := strings.Trim(strings.Map(func(r rune) rune {
			if strings.ContainsRune(`[]:*?/\'`, r) {
				return '_'
			}
			return r
		}, s.client), " ")
		if clean == "" {
			clean = "client"
		}
		name := shorten(clean, 31)
		for n := 2; taken[strings.ToLower(name)]; n++ {
			suffix := fmt.Sprintf(" (%d)", n)
			name = shorten(clean, 31-len(suffix)) + suffix
		}
		taken[strings.ToLower(name)] = true
		out[i] = name
	}
	return out
}

// shorten cuts a text to so many of UTF-16's units, in which spreadsheets count.
func shorten(s string, most int) string {
	n := 0
	for i, r := range s {
		if n++; r > 0xffff {
			n++
		}
		if n > most {
			return s[:i]
		}
	}
	return s
}

// book is a spreadsheet that is being written.
type book struct {
	*excelize.File
	bold int
}

// stream writes the rows of a sheet, the first of them bold.
type stream struct {
	*excelize.StreamWriter
	row  int
	bold int
}

// stream begins a sheet below so many rows. It prints across the page, as wide as a page.
func (b book) stream(sheet string, after int) (*stream, error) {
	if _, err := b.NewSheet(sheet); err != nil { // the first one is there already, and stays
		return nil, err
	}
	fit, landscape, pages, any := true, "landscape", 1, 0
	if err := errors.Join(
		b.SetSheetProps(sheet, &excelize.SheetPropsOptions{FitToPage: &fit}),
		b.SetPageLayout(sheet, &excelize.PageLayoutOptions{Orientation: &landscape, FitToWidth: &pages, FitToHeight: &any}),
	); err != nil {
		return nil, err
	}
	w, err := b.NewStreamWriter(sheet)
	return &stream{StreamWriter: w, row: after, bold: b.bold}, err
}

func (s *stream) put(values []any, options ...excelize.RowOpts) error {
	s.row++
	cell, err := excelize.CoordinatesToCellName(1, s.row)
	if err != nil {
		return err
	}
	return s.SetRow(cell, values, options...)
}

func (s *stream) heading(values []any) error {
	return s.put(values, excelize.RowOpts{StyleID: s.bold})
}

// fixed writes a heading that stays above the rows as one scrolls, over columns as wide as
// it and the first rows are.
func (s *stream) fixed(header []any, rows [][]any) error {
	for i := range header {
		widest := 16
		for _, row := range append([][]any{header}, rows[:min(len(rows), 200)]...) {
			if text, ok := row[i].(string); ok {
				widest = max(widest, utf8.RuneCountInString(text)+2)
			}
		}
		if err := s.SetColWidth(i+1, i+1, float64(min(widest, 60))); err != nil {
			return err
		}
	}
	return errors.Join(s.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}), s.heading(header))
}

// trials are the metrics of each trial.
func (run Run) trials() table {
	trials := report.OnlyFinite(run.Result).Trials
	have := measurement.Metrics{}
	for _, t := range trials {
		maps.Copy(have, t.Metrics)
	}
	metrics := report.MetricNames(have)
	out := table{name: trialsSheet, header: []any{"trial", "block", "order", "path", "test", "start", "passed", "reasons"}}
	for _, name := range metrics {
		out.header = append(out.header, typeset.Line(name))
	}
	for _, t := range trials {
		row := []any{text(t.ID), t.Block, t.Order, text(t.Path), text(t.Test), nil, t.Gate.Passed, text(words.Findings(t.Gate, false))}
		if !t.Start.IsZero() {
			row[5] = t.Start.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		}
		for _, name := range metrics {
			if v, ok := t.Metrics[name]; ok {
				row = append(row, v)
			} else {
				row = append(row, nil)
			}
		}
		out.rows = append(out.rows, row)
	}
	return out
}
