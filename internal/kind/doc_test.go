package kind

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

var update = flag.Bool("update", false, "write the tables of the documents anew")

// The tables of kinds, options, flags and metrics in the documents are those of the
// code.
func TestDocuments(t *testing.T) {
	inDocument(t, "kinds", kindsTable())
	inDocument(t, "options", optionsTable())
	inDocument(t, "flags", flagsTable())
	inDocument(t, "metrics", metricsTable())
}

// inDocument compares what lies between the marks of a table in the document with the
// table.
func inDocument(t *testing.T, name, table string) {
	t.Helper()
	const file = "../../docs/options.md"
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	start, end := "<!-- "+name+": written by go test ./internal/kind -update -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(string(text), start)
	was, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Fatalf("%s has no place for the table of %s", file, name)
	case was == table:
	case *update:
		testutil.OK(t, os.WriteFile(file, []byte(before+start+table+end+after), 0o644))
	default:
		t.Errorf("%s is not what the table of %s gives; run go test ./internal/kind -update", file, name)
	}
}

func table(columns ...string) *strings.Builder {
	var b strings.Builder
	row(&b, columns...)
	row(&b, slices.Repeat([]string{"---"}, len(columns))...)
	return &b
}

func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func kindsTable() string {
	b := table("kind", "measures", "primary metric", "server")
	for _, k := range All() {
		primary, _ := measurement.PrimaryOf(k.Name)
		row(b, code(string(k.Name)), k.Doc, code(primary.Name), map[bool]string{false: "yes", true: "not needed"}[k.NoServer])
	}
	return b.String()
}

func optionsTable() string {
	fields := map[any]string{}
	var spec measurement.Spec
	v := reflect.ValueOf(&spec).Elem()
	for i := range v.NumField() {
		fields[v.Field(i).Addr().Interface()], _, _ = strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
	}
	b := table("field", "key", "flag", "kinds", "value", "default", "what it does")
	for _, o := range Options() {
		key, value := "", o.BoundsText()
		if o.InFile {
			key = code(o.Name)
		}
		if o.LeastScaled > 0 {
			value += fmt.Sprintf("; in a file, after scaling, at least %s", o.Format(o.LeastScaled))
		}
		if o.PerFlow {
			value += " for each segment"
		}
		row(b, code(fields[o.field(&spec)]), key, flagText(o.Flag, o.Short, o.Aliases), kindsText(o.Kinds), value, o.DefaultText(), o.Doc)
	}
	return b.String()
}

func flagsTable() string {
	b := table("flag", "kinds", "sets", "what it does")
	for _, f := range append(slices.Clone(otherFlags), rateFlag) {
		var sets []string
		for _, s := range f.Settings {
			for _, o := range s.Options {
				text := code(o)
				if s.Value != nil {
					text = code(fmt.Sprintf("%s: %v", o, s.Value))
				}
				if s.Each {
					text += " (a flow's part)"
				}
				sets = append(sets, text)
			}
		}
		row(b, flagText(f.Name, f.Short, f.Aliases), kindsText(f.Kinds()), strings.Join(sets, ", "), f.Doc)
	}
	return b.String()
}

func metricsTable() string {
	b := table("metric", "unit", "kinds", "meaning")
	for _, m := range measurement.Catalogue() {
		doc := m.Doc
		if m.ScalesWithRate {
			doc += "; scales"
		}
		row(b, code(m.Name), string(m.Unit), kindsText(m.Kinds), doc)
	}
	return b.String()
}

func flagText(name, short string, aliases []string) string {
	if name == "" {
		return ""
	}
	var all []string
	if short != "" {
		all = append(all, code("-"+short))
	}
	for _, n := range append([]string{name}, aliases...) {
		all = append(all, code("--"+n))
	}
	return strings.Join(all, ", ")
}

func kindsText(kinds []measurement.Kind) string { return strings.Join(Texts(kinds), ", ") }

func code(text string) string { return "`" + text + "`" }
