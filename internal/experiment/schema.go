package experiment

import (
	"encoding/json"
	"reflect"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/strict"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema is the JSON Schema of experiment files, for editors: what is generated from Go
// types, and what follows from the tables of kinds, options and metrics.
func Schema() []byte {
	var schema object
	if err := json.Unmarshal(experiments.Schema(), &schema); err != nil {
		panic(err) // a test compares the file with what is generated
	}
	inside := func(o object, keys ...string) object {
		for _, key := range keys {
			o = o[key].(object)
		}
		return o
	}
	parts, top := inside(schema, "$defs"), inside(schema, "properties")
	var metrics []string
	for _, m := range measurement.Catalogue() {
		metrics = append(metrics, m.Name)
	}
	inside(parts, "figure", "properties", "metric")["enum"] = metrics
	inside(top, "matters")["propertyNames"] = object{"type": "string", "enum": MatterNames()}
	test := inside(parts, "test")
	inside(test, "properties", "kind")["enum"] = kindNames()
	addOptions(inside(test, "properties"), inside(parts, "length", "properties"))
	test["allOf"] = ofEachKind()
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // it was JSON
	}
	return append(text, '\n')
}

// addOptions adds the options to a test, and to what differs in a test of another length.
func addOptions(test, length object) {
	for _, o := range kind.Options() {
		if !o.InFile {
			continue
		}
		s := optionSchema(o)
		if other, ok := test[o.Name].(object); ok { // of other kinds
			s["enum"] = append(other["enum"].([]string), s["enum"].([]string)...)
			s["description"] = other["description"].(string) + "; or " + s["description"].(string)
		}
		test[o.Name] = s
		if o.InLength {
			length[o.Name] = s
		}
	}
}

// ofEachKind refuses the options that a kind does not take.
func ofEachKind() (all []object) {
	for _, k := range kind.All() {
		refused := object{}
		for _, o := range kind.Options() {
			if _, takes := kind.Find(k.Name, o.Name); o.InFile && !takes {
				refused[o.Name] = false
			}
		}
		if !HasLengths(k.Name) {
			refused["full"], refused["quick"] = false, false
		}
		is := object{"properties": object{"kind": object{"const": k.Name}}, "required": []string{"kind"}}
		all = append(all, object{"if": is, "then": object{"properties": refused}})
	}
	return all
}

// optionSchema is the schema of an option's value, within the bounds of any kind.
func optionSchema(o kind.Option) object {
	text := map[kind.Type]reflect.Type{
		kind.Time: reflect.TypeFor[strict.TimeText](), kind.Size: reflect.TypeFor[strict.SizeText](),
		kind.Rate: reflect.TypeFor[strict.RateText](), kind.Share: reflect.TypeFor[strict.FractionText](),
	}
	s := object{}
	switch o.Type {
	case kind.Truth:
		s["type"] = "boolean"
	case kind.Whole, kind.DSCP:
		s = object{"type": "integer", "minimum": o.Least, "maximum": o.Most}
	case kind.Number:
		s = object{"type": "number", "minimum": o.Least, "maximum": o.Most}
	case kind.Word:
		s = object{"type": "string", "enum": o.AllWords()}
	default:
		rule := TextRules()[text[o.Type]]
		s = object{"type": "string", "minLength": 1, "maxLength": rule.MaxLength, "pattern": rule.Pattern}
		if rule.Number {
			s = object{"anyOf": []object{s, {"type": "number", "minimum": 0}}}
		}
		s["examples"] = []string{rule.Example}
	}
	s["description"] = o.Doc + "; " + o.DefaultText() + " when left out"
	return s
}
