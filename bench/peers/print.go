package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// record is everything that was measured and where.
type record struct {
	Date       time.Time         `json:"date"`
	Machine    map[string]string `json:"machine"`
	Peers      []string          `json:"peers"`
	Missing    []string          `json:"missing_peers,omitempty"`
	Pairs      int               `json:"pairs"`
	Duration   float64           `json:"duration_seconds"`
	Bed        string            `json:"bed"`
	Congestion []string          `json:"congestion_control"`
	Results    []result          `json:"results"`
}

func newRecord(o options, tools []*tool, missing []string) *record {
	r := &record{
		Date: time.Now().UTC(), Machine: machine(), Missing: missing,
		Pairs: o.pairs, Duration: o.duration.Seconds(), Bed: o.bed, Congestion: o.congestion, Results: []result{},
	}
	for _, t := range tools {
		r.Peers = append(r.Peers, strings.TrimSpace(t.name+" "+t.version))
	}
	return r
}

var modelName = regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`)

func machine() map[string]string {
	m := map[string]string{"processors": fmt.Sprint(runtime.NumCPU()), "go": runtime.Version()}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m["kernel"] = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := firstOf(modelName, string(text)); name != "" {
			m["processor"] = name
		}
	}
	return m
}

func (r *record) write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the pairs: %w", err)
	}
	return nil
}

// row is one metric of one test against one peer.
type row struct {
	variant   *variant
	peer      string
	own, them interval
	ratio     interval
}

// rowsOf are the rows of a metric: a peer that does not print it has none.
func rowsOf(results []result, t test, m metric) []row {
	var rows []row
	for _, r := range results {
		if r.Test != t.name || r.variant == nil {
			continue
		}
		var own, them, ratios []float64
		for _, p := range r.Pairs {
			if a, b := p.Own[m.name], p.Peer[m.name]; a > 0 && b > 0 {
				own, them, ratios = append(own, a), append(them, b), append(ratios, a/b)
			}
		}
		if len(ratios) > 0 {
			rows = append(rows, row{variant: r.variant, peer: r.Peer, own: medianOf(own), them: medianOf(them), ratio: medianOf(ratios)})
		}
	}
	return rows
}

// best is the row whose peer's median is the best of those that a goal means,
// nil if there is none.
func best(rows []row, g goal, lessIsBetter bool) *row {
	var found *row
	for i := range rows {
		r := &rows[i]
		if !g.among(r.variant) {
			continue
		}
		if found == nil || (r.them.Median < found.them.Median) == lessIsBetter {
			found = r
		}
	}
	return found
}

// table is lines of cells, the first of which is the heading.
type table [][]string

func (t table) print(w io.Writer, markdown bool) {
	if markdown {
		for i, line := range t {
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(line)))
			}
		}
		return
	}
	widths := make([]int, len(t[0]))
	for _, line := range t {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, line := range t {
		var out strings.Builder
		for i, cell := range line {
			out.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		fmt.Fprintln(w, strings.TrimRight(out.String(), " "))
	}
}

// print shows the targets first, then every peer, then what is missing.
func (r *record) print(w io.Writer, tests []test, markdown bool) {
	fmt.Fprintf(w, "%s, %s processors, Linux %s, %s, %s\n", r.Machine["processor"], r.Machine["processors"], r.Machine["kernel"], r.Machine["go"], r.Date.Format("2006-01-02"))
	fmt.Fprintf(w, "one routing hop (%s), %d interleaved pairs of %gs, congestion control %s\n", r.Bed, r.Pairs, r.Duration, strings.Join(r.Congestion, ", "))
	fmt.Fprintf(w, "peers: %s\n", strings.Join(r.Peers, ", "))
	if len(r.Missing) > 0 {
		fmt.Fprintf(w, "not installed: %s\n", strings.Join(r.Missing, ", "))
	}
	goals := table{{"test", "figure", "hopbench", "compared with", "its figure", "median ratio of pairs", "target", ""}}
	peers := table{{"test", "figure", "peer", "hopbench", "peer's figure", "median ratio of pairs"}}
	for _, t := range tests {
		for _, m := range t.metrics {
			rows := rowsOf(r.Results, t, m)
			for _, g := range m.targets {
				goals = append(goals, goalCells(rows, t, m, g))
			}
			for _, one := range rows {
				peers = append(peers, []string{t.title, m.label, one.peer, m.figure(one.own), m.figure(one.them), ratioText(one.ratio)})
			}
		}
	}
	if len(goals) > 1 {
		fmt.Fprintln(w)
		goals.print(w, markdown)
	}
	if len(peers) > 1 {
		fmt.Fprintln(w)
		peers.print(w, markdown)
	}
	r.printErrors(w, tests)
}

func goalCells(rows []row, t test, m metric, g goal) []string {
	sign := "≥"
	if m.lessIsBetter {
		sign = "≤"
	}
	wanted := fmt.Sprintf("%s %.4g × %s", sign, g.bound, g.best)
	one := best(rows, g, m.lessIsBetter)
	if one == nil {
		return []string{t.title, m.label, "", "", "", "", wanted, "not compared"}
	}
	return []string{t.title, m.label, m.figure(one.own), one.peer, m.figure(one.them), ratioText(one.ratio), wanted, verdict(one.ratio, g.bound, m.lessIsBetter)}
}

func (m metric) figure(v interval) string {
	return fmt.Sprintf("%s %s", short(v.Median*m.scale), m.unit)
}

// short is a number with three significant digits, whole from 100 up.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func ratioText(r interval) string {
	if !r.Bounded {
		return short(r.Median)
	}
	return fmt.Sprintf("%s [%s, %s]", short(r.Median), short(r.Low), short(r.High))
}

// printErrors says what was not compared, and why.
func (r *record) printErrors(w io.Writer, tests []test) {
	heading := "\n"
	for _, t := range tests {
		if len(t.variants) == 0 {
			fmt.Fprintf(w, "%s%s: not compared: no peer is installed that can do it\n", heading, t.title)
			heading = ""
		}
		for _, one := range r.Results {
			if one.Test != t.name || len(one.Errors) == 0 {
				continue
			}
			who := t.title
			if one.Peer != "" {
				who += ", " + one.Peer
			}
			if len(one.Pairs) == 0 {
				fmt.Fprintf(w, "%s%s: not compared: %s\n", heading, who, one.Errors[0])
			} else {
				fmt.Fprintf(w, "%s%s: %d pairs failed: %s\n", heading, who, len(one.Errors), one.Errors[0])
			}
			heading = ""
		}
	}
}
