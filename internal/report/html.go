package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/quantity"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var pageCSS string

// page is the template, parsed when the first page is rendered: other commands
// start without it.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("page").Parse(pageHTML)).Parse(publishedHTML))
})

// HTML writes the report as one self-contained page. It needs no network and
// no script, and its content security policy forbids both.
func HTML(w io.Writer, r *measurement.Result) error {
	var b strings.Builder
	if err := page().Execute(&b, newPageData(newModel(r))); err != nil {
		return fmt.Errorf("render HTML report: %w", err)
	}
	return flush(w, b.String(), "HTML report")
}

// pageData is what the template shows.
type pageData struct {
	*model
	CSS        template.CSS
	ScaleName  string // "10", "" when not scaled
	CostsWide  template.HTML
	CostsSmall template.HTML
	Band       bool // the plot of costs shades effects too small to matter
	ShareBars  []shareBar
	Routes     []route
	Throughput []figure
	RTT        []figure
	HopFigures []figure
	Pairs      []figure
	Order      []figure
	Latency    []figure
	Dashed     bool // some curves of Latency are from before a load
	Facts      []pair
	Command    string
	Specs      []pair
	Trials     []trialRow
	Text       string
}

// pair is a name and its value.
type pair struct{ Name, Value string }

func newPageData(m *model) pageData {
	r := m.r
	d := pageData{model: m, CSS: template.CSS(pageCSS),
		CostsWide: m.costFigure("costs-wide", wideCosts()), CostsSmall: m.costFigure("costs-narrow", narrowCosts()),
		ShareBars: m.shareBars(), Routes: m.routes(),
		Throughput: m.throughputFigures(), RTT: m.rttFigures(), HopFigures: m.hopFigures(), Pairs: m.pairFigures(), Order: m.orderFigures(), Latency: m.latencyFigures(),
		Facts: m.facts(), Command: command(r), Specs: m.specs(), Trials: m.trialRows(), Text: clean(r.Experiment.Text, true)}
	if s, ok := m.scaled(); ok {
		d.ScaleName = scaleName(s)
	}
	d.Dashed = slices.ContainsFunc(m.Tests, func(t test) bool { return t.Kind == measurement.Load })
	d.Band = strings.Contains(string(d.CostsWide), `class="band"`)
	return d
}

// PublishedTable is that of the page.
func (d pageData) PublishedTable() publishedTable { return publishedTable{d.ScaleName, d.Published} }

// VerdictClass is the style of a verdict.
func (v verdict) VerdictClass() string { return verdictClass(v.Kind) }

// VerdictWord is the verdict in a word or two.
func (v verdict) VerdictWord() string {
	word, _, _ := strings.Cut(verdictText(v.cost), ", ")
	return word
}

// VerdictClass is the style of a cell's verdict.
func (c cell) VerdictClass() string { return verdictClass(c.VerdictKind) }

func verdictClass(k measurement.Verdict) string {
	switch k {
	case measurement.Costs:
		return "v-costs"
	case measurement.Gains, measurement.NoCost:
		return "v-fine"
	}
	return "v-open"
}

// facts is the environment, with the seed and the format first.
func (m *model) facts() []pair {
	r := m.r
	out := []pair{{"seed", fmt.Sprint(r.Seed)}}
	add := func(name, value string) {
		if value = line(value); value != "" {
			out = append(out, pair{line(name), value})
		}
	}
	if !r.Started.IsZero() {
		add("started", r.Started.UTC().Format(time.RFC3339))
	}
	if !r.Ended.IsZero() {
		add("ended", r.Ended.UTC().Format(time.RFC3339))
	}
	add("testbed", r.Testbed.Kind)
	for _, k := range slices.Sorted(maps.Keys(r.Environment)) {
		add(strings.ReplaceAll(k, "_", " "), r.Environment[k])
	}
	add("result format", r.Format)
	return out
}

// command repeats the run.
func command(r *measurement.Result) string {
	words := make([]string, len(r.Command))
	for i, word := range r.Command {
		words[i] = printable.ShellWord(line(word))
	}
	return strings.Join(words, " ")
}

// specs says how each test was done.
func (m *model) specs() []pair {
	var out []pair
	for _, t := range m.Tests {
		if t.Kind != "" {
			out = append(out, pair{t.Label, specText(t.Spec)})
		}
	}
	return out
}

