package data

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// resultTypes lists the structs that result.json and the other documents are
// made of.
func resultTypes() []reflect.Type {
	var out []reflect.Type
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			if t == reflect.TypeFor[time.Time]() || seen[t] {
				return
			}
			seen[t] = true
			out = append(out, t)
			for i := range t.NumField() {
				if t.Field(i).Tag.Get("json") != "-" {
					visit(t.Field(i).Type)
				}
			}
		}
	}
	visit(reflect.TypeFor[result.Result]())
	visit(reflect.TypeFor[result.Comparison]())
	visit(reflect.TypeFor[result.Index]())
	visit(reflect.TypeFor[result.PublishedData]())
	visit(reflect.TypeFor[event.Event]())
	return out
}

// explains says that the first cell of a row of a Markdown table names a field.
func explains(section, name string) bool {
	for l := range strings.Lines(section) {
		first, _, _ := strings.Cut(strings.TrimPrefix(l, "|"), "|")
		if strings.HasPrefix(l, "|") && strings.Contains(first, "`"+name+"`") {
			return true
		}
	}
	return false
}

// TestDataFormatIsDocumented holds that docs/data-format.md has a section per
// struct of the result and, in it, every field by its JSON name; and that it
// names every column of trials.csv, and docs/options.md every metric.
func TestDataFormatIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../docs/data-format.md")
	testutil.OK(t, err)
	text := string(b)
	options, err := os.ReadFile("../../../docs/options.md")
	testutil.OK(t, err)
	for _, typ := range resultTypes() {
		_, section, found := strings.Cut(text, "\n### "+typ.Name()+"\n")
		if !found {
			t.Errorf("there is no section %q", "### "+typ.Name())
			continue
		}
		section, _, _ = strings.Cut(section, "\n### ")
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue // its fields are the outer object's
			}
			if name == "" {
				t.Errorf("%s.%s has no JSON name", typ.Name(), f.Name)
			}
			if typ == reflect.TypeFor[measurement.Spec]() {
				section = "| `kind` |\n" + string(options)
			}
			if !explains(section, name) {
				t.Errorf("section %s does not explain `%s`", typ.Name(), name)
			}
		}
	}
	for _, m := range measurement.Catalogue() {
		if !strings.Contains(string(options), "| `"+m.Name+"` |") {
			t.Errorf("the metric `%s` is not explained", m.Name)
		}
	}
	_, csvSection, _ := strings.Cut(text, "\n## trials.csv\n")
	for _, column := range csvHeader {
		if !strings.Contains(csvSection, "| `"+column+"` |") {
			t.Errorf("the column `%s` of trials.csv is not explained", column)
		}
	}
	_, findingSection, _ := strings.Cut(text, "\n### Finding\n")
	findingSection, _, _ = strings.Cut(findingSection, "\n### ")
	for _, code := range append(measurement.GateCodes(), measurement.PathCodes()...) {
		if !explains(findingSection, string(code)) {
			t.Errorf("section Finding does not explain the code `%s`", code)
		}
	}
	_, noteSection, _ := strings.Cut(text, "\n### Note\n")
	for _, code := range result.NoteCodes() {
		if !explains(noteSection, string(code)) {
			t.Errorf("the note `%s` is not explained", code)
		}
	}
	_, eventSection, _ := strings.Cut(text, "\n### Event\n")
	for _, code := range event.Codes() {
		if !explains(eventSection, string(code)) {
			t.Errorf("section Event does not explain the code `%s`", code)
		}
	}
	for _, format := range []string{event.Format, result.Format, result.ComparisonFormat, result.IndexFormat, result.PublishedFormat} {
		if !strings.Contains(text, format) {
			t.Errorf("the format %q is not named", format)
		}
	}
}
