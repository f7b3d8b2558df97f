package figure

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// Clients are the clients of a test over time, each in a small picture of its own.
type Clients struct {
	Title   string
	All     template.HTML // all of them together, empty where no samples were sent
	Paths   []PathLegend
	Tiles   []Tile
	Caption string

	clients         []client
	longest, widest float64 // seconds
	most            float64 // bits per second
}

// PathLegend is a path with its colour.
type PathLegend struct {
	Index int
	Label string
}

// Tile is the picture of a client.
type Tile struct {
	Name string
	SVG  template.HTML
}

const (
	tileWidth  = 160.0
	tileHeight = 56.0
	// mostTiles of a test are drawn, half of them those that carried least.
	mostTiles = 60
	// tilePoints is how many points the lines of all tiles of a page have, roughly.
	tilePoints = 80_000
)

// client is what a client did in one trial of each path.
type client struct {
	name  string
	lines []clientLine
}

// clientLine is what a client did over time: a point for each step of which it is known.
type clientLine struct {
	path   int
	trial  *measurement.Trial
	step   float64 // seconds
	points []point
	mean   float64 // bits per second
}

// add adds what was counted in a step that began at a moment, in seconds.
func (l *clientLine) add(from, bytes float64) {
	rate := bytes * 8 / l.step
	l.points = append(l.points, point{from + l.step/2, rate})
	l.mean += (rate - l.mean) / float64(len(l.points))
}

// ClientFigures draws, per test that several pairs or the clients of a fleet did, what each
// client carried over time in the median trial of each path: by what its agent counted, or
// else by what its receiver did.
func ClientFigures(m *report.Model) []Clients {
	var out []Clients
	lines := 0
	for i, t := range m.Tests {
		c := Clients{Title: t.Label}
		var together []series
		var said []string
		for p := range m.Paths {
			trial, sampled := clientTrial(m, t, p)
			var clients []client
			switch {
			case sampled != nil && sampled.Error == "":
				clients = sampledClients(p, trial, sampled)
				if sum := sumOf(sampled); len(sum) > 1 {
					together = append(together, series{path: p, trial: trial, points: sum})
				}
			case trial != nil:
				clients = countedClients(p, trial)
			}
			if c.join(clients) {
				c.Paths = append(c.Paths, PathLegend{report.PathColour(p), m.Paths[p].Label})
				said = append(said, trialText(trial, clients, sampled))
			}
		}
		if len(c.clients) == 0 {
			continue
		}
		if len(together) > 0 {
			c.All = timeFigure(m, fmt.Sprintf("together-%d", i), "Throughput of all clients together, "+t.Label, t.Label, measurement.BitsPerSecond, together).SVG
		}
		c.Caption = fmt.Sprintf("Each picture goes from 0 to %s, and from 0 to %s; lines are means, and the shade around them is from the least to the most. ", words.Value(c.longest, measurement.SecondsUnit), words.Rate(c.most)) + strings.Join(said, " ")
		if n := len(c.clients); n > mostTiles {
			c.clients = extremes(c.clients)
			c.Caption += fmt.Sprintf(" Of %s those are drawn that carried least and most, %d each.", quantity.Count(n, "client"), mostTiles/2)
		}
		lines += len(c.clients) * len(c.Paths)
		out = append(out, c)
	}
	for i := range out {
		out[i].draw(i, m, max(tilePoints/3/lines, 8))
	}
	return out
}

// clientTrial is the trial of a test on a path that is shown, nil where none can be.
func clientTrial(m *report.Model, t report.Test, path int) (*measurement.Trial, *result.Sampled) {
	for _, trial := range m.Trials(m.Paths[path], t) {
		if s := m.Run.Sampled[trial.ID]; s != nil {
			return trial, s
		}
	}
	return report.MedianTrial(m.Run, m.Paths[path].Name, t.Name, t.Primary.Name, 2), nil
}

