package strict_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

type garden struct {
	Format string          `json:"format" jsonschema:"enum=hopbench.garden/1"`
	Beds   beds            `json:"beds"`
	Size   strict.SizeText `json:"size,omitempty"`
	Kind   plant           `json:"kind,omitempty"`
	Extra  extra           `json:"-"`
}

type plant string

type beds []strict.Entry[strict.NameText, bed]

func (beds) Entries() strict.Entries {
	return strict.Entries{What: "beds with their plants", Key: "bed", Example: "{a: {plants: [rose]}}", Least: 1, Most: 2}
}

type bed struct {
	Plants []strict.NameText `json:"plants" jsonschema:"minItems=1,maxItems=3"`
	Wet    bool              `json:"wet,omitempty"`
}

// extra are keys of a table: spades and rakes, which are numbers.
type extra map[string]int

func (*extra) Names(reflect.Type) []string { return []string{"spades", "rakes"} }

func (*extra) New(string) (any, reflect.StructTag) {
	return new(int), `jsonschema:"minimum=1,maximum=9"`
}

func (e *extra) Put(key string, value any) {
	if *e == nil {
		*e = extra{}
	}
	(*e)[key] = *value.(*int)
}

func read(text string, stored bool) (garden, *strict.Decoder, error) {
	rules := strict.TextRules()
	rules[reflect.TypeFor[plant]()] = strict.Rule{Enum: []string{"rose", "tulip"}}
	var g garden
	d := strict.New("g.yaml", []byte(text), strict.Document{
		Format: "hopbench.garden/1", Noun: "garden", Top: "the garden", Texts: rules, Stored: stored,
		Renames: []strict.Rename{
			{In: reflect.TypeFor[bed](), Old: "dry", New: "wet", Negated: true},
			{In: reflect.TypeFor[plant](), Old: "rosa", New: "rose"},
		},
	})
	d.Decode(&g)
	return g, d, d.Err()
}

const good = `format: hopbench.garden/1
beds:
  south: {plants: [rose, tulip], wet: true}
  north: {plants: [fern]}
size: 3kB
kind: rose
spades: 2
`

func TestGoodFile(t *testing.T) {
	g, d, err := read(good, false)
	testutil.OK(t, err)
	if len(g.Beds) != 2 || g.Beds[0].Key != "south" || !g.Beds[0].Value.Wet || g.Beds[1].Value.Plants[0] != "fern" || g.Extra["spades"] != 2 {
		t.Errorf("read %+v", g)
	}
	if d.Line(strict.KeyOf{Table: &g.Extra, Key: "spades"}) != 0 {
		t.Error("a copy of a table is known to the decoder")
	}
}

// Old names are read in what was stored, and refused with the new ones elsewhere.
func TestOldNames(t *testing.T) {
	old := strings.NewReplacer("wet: true", "dry: false", "kind: rose", "kind: rosa").Replace(good)
	g, _, err := read(old, true)
	testutil.OK(t, err)
	if !g.Beds[0].Value.Wet || g.Kind != "rose" {
		t.Errorf("read %+v", g)
	}
	_, _, err = read(old, false)
	if err == nil || !strings.Contains(err.Error(), `write wet: true`) || !strings.Contains(err.Error(), "write rose") {
		t.Errorf("got %v", err)
	}
}

// An alias is what it stands for, as a key as well, and at its own place.
func TestAliases(t *testing.T) {
	const text = `format: hopbench.garden/1
beds:
  &south south: {plants: [&plant rose, *plant], dry: &dry false}
  *plant : {plants: [*south], dry: *dry}
&size size: 3kB
kind: *plant
`
	g, _, err := read(text, true)
	testutil.OK(t, err)
	if b := g.Beds[1]; b.Key != "rose" || b.Value.Plants[0] != "south" || !b.Value.Wet || g.Kind != "rose" {
		t.Errorf("read %+v", g)
	}
	_, _, err = read(strings.Replace(text, "*plant :", "plant:", 1), true) // the name of an anchor is none of a bed
	testutil.OK(t, err)
	for old, c := range map[string]struct{ now, want string }{
		"*plant : {":   {"*south : {", `4:3: bed "south" is there twice; the first is at line 3, column 3`},
		"kind: *plant": {"*size : 4kB", `6:1: key "size" is there twice; the first is at line 5, column 1`},
	} {
		if _, _, err := read(strings.Replace(text, old, c.now, 1), true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.now, err, c.want)
		}
	}
}

// Each of these is one mistake.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"another format":       {"hopbench.garden/1", "hopbench.kitchen/1", `1:9: this is a file of format "hopbench.kitchen/1", not a garden; give a file with format: hopbench.garden/1`},
		"another version":      {"hopbench.garden/1", "hopbench.garden/2", `1:9: this is a file of format "hopbench.garden/2", which this version of hopbench does not read; take a version that does, or write the file anew with format: hopbench.garden/1`},
		"no mapping":           {"{plants: [fern]}", "{plants: [fern]}\n  east: {plants: [fern]}", "3:3: beds has 3 entries; list at most 2"},
		"entry twice":          {"north:", "south:", `4:3: bed "south" is there twice; the first is at line 3, column 3`},
		"entry of a list":      {"north: {plants: [fern]}", "north: [fern]", `4:10: bed "north" is a list, not keys with values`},
		"key that is a number": {"north:", "7:", `4:3: 7 is not text to YAML; write it in quotes: "7"`},
		"unknown key":          {"plants: [fern]", "plant: [fern]", `4:11: unknown key "plant" in bed "north"; did you mean "plants"?`},
		"key of the top":       {"{plants: [fern]}", "{plants: [fern], rakes: 2}", `4:27: unknown key "rakes" in bed "north"; it can stand at the top of the file` + "\n"},
		"key of a bed":         {"size: 3kB", "size: 3kB\nwet: true", `6:1: unknown key "wet" in the garden; it can stand at beds.<bed>.wet` + "\n"},
		"key of a table":       {"spades: 2", "spades: 20", "7:9: spades is 20; write a whole number from 1 to 9"},
		"word":                 {"kind: rose", "kind: nettle", `6:7: kind cannot be "nettle"; write rose or tulip`},
		"misspelled":           {"spades:", "spade:", `7:1: unknown key "spade" in the garden; did you mean "spades"?`},
		"too few":              {"[fern]", "[]", `4:19: plants of bed "north" has 0 items; list at least 1`},
		"too large":            {"size: 3kB", "size: 3 kB " + strings.Repeat("#", strict.MaxFileBytes), "more than the 1048576 that a garden may have"},
		"too deep":             {"size: 3kB", "size: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "a garden needs five levels"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, _, err := read(text, false)
		var mistakes strict.Errors
		if !errors.As(err, &mistakes) || len(mistakes) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", name, err, c.want)
			continue
		}
		stricttest.CheckErrors(t, err, []byte(text))
	}
}
