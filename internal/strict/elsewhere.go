package strict

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hopbench/hopbench/internal/spelling"
)

const (
	// mostPlaces is how many places of a key a message lists.
	mostPlaces = 3
	// deepest bounds how deep types are looked into: one may contain itself.
	deepest = 8
	// topOfFile is the place of a key that is nested in nothing.
	topOfFile = "the top of the file"
)

// insteadOf says what could replace a key that cannot stand where it does: a key of that
// place with a similar name, else the places of the file that have this key, else what is
// taken there of the known keys.
func (d *Decoder) insteadOf(key string, known, taken []string) string {
	for _, keys := range [][]string{taken, known} {
		if spelling.Nearest(key, keys) != "" {
			return Instead(key, keys)
		}
	}
	if places := d.placesOf(key); len(places) > 0 {
		return "it can stand at " + OneOf(places[:min(len(places), mostPlaces)])
	}
	if len(taken) > mostListed && d.Schema != "" {
		return tooMany + ": " + d.Schema
	}
	return Instead(key, taken)
}

// taken are those of the known keys that a mapping of that type takes.
func (d *Decoder) taken(node *yaml.Node, in reflect.Type, known []string) []string {
	if d.Takes == nil {
		return known
	}
	text := func(key string) string { return scalarOf(node, key) }
	return slices.DeleteFunc(slices.Clone(known), func(key string) bool { return !d.Takes(in, key, text) })
}

// placesOf lists where a file may have a key, the outermost first, as in
// endpoints[].vswitch.
func (d *Decoder) placesOf(key string) []string {
	var places []string
	var look func(t reflect.Type, at string, depth int)
	look = func(t reflect.Type, at string, depth int) {
		if depth > deepest {
			return
		}
		if mapping, ok := reflect.TypeAssert[Mapping](reflect.Zero(t)); ok {
			look(t.Elem().Field(1).Type, at+".<"+mapping.Entries().Key+">", depth+1)
			return
		}
		switch t.Kind() {
		case reflect.Pointer:
			look(t.Elem(), at, depth+1)
		case reflect.Slice:
			look(t.Elem(), at+"[]", depth+1)
		case reflect.Struct:
			keys := KeysOf(t)
			table := tableOf(reflect.New(t).Elem())
			switch here := key != "-" && (slices.Contains(keys, key) || table != nil && slices.Contains(table.Names(t), key)); {
			case here && at == "":
				places = append(places, topOfFile)
			case here:
				places = append(places, at[1:]+"."+key)
			}
			for i, k := range keys {
				if k != "-" {
					look(t.Field(i).Type, at+"."+k, depth+1)
				}
			}
		}
	}
	look(d.top, "", 0)
	slices.SortStableFunc(places, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
	return places
}
