package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// This file reads published figures. They are decoded as strictly as an
// experiment, with a position for every mistake: a number that slipped by a
// digit or a unit would make every comparison with it wrong.

// filePublishedData is a file of published figures.
type filePublishedData struct {
	Format  string                `json:"format" jsonschema:"enum=hopbench.published/1"`
	Metrics []filePublishedMetric `json:"metrics,omitempty"`
	Studies []filePublishedStudy  `json:"studies" jsonschema:"minItems=1"`
}

// filePublishedMetric is a quantity that no test of hopbench brings back.
type filePublishedMetric struct {
	Name  string          `json:"name"`
	Label strict.LineText `json:"label"`
	Unit  string          `json:"unit" jsonschema:"enum=bit/s,enum=s,enum=B,enum=1,enum=count"`
}

type filePublishedStudy struct {
	Name     strict.NameText        `json:"name"`
	Title    strict.LineText        `json:"title"`
	About    strict.ProseText       `json:"about,omitempty"`
	Settings []filePublishedSetting `json:"settings" jsonschema:"minItems=1"`
}

type filePublishedSetting struct {
	ID            strict.LineText       `json:"id"`
	Path          strict.LineText       `json:"path"`
	Encapsulation strict.LineText       `json:"encapsulation,omitempty"`
	Machine       strict.LineText       `json:"machine,omitempty"`
	Tool          strict.LineText       `json:"tool,omitempty"`
	Flows         int                   `json:"flows,omitempty" jsonschema:"minimum=1,maximum=10000"`
	Duration      strict.TimeText       `json:"duration,omitempty"`
	Says          strict.ProseText      `json:"says,omitempty"`
	Figures       []filePublishedNumber `json:"figures,omitempty" jsonschema:"minItems=1"`
}

// filePublishedNumber is a value, the values of both ends, or readings.
type filePublishedNumber struct {
	Metric   string          `json:"metric"`
	Run      int             `json:"run,omitempty" jsonschema:"minimum=1"`
	Value    ValueText       `json:"value,omitempty"`
	Sender   ValueText       `json:"sender,omitempty"`
	Receiver ValueText       `json:"receiver,omitempty"`
	Readings strict.LineText `json:"readings,omitempty"`
	Unit     strict.LineText `json:"unit,omitempty"`
	Printed  strict.LineText `json:"printed,omitempty"`
	Note     strict.LineText `json:"note,omitempty"`
}

// LoadPublished reads a file of published figures. File names it in messages.
// What it has wrong comes back as strict.Errors, all at once.
func LoadPublished(file string, text []byte) (*result.PublishedData, error) {
	kind := document()
	kind.Format, kind.Noun, kind.Top, kind.Schema = result.PublishedFormat, "set of published figures", "the file", ""
	d, f := strict.New(file, text, kind), new(filePublishedData)
	if !d.Decode(f) {
		return nil, d.Err()
	}
	p := &publishedLoader{loader: loader{Decoder: d, scale: 1}, metrics: map[string]measurement.Metric{}, seen: map[publishedKey]int{}}
	data := p.data(f)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return data, nil
}

// publishedKey is what no two numbers of a file share.
type publishedKey struct {
	id, path, tool string
	flows          int
	metric, end    string
	run, second    int
}

// publishedLoader checks what the file's types cannot say.
type publishedLoader struct {
	loader
	metrics map[string]measurement.Metric // those of the file
	seen    map[publishedKey]int          // to the line of the first
}

func (p *publishedLoader) data(f *filePublishedData) *result.PublishedData {
	out := &result.PublishedData{Format: result.PublishedFormat}
	for i := range f.Metrics {
		m := &f.Metrics[i]
		name := m.Name
		if _, known := measurement.MetricNamed(name); known {
			p.Wrong(&m.Name, "leave it out", "metric %q is in the catalogue", name)
		}
		if _, twice := p.metrics[name]; twice && name != "" {
			p.Wrong(&m.Name, "leave the second out", "a second metric is named %q", name)
		}
		p.metrics[name] = measurement.Metric{Name: name, Label: string(m.Label), Unit: measurement.Unit(m.Unit)}
	}
	var names []*strict.NameText
	for i := range f.Studies {
		names = append(names, &f.Studies[i].Name)
		out.Studies = append(out.Studies, p.study(&f.Studies[i]))
	}
	p.Unique("study", names)
	return out
}