// specText is a test's parameters in a line.
func specText(s measurement.Spec) string {
	parts := []string{line(string(s.Kind))}
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	seconds := func(v measurement.Seconds) string { return inBestUnit(float64(v), measurement.SecondsUnit) }
	add(s.Tool != measurement.Native, "in iperf3's protocol")
	switch s.Kind {
	case measurement.CRR:
		add(s.Flows > 0, "%s at a time", quantity.Count(s.Flows, "connection"))
	case measurement.FTP:
		add(s.FileBytes > 0, "a file of %s", inBestUnit(float64(s.FileBytes), measurement.Bytes))
		add(s.FilePath != "", "%s of a stock server", line(s.FilePath))
		add(s.Flows > 0, "%s", quantity.Count(s.Flows, "segment"))
	default:
		add(s.Flows > 0, "%s", quantity.Count(s.Flows, "flow"))
	}
	add(s.Protocol != "", "over %s", line(string(s.Protocol)))
	add(s.Direction == measurement.Receive, "destination sends")
	add(s.Direction == measurement.Both, "both ends send")
	add(s.IdleDuration > 0, "%s without load first", seconds(s.IdleDuration))
	add(s.Duration > 0, "%s measured", seconds(s.Duration))
	add(s.MaxWarmup > 0, "warm-up up to %s", seconds(s.MaxWarmup))
	add(s.Count > 0, "%d requests", s.Count)
	add(s.Interval > 0, "every %s", seconds(s.Interval))
	add(s.RequestBytes > 0 || s.ResponseBytes > 0, "%d B request, %d B response", s.RequestBytes, s.ResponseBytes)
	add(s.PayloadBytes > 0, "%d B payload", s.PayloadBytes)
	add(s.CongestionControl != "", "congestion control %s", line(s.CongestionControl))
	add(s.WindowBytes > 0, "receive window %s", inBestUnit(float64(s.WindowBytes), measurement.Bytes))
	add(s.SendBufferBytes > 0, "send buffer %s", inBestUnit(float64(s.SendBufferBytes), measurement.Bytes))
	add(s.ReceiveBufferBytes > 0, "receive buffer %s", inBestUnit(float64(s.ReceiveBufferBytes), measurement.Bytes))
	add(s.MSSBytes > 0, "segments up to %d B", s.MSSBytes)
	add(s.PacingBitsPerSecond > 0, "paced at %s", inBestUnit(s.PacingBitsPerSecond, measurement.BitsPerSecond))
	add(s.SendMethod != measurement.SendFast, "sent by %s", line(string(s.SendMethod)))
	add(s.CopyPayload, "payload copied by the receiver")
	add(s.MPTCP, "Multipath TCP")
	parts = append(parts, datagramText(s)...)
	add(s.RequestsPerSecond > 0, "%s requests/s at their intended times", quantity.Number(s.RequestsPerSecond, 0))
	add(s.InFlight > 1, "%d requests in flight", s.InFlight)
	add(s.Spin, "both ends poll")
	add(s.Colocate, "both ends on one CPU")
	add(s.DSCP > 0, "DSCP %d", s.DSCP)
	add(s.SourcePort > 0, "from port %d", s.SourcePort)
	add(s.Device != "", "through %s", line(s.Device))
	add(s.MaxHops > 0, "up to %d hops", s.MaxHops)
	add(s.Timeout > 0, "timeout %s", seconds(s.Timeout))
	return strings.Join(parts, ", ")
}

// datagramText is what of a spec is about UDP.
func datagramText(s measurement.Spec) []string {
	if s.Kind != measurement.UDP && s.Kind != measurement.PPS {
		return nil
	}
	parts := []string{"as fast as the sender can"}
	if s.RateBitsPerSecond > 0 {
		parts[0] = "at " + inBestUnit(s.RateBitsPerSecond, measurement.BitsPerSecond)
	}
	if s.LossBound > 0 {
		parts = append(parts, "highest rate with at most "+trimmedPercent(s.LossBound)+" lost")
	}
	if s.PacketBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d B packets", s.PacketBytes))
	}
	for _, o := range []struct {
		name     string
		position measurement.Switch
	}{{"GSO", s.GSO}, {"GRO", s.GRO}} {
		if o.position != measurement.Auto {
			parts = append(parts, o.name+" "+line(string(o.position)))
		}
	}
	return parts
}

// trialRow is a row of the table of all trials.
type trialRow struct {
	Order, Block     int
	ID, Path, Test   string
	Value            string
	Warmup           string
	CPU              string // source / destination
	Passed           bool
	Reasons          string // of failed gates and warnings
	Facts            string
	FingerprintTrack string
}

// trialRows lists every trial with its gate.
func (m *model) trialRows() []trialRow {
	out := make([]trialRow, 0, len(m.r.Trials))
	byName := map[string]test{}
	for _, t := range m.Tests {
		byName[t.Name] = t
	}
	for i := range m.r.Trials {
		t := &m.r.Trials[i]
		row := trialRow{Order: t.Order, Block: t.Block, ID: line(t.ID), Path: m.pathLabel(t.Path), Test: m.testLabel(t.Test),
			Value: "—", Passed: t.Gate.Passed, Reasons: reasons(t.Gate, false), Facts: strings.Join(lines(t.Facts), " "), CPU: cpuText(t)}
		k := byName[t.Test]
		if v, ok := t.Metrics[k.Primary.Name]; ok && k.HasPrimary {
			s, decimals := k.in(v)
			row.Value = with(quantity.Number(v/s.Factor, decimals), s.Name)
		}
		if t.Warmup > 0 {
			row.Warmup = with(quantity.Number(float64(t.Warmup)*1e3, 0), "ms")
		}
		if t.Fingerprint != nil {
			row.FingerprintTrack = track(t.Fingerprint)
		}
		out = append(out, row)
	}
	return out
}

// cpuText is how busy both ends were.
func cpuText(t *measurement.Trial) string {
	if t.Source.CPUs == 0 && t.Destination.CPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f / %.0f", t.Source.CPUBusy*100, t.Destination.CPUBusy*100)
}
