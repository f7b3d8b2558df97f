package experiment

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/strict"
)

// The document's table of the keys of a hop says of every key, in the order of
// FileHop, which types can have it.
func TestDocHasEveryKeyOfAHop(t *testing.T) {
	doc, _ := readDoc(t)
	_, rows, _ := strings.Cut(doc, "| key | types | value | default |\n|---|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var keys []string
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		key := strings.Trim(cells[1], " `")
		keys = append(keys, key)
		var names []string
		for _, hopType := range HopTypesOf(key) {
			names = append(names, string(hopType))
		}
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
