package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// publishedData are the published figures that are bundled.
func publishedData() (*result.PublishedData, error) {
	data, err := experiment.LoadPublished(experiments.PublishedFile, experiments.Published())
	if err != nil {
		return nil, fmt.Errorf("read the bundled published figures: %w", err)
	}
	return data, nil
}

func publishedCommand(s base.Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "published [ROW|STUDY]",
		Short: "List the published figures that the experiments are compared with",
		Example: `  hopbench experiments published
  hopbench experiments published E5.2
  hopbench experiments published routing-appliance --json`,
		Args:              base.AtMost("ROW|STUDY"),
		ValidArgsFunction: base.First(completeRows),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := publishedData()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if data, err = selectPublished(data, args[0]); err != nil {
					return base.Usage(err)
				}
			}
			if asJSON {
				return base.WriteJSON(s.Out, data)
			}
			return printPublished(s.Out, data)
		},
	}
	c.Flags().BoolVarP(&asJSON, "json", "J", false, "print one JSON document")
	return c
}

// selectPublished keeps one study, or one row. A row that begins as asked, up
// to a point, counts: E5 is E5.1 to E5.3.
func selectPublished(data *result.PublishedData, what string) (*result.PublishedData, error) {
	out := &result.PublishedData{Format: data.Format}
	var rows []string
	for _, study := range data.Studies {
		whole := study.Name == what
		kept := study
		kept.Settings = nil
		for _, setting := range study.Settings {
			rows = append(rows, setting.ID)
			if whole || strings.EqualFold(setting.ID, what) || strings.HasPrefix(strings.ToUpper(setting.ID), strings.ToUpper(what)+".") {
				kept.Settings = append(kept.Settings, setting)
			}
		}
		if len(kept.Settings) > 0 {
			out.Studies = append(out.Studies, kept)
		}
	}
	if len(out.Studies) == 0 {
		return nil, fmt.Errorf("there is no published row or study %q; rows are %s", what, strings.Join(slices.Compact(rows), ", "))
	}
	return out, nil
}

