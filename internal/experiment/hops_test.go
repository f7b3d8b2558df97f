package experiment

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The document's table of the keys of a hop says of every key, in the order of
// FileHop, which types can have it; it names every type, and those that can be bypassed.
func TestDocHasEveryKeyOfAHop(t *testing.T) {
	text, err := os.ReadFile("../../docs/hops.md")
	testutil.OK(t, err)
	doc := string(text)
	stricttest.CheckDocument(t, doc, reflect.TypeFor[FileHop](), reflect.TypeFor[FileScaleOut]())
	var bypassed []string
	for _, r := range hopTable() {
		if !strings.Contains(doc, "\n| `"+string(r.name)+"` | ") {
			t.Errorf("the document does not say what a %s models", r.name)
		}
		if r.bypass != NoBypass {
			bypassed = append(bypassed, string(r.name))
		}
	}
	if want := strings.Replace(kind.Either(bypassed), " or ", " and ", 1); !strings.Contains(strings.ReplaceAll(doc, "\n", " "), "of the types "+want) {
		t.Errorf("the document does not say that %s can be bypassed", want)
	}
	_, rows, _ := strings.Cut(doc, "| key | types | value | default |\n|---|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var keys []string
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		key := strings.Trim(cells[1], " `")
		keys = append(keys, key)
		names := kind.Texts(HopTypesOf(key))
		want := []string{strings.Join(names, ", ")}
		switch len(names) {
		case len(HopTypes()):
			want = []string{"all"}
		case len(HopTypes()) - 1:
			want = append(want, "all but link")
		}
		if got := strings.TrimSpace(cells[2]); !slices.Contains(want, got) {
			t.Errorf("the document gives %s to %s, the loader to %v", key, got, want)
		}
	}
	if want := strict.KeysOf(reflect.TypeFor[FileHop]()); !reflect.DeepEqual(keys, want) {
		t.Errorf("the document has the keys\n%v\nwhere a hop has\n%v", keys, want)
	}
}

// The schema names every type of hop, describes every key, and refuses to each type the keys
// that it cannot have.
func TestSchemaHasEveryHop(t *testing.T) {
	var schema struct {
		Defs struct {
			Hop struct {
				Properties map[string]struct {
					Description string
					Enum        []HopType
				}
				AllOf []struct {
					If struct {
						Properties struct{ Type struct{ Const HopType } }
					}
					Then struct {
						Properties map[string]bool
						Required   []string
					}
				}
			}
		} `json:"$defs"`
	}
	testutil.OK(t, json.Unmarshal(Schema(), &schema))
	hop := schema.Defs.Hop
	if types := hop.Properties["type"].Enum; !slices.Equal(types, HopTypes()) || len(hop.AllOf) != len(types) {
		t.Fatalf("the schema has the types %v in %d rows", types, len(hop.AllOf))
	}
	keys := strict.KeysOf(reflect.TypeFor[FileHop]())
	if len(hop.Properties) != len(keys) {
		t.Errorf("the schema has %d keys, a hop %d", len(hop.Properties), len(keys))
	}
	for _, key := range keys {
		if hop.Properties[key].Description == "" {
			t.Errorf("the schema does not describe %s", key)
		}
		for i, name := range HopTypes() {
			row := hop.AllOf[i]
			if _, refused := row.Then.Properties[key]; row.If.Properties.Type.Const != name || refused == slices.Contains(HopTypesOf(key), name) {
				t.Errorf("row %d of the schema, of %s, refuses %s: %v", i, name, key, refused)
			}
		}
	}
	for i, name := range HopTypes() {
		if named := slices.Equal(hop.AllOf[i].Then.Required, []string{"name"}); named == (name == Link) {
			t.Errorf("the schema asks a %s for %v", name, hop.AllOf[i].Then.Required)
		}
	}
}