// sampledClients are those of a fleet.
func sampledClients(path int, t *measurement.Trial, s *result.Sampled) []client {
	step := float64(s.Step)
	out := make([]client, len(s.Clients))
	for i, c := range s.Clients {
		l := clientLine{path: path, trial: t, step: step}
		for _, part := range c.Parts {
			for k, n := range part.Bytes {
				l.add(float64(part.First+k)*step, float64(n))
			}
		}
		out[i] = client{typeset.Line(c.Name), []clientLine{l}}
	}
	return out
}

// countedClients are the sources of several pairs, as their receivers counted.
func countedClients(path int, t *measurement.Trial) (out []client) {
	for _, p := range t.Pairs {
		if p.Throughput == nil || p.Throughput.Width <= 0 {
			continue
		}
		l := clientLine{path: path, trial: t, step: float64(p.Throughput.Width)}
		for i, n := range p.Throughput.Bytes {
			l.add(float64(p.Delay)+float64(i)*l.step, n)
		}
		out = append(out, client{typeset.Line(p.Source), []clientLine{l}})
	}
	return out
}

// sumOf adds the clients of a fleet up, until most of them have ended.
func sumOf(s *result.Sampled) []point {
	var bytes, known []int64
	for _, c := range s.Clients {
		for _, part := range c.Parts {
			if more := part.First + len(part.Bytes) - len(bytes); more > 0 {
				bytes, known = append(bytes, make([]int64, more)...), append(known, make([]int64, more)...)
			}
			for i, n := range part.Bytes {
				bytes[part.First+i] += n
				known[part.First+i]++
			}
		}
	}
	if len(bytes) == 0 {
		return nil
	}
	last, enough := len(bytes)-1, (slices.Max(known)+1)/2
	for known[last] < enough {
		last--
	}
	var out []point
	for i, n := range bytes[:last+1] {
		if known[i] > 0 {
			out = append(out, point{(float64(i) + 0.5) * float64(s.Step), float64(n) * 8 / float64(s.Step)})
		}
	}
	return out
}

// holes are the steps in which samples of a client are missing that has some before and after.
func holes(s *result.Sampled) int {
	missing := map[int]bool{}
	for _, c := range s.Clients {
		for i := 1; i < len(c.Parts); i++ {
			for k := c.Parts[i-1].First + len(c.Parts[i-1].Bytes); k < c.Parts[i].First; k++ {
				missing[k] = true
			}
		}
	}
	return len(missing)
}

// trialText says which trial is shown, who sent nothing in it, and what of whom cannot be read.
func trialText(t *measurement.Trial, clients []client, s *result.Sampled) string {
	text := "Trial " + trialName(t)
	switch {
	case s == nil:
		return text + ": the receivers’ count."
	case s.Error != "":
		return text + ": the receivers’ count, as its samples cannot be read: " + typeset.Line(s.Error) + "."
	}
	var silent []string
	for _, c := range clients {
		if len(c.lines[0].points) == 0 {
			silent = append(silent, c.name)
		}
	}
	text += fmt.Sprintf(": %s samples of %s", quantity.Number(float64(s.Samples), 0), quantity.Count(len(clients)-len(silent), "client"))
	if n := len(silent); n > 0 {
		text += "; nothing came from " + words.List(first(silent))
	}
	text += "."
	var damaged []string
	for _, c := range s.Clients {
		if c.Damaged > 0 {
			damaged = append(damaged, words.DamagedBlocks(typeset.Line(c.Name), c.Damaged))
		}
	}
	if len(damaged) > 0 {
		text += " Damaged and left out: " + words.List(first(damaged)) + "."
	}
	if n := holes(s); n > 0 {
		text += fmt.Sprintf(" For %s samples of some clients are missing, and all clients together are drawn with less than they carried.", words.Time(measurement.Seconds(n)*s.Step))
	}
	return text
}