// printPublished lists the figures, a study after the other.
func printPublished(w io.Writer, data *result.PublishedData) error {
	for i, study := range data.Studies {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: %s\n", study.Name, study.Title)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ROW\tPATH\tHOW\tMETRIC\tPRINTED\tOF\tNOTE")
		for _, setting := range study.Settings {
			printSetting(table, setting)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func printSetting(w io.Writer, s result.PublishedSetting) {
	how := []string{s.Tool}
	if s.Flows > 0 {
		how = append(how, quantity.Count(s.Flows, "flow"))
	}
	if s.Duration > 0 {
		how = append(how, words.Time(s.Duration))
	}
	how = append(how, s.Encapsulation, s.Machine)
	how = slices.DeleteFunc(how, func(part string) bool { return part == "" })
	row := func(metric, printed, of, note string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Path, strings.Join(how, ", "), metric, printed, of, note)
	}
	if len(s.Figures) == 0 {
		row("", "", "", s.Says)
	}
	var readings []result.PublishedNumber
	for _, f := range s.Figures {
		if f.Second > 0 {
			readings = append(readings, f)
			continue
		}
		row(f.Label, f.Printed, ofText(f), f.Note)
	}
	if len(readings) > 0 {
		values, noSamples := s.Readings(readings[0].Metric), ""
		if note, ok := analysis.ReadingsNote(values); ok {
			noSamples = words.Names{}.Note(note)
		}
		row(readings[0].Label, quantity.Format(slices.Min(values), readings[0].Unit)+" to "+quantity.Format(slices.Max(values), readings[0].Unit),
			fmt.Sprintf("%d readings", len(values)), noSamples)
	}
}

// ofText says which end and run a number is of.
func ofText(f result.PublishedNumber) string {
	var parts []string
	if f.End != "" {
		parts = append(parts, f.End)
	}
	if f.Run > 0 {
		parts = append(parts, fmt.Sprintf("run %d", f.Run))
	}
	return strings.Join(parts, ", ")
}

// chooseFigures are the figures to compare a run with: its experiment's own,
// or those of the rows that are chosen.
func chooseFigures(r *result.Result, data *result.PublishedData, chosen []string) ([]result.Figure, error) {
	if len(chosen) == 0 {
		if len(r.Experiment.Published) == 0 {
			return nil, fmt.Errorf("its experiment %q has no published figures; choose rows with --published ROW=PATH/TEST, or name a second run", r.Experiment.Name)
		}
		return r.Experiment.Published, nil
	}
	var out []result.Figure
	for _, choice := range chosen {
		row, place, mapped := strings.Cut(choice, "=")
		figures, err := ownFigures(r, row)
		if mapped {
			figures, err = mappedFigures(r, data, row, place)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, figures...)
	}
	return out, nil
}

// ownFigures are those of the experiment that are of a row.
func ownFigures(r *result.Result, row string) ([]result.Figure, error) {
	var out []result.Figure
	var rows []string
	for _, f := range r.Experiment.Published {
		rows = append(rows, f.ID)
		if strings.EqualFold(f.ID, row) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		rows = slices.Compact(slices.Sorted(slices.Values(rows)))
		return nil, fmt.Errorf("row %s is not among the published figures of %s (%s); say what it is to be compared with, as in %s=PATH/TEST",
			row, r.Experiment.Name, cmp.Or(strings.Join(rows, ", "), "it has none"), row)
	}
	return out, nil
}

// mappedFigures makes the numbers of a row figures of a path and a test of the
// run: those whose metric the test brings back, the receiver's count where
// there are both. They are open: nobody derived the run's paths from them.
func mappedFigures(r *result.Result, data *result.PublishedData, row, place string) ([]result.Figure, error) {
	path, name, _ := strings.Cut(place, "/")
	i := slices.IndexFunc(r.Tests, func(t result.TestInfo) bool { return t.Name == name })
	if i < 0 || !slices.ContainsFunc(r.Paths, func(p result.PathInfo) bool { return p.Name == path }) {
		return nil, fmt.Errorf("%q names no path and test of the run; its paths are %s, its tests %s", place,
			namesOf(r.Paths, func(p result.PathInfo) string { return p.Name }), namesOf(r.Tests, func(t result.TestInfo) string { return t.Name }))
	}
	selected, err := selectPublished(data, row)
	if err != nil {
		return nil, err
	}
	brings := map[string]bool{}
	for _, m := range measurement.MetricsOf(r.Tests[i].Spec.Kind) {
		brings[m.Name] = true
	}
	var out []result.Figure
	for _, study := range selected.Studies {
		for _, s := range study.Settings {
			for _, f := range append(s.Figures, meansOfReadings(s)...) {
				if !brings[f.Metric] || f.Second > 0 || f.End == result.PublishedSender && hasReceiver(s, f) {
					continue
				}
				note := s.Path
				if of := ofText(f); of != "" {
					note += ", " + of
				}
				out = append(out, result.Figure{ID: s.ID, Path: path, Test: name, Metric: f.Metric, Value: f.Value,
					Kind: result.FigureOpen, Flows: s.Flows, Duration: s.Duration, Note: note})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("row %s has no figure that test %q measures; hopbench experiments published %s lists it", row, name, row)
	}
	return out, nil
}

// meansOfReadings are the figures of a setting of which nothing but readings was
// printed: the mean of its readings, one a second, is the rate of its run.
func meansOfReadings(s result.PublishedSetting) []result.PublishedNumber {
	var out []result.PublishedNumber
	for _, f := range s.Figures {
		whole := slices.ContainsFunc(s.Figures, func(g result.PublishedNumber) bool { return g.Metric == f.Metric && g.Second == 0 })
		if f.Second != 1 || whole {
			continue
		}
		values := s.Readings(f.Metric)
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		f.Second, f.Value, f.Note = 0, sum/float64(len(values)), fmt.Sprintf("mean of %d readings", len(values))
		out = append(out, f)
	}
	return out
}

// hasReceiver says that the setting has the receiver's count as well as f.
func hasReceiver(s result.PublishedSetting, f result.PublishedNumber) bool {
	return slices.ContainsFunc(s.Figures, func(g result.PublishedNumber) bool {
		return g.End == result.PublishedReceiver && g.Metric == f.Metric && g.Run == f.Run
	})
}

func namesOf[T any](items []T, name func(T) string) string {
	var out []string
	for _, item := range items {
		out = append(out, name(item))
	}
	return strings.Join(out, ", ")
}

// readingsNotes says of the rows among the figures that were read second by
// second why the readings are no samples.
func readingsNotes(data *result.PublishedData, figures []result.Figure) []result.Note {
	var out []result.Note
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			if !slices.ContainsFunc(figures, func(f result.Figure) bool { return f.ID == s.ID }) {
				continue
			}
			if note, ok := analysis.ReadingsNote(s.Readings("goodput_bits_per_second")); ok {
				note.Name = s.ID + ", " + s.Path + ","
				out = append(out, note)
			}
		}
	}
	return out
}

// completeRows completes rows and studies.
func completeRows(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	data, err := publishedData()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, study := range data.Studies {
		out = append(out, study.Name)
		for _, s := range study.Settings {
			out = append(out, s.ID)
		}
	}
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}
