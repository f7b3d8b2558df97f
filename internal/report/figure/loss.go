package figure

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
)

// fewestInCDF is how many trials a path needs for a distribution function to say anything.
const fewestInCDF = 3

// LossFigures draws the distribution of loss over the trials that count of every test that
// counts losses and lost something: the share of a path's trials that lost at most so much.
func LossFigures(m *report.Model) []Figure {
	var out []Figure
	for i, t := range m.Tests {
		var all []series
		most, trials := 0.0, 0
		for p := range m.Paths {
			losses := lossesOf(m, t, p)
			if len(losses) < fewestInCDF {
				continue
			}
			all = append(all, series{path: p, points: distribution(losses)})
			most, trials = max(most, losses[len(losses)-1]), trials+len(losses)
		}
		if most > 0 {
			out = append(out, lossFigure(m, fmt.Sprintf("loss-%d", i), t, all, most, trials))
		}
	}
	return out
}

// lossesOf are the losses of the trials of a test on a path that count, ascending.
func lossesOf(m *report.Model, t report.Test, p int) []float64 {
	var out []float64
	for _, trial := range m.Counted(m.Paths[p], t) {
		if v, ok := trial.Metrics["loss_fraction"]; ok && v >= 0 && v <= 1 {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// distribution is the steps of the empirical distribution function of ascending values: at
// x, the share of them that is at most x.
func distribution(values []float64) []point {
	out := []point{{values[0], 0}}
	for i, v := range values {
		if i > 0 {
			out = append(out, point{v, float64(i) / float64(len(values))})
		}
		out = append(out, point{v, float64(i+1) / float64(len(values))})
	}
	return out
}

// lossFigure draws the steps of one test.
func lossFigure(m *report.Model, id string, t report.Test, all []series, most float64, trials int) Figure {
	p := newPanel(id, "Distribution of loss, "+t.Label, fmt.Sprintf("Share of the trials of a path that lost at most so much, of %s.", quantity.Count(trials, "trial")), m.Paths, panelHeight)
	p.x = linearAxis([]float64{most}, true, p.left, p.right, 4)
	p.y = axis{low: 0, high: 1, from: p.bottom, to: p.top}
	share := quantity.Scale{Name: "%", Factor: 0.01}
	p.axes(p.x.ticks(4, share), p.y.ticks(5, share), "loss, %", "trials, %")
	var labels []endLabel
	p.plot("", 0, share, share, func() {
		for _, s := range all {
			// Above the most that was lost, all trials are below.
			drawn := append(p.place(s.points), point{p.right, p.top})
			p.polyline(drawn, class("s", s.path)+" curve", m.Paths[s.path].Label)
			labels = append(labels, endLabel{path: s.path, label: m.Paths[s.path].Label, y: p.top})
		}
	})
	p.endLabels(labels)
	return Figure{Title: t.Label, SVG: p.end()}
}
