package strict

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hopbench/hopbench/internal/quantity"
)

// Mapping is a slice that a file writes as keys with values, in an order that means
// nothing. Its items are structs of two fields, the key and the value.
type Mapping interface {
	Entries() Entries
}

// Entries is what a Mapping has.
type Entries struct {
	What    string // "metrics with their margins"
	Key     string // "metric"
	Example string // "{rtt_p50: 50us, goodput: 3%}"
	Least   int
	Most    int
}

// mapping decodes a mapping whose keys the file chooses.
func (d *Decoder) mapping(node *yaml.Node, v reflect.Value, e Entries, what string) {
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, node.Column, fmt.Sprintf("%s is %s, not %s", what, kindOf(node), e.What), "write it as in "+e.Example)
		return
	}
	n := len(node.Content) / 2
	if n < e.Least {
		d.add(node.Line, node.Column, fmt.Sprintf("%s has %s", what, quantity.Count(n, e.Key)), fmt.Sprintf("list at least %d", e.Least))
	}
	if n > e.Most {
		d.add(node.Line, node.Column, fmt.Sprintf("%s has %d entries", what, n), fmt.Sprintf("list at most %d", e.Most))
		return
	}
	// Made once at its full length: the addresses of its items are the keys of d.at.
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	first := make(map[string]*yaml.Node)
	for i := range n {
		key, value, item := meant(node.Content[2*i]), node.Content[2*i+1], v.Index(i)
		if key.Tag == "!!merge" {
			d.add(key.Line, key.Column, "merge keys (<<) are not part of this format", "write the keys out")
			continue
		}
		if other := first[key.Value]; other != nil && key.Kind == yaml.ScalarNode {
			d.add(key.Line, key.Column, fmt.Sprintf("%s %q is there twice", e.Key, Clip(key.Value)),
				fmt.Sprintf("the first is at line %d, column %d", other.Line, other.Column))
			continue
		}
		first[key.Value] = key
		d.at[item.Addr().Interface()] = value
		name := fmt.Sprintf("%s of %s", Clip(key.Value), what)
		if _, owner, inner := strings.Cut(what, " of "); inner {
			name = fmt.Sprintf("%s %q of %s", e.Key, Clip(key.Value), owner)
		} else if item.Field(1).Kind() == reflect.Struct {
			name = fmt.Sprintf("%s %q", e.Key, Clip(key.Value))
		}
		d.value(key, item.Field(0), item.Type().Field(0), fmt.Sprintf("a %s of %s", e.Key, what))
		d.value(value, item.Field(1), item.Type().Field(1), name)
	}
}

// Table gives keys to the structs that have it as a field, whose json tag is "-", in
// addition to those of their fields.
type Table interface {
	// Names lists the keys that a struct can have.
	Names(in reflect.Type) []string
	// New is a pointer to a value of the type that a key has, and its tags.
	New(key string) (value any, tags reflect.StructTag)
	// Put keeps what New's value became without a mistake.
	Put(key string, value any)
}

// KeyOf is a key of a table as a place in the file: the decoder knows it as it knows
// the address of a field.
type KeyOf struct {
	Table Table
	Key   string
}

// tableOf is where a type keeps the keys that are no fields, nil if it has none.
func tableOf(v reflect.Value) Table {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == "-" {
			table, _ := reflect.TypeAssert[Table](v.Field(i).Addr())
			return table
		}
	}
	return nil
}

// fromTable decodes the value of a key of a table.
func (d *Decoder) fromTable(key, node *yaml.Node, table Table, what string) {
	at := KeyOf{table, key.Value}
	d.keyAt[at], d.at[at] = key, node
	before := len(d.found)
	value, tags := table.New(key.Value)
	d.value(node, reflect.ValueOf(value).Elem(), reflect.StructField{Tag: tags}, what)
	if len(d.found) == before {
		table.Put(key.Value, value)
	}
}

// Entry is the usual item of a Mapping.
type Entry[K ~string, V any] struct {
	Key   K
	Value V
}

// Keys are the keys of a Mapping, as places in the file.
func Keys[K ~string, V any](entries []Entry[K, V]) []*K {
	keys := make([]*K, len(entries))
	for i := range entries {
		keys[i] = &entries[i].Key
	}
	return keys
}