// first are the first of many machines, and how many more there are.
func first(all []string) []string {
	const most = 8
	if n := len(all); n > most {
		return append(all[:most:most], fmt.Sprintf("%d more", n-most))
	}
	return all
}

// join adds the clients of one more path to those of the same names, each once, and says
// whether there were any.
func (c *Clients) join(clients []client) bool {
	before := map[string][]int{}
	for i, known := range c.clients {
		before[known.name] = append(before[known.name], i)
	}
	for _, one := range clients {
		l := one.lines[0]
		c.widest = max(c.widest, l.step)
		for _, q := range l.points {
			c.longest, c.most = max(c.longest, q.x+l.step/2), max(c.most, q.y)
		}
		if at := before[one.name]; len(at) > 0 {
			c.clients[at[0]].lines = append(c.clients[at[0]].lines, l)
			before[one.name] = at[1:]
		} else {
			c.clients = append(c.clients, one)
		}
	}
	return len(clients) > 0
}

// extremes are the clients that carried least and most, in the order in which they were.
func extremes(clients []client) []client {
	mean := func(c client) (mean float64) {
		for _, l := range c.lines {
			mean += l.mean / float64(len(c.lines))
		}
		return mean
	}
	order := make([]int, len(clients))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mean(clients[a]), mean(clients[b])) })
	order = slices.Concat(order[:mostTiles/2], order[len(order)-mostTiles/2:])
	slices.Sort(order)
	out := make([]client, len(order))
	for i, from := range order {
		out[i] = clients[from]
	}
	return out
}

// draw draws the tiles, with each line's mean and range in so many slices of time.
func (c *Clients) draw(test int, m *report.Model, parts int) {
	parts = min(parts, int(tileWidth/2))
	x := axis{high: max(c.longest, 1e-9), to: tileWidth}
	y := axis{high: max(c.most, 1e-9), from: tileHeight - 1, to: 1}
	hole := 2.5 * max(c.widest, c.longest/float64(parts))
	for i, one := range c.clients {
		var means []string
		for _, l := range one.lines {
			means = append(means, fmt.Sprintf("%s %s on average", m.Paths[l.path].Label, words.Rate(l.mean)))
		}
		p := newSVG(fmt.Sprintf("client-%d-%d", test, i), tileWidth, tileHeight, one.name, strings.Join(means, ", "))
		p.line(0, tileHeight-.5, tileWidth, tileHeight-.5, "rule")
		for _, l := range one.lines {
			kind := class("s", l.path) + " tile"
			if !l.trial.Gate.Passed {
				kind += " failed"
			}
			for _, part := range unbroken(l.points, hole) {
				all := ranges(part, max(parts*len(part)/len(l.points), 1))
				middle, outline := spread(all, x, y)
				if len(all) < len(part) {
					p.area(outline, class("f", l.path)+" range")
				}
				p.polyline(middle, kind, "")
			}
		}
		c.Tiles = append(c.Tiles, Tile{one.name, p.end()})
	}
	c.clients = nil
}

// unbroken are the parts of a line between holes of that time, in seconds, or longer.
func unbroken(points []point, hole float64) (out [][]point) {
	from := 0
	for i := range points {
		if i+1 == len(points) || points[i+1].x-points[i].x > hole {
			out = append(out, points[from:i+1])
			from = i + 1
		}
	}
	return out
}

// ranges are the mean, the least and the largest of points in at most so many slices of
// their time.
func ranges(points []point, parts int) []ranged {
	parts = min(parts, len(points))
	out := make([]ranged, parts)
	for i := range out {
		part := points[i*len(points)/parts : (i+1)*len(points)/parts]
		r := ranged{low: part[0].y, high: part[0].y}
		for _, q := range part {
			r.x += q.x / float64(len(part))
			r.middle += q.y / float64(len(part))
			r.low, r.high = min(r.low, q.y), max(r.high, q.y)
		}
		out[i] = r
	}
	return out
}