func (p *publishedLoader) study(f *filePublishedStudy) result.PublishedStudy {
	out := result.PublishedStudy{Name: string(f.Name), Title: string(f.Title), About: strings.TrimSpace(string(f.About))}
	for i := range f.Settings {
		s := &f.Settings[i]
		setting := result.PublishedSetting{
			ID: string(s.ID), Path: string(s.Path), Encapsulation: string(s.Encapsulation), Machine: string(s.Machine),
			Tool: string(s.Tool), Flows: s.Flows, Duration: measurement.SecondsOf(strict.Parsed(quantity.ParseDuration, s.Duration)),
			Says: strings.TrimSpace(string(s.Says)),
		}
		if !p.Written(&s.Figures) && !p.Written(&s.Says) {
			p.Wrong(s, "write figures, or what it says", "setting %q says nothing", s.ID)
		}
		for j := range s.Figures {
			for _, n := range p.numbers(&s.Figures[j]) {
				p.once(&s.Figures[j], setting, n)
				setting.Figures = append(setting.Figures, n)
			}
		}
		out.Settings = append(out.Settings, setting)
	}
	return out
}

// once refuses the same number twice.
func (p *publishedLoader) once(f *filePublishedNumber, s result.PublishedSetting, n result.PublishedNumber) {
	key := publishedKey{s.ID, s.Path, s.Tool, s.Flows, n.Metric, n.End, n.Run, n.Second}
	if first, taken := p.seen[key]; taken {
		p.Wrong(f, fmt.Sprintf("the first is at line %d; tell them apart by run or end", first),
			"%s has a second figure for %s", s.ID, n.Metric)
		return
	}
	p.seen[key] = p.Line(f)
}

// numbers are those of one entry: one, one per end, or one per second.
func (p *publishedLoader) numbers(f *filePublishedNumber) []result.PublishedNumber {
	if f.Metric == "" {
		return nil
	}
	metric, known := p.metrics[f.Metric]
	if !known {
		metric, known = measurement.MetricNamed(f.Metric)
	}
	if !known {
		p.Wrong(&f.Metric, strict.Instead(f.Metric, p.metricNames()), "there is no metric %q", f.Metric)
		return nil
	}
	hasEnds := p.Written(&f.Sender) || p.Written(&f.Receiver)
	switch {
	case p.Written(&f.Value) == hasEnds && !p.Written(&f.Readings), p.Written(&f.Readings) && (hasEnds || p.Written(&f.Value)):
		p.Wrong(f, "write value, or sender and receiver, or readings", "a figure for %s has no value, or several", f.Metric)
		return nil
	case p.Written(&f.Readings) != p.Written(&f.Unit):
		p.Wrong(f, "write readings: 985 951 and unit: Mbit, or neither", "readings and their unit belong together")
		return nil
	case p.Written(&f.Printed) && !p.Written(&f.Value):
		p.Misplaced(&f.Printed, "leave it out", "printed needs a value")
	}
	base := result.PublishedNumber{Metric: metric.Name, Label: metric.Label, Unit: metric.Unit,
		Run: f.Run, Note: string(f.Note)}
	var out []result.PublishedNumber
	add := func(field *ValueText, end string) {
		if *field != "" {
			n := base
			n.End, n.Printed, n.Value = end, string(*field), p.value(field, metric, string(*field))
			out = append(out, n)
		}
	}
	add(&f.Value, "")
	add(&f.Sender, result.PublishedSender)
	add(&f.Receiver, result.PublishedReceiver)
	for i, reading := range strings.Fields(string(f.Readings)) {
		n := base
		n.Second, n.Printed = i+1, reading+string(f.Unit)
		n.Value = p.value(&f.Readings, metric, n.Printed)
		out = append(out, n)
	}
	if f.Printed != "" && len(out) == 1 {
		out[0].Printed = string(f.Printed)
	}
	return out
}

func (p *publishedLoader) metricNames() []string {
	out := slices.Sorted(maps.Keys(p.metrics))
	for _, m := range measurement.Catalogue() {
		out = append(out, m.Name)
	}
	return out
}
