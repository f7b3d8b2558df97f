package experiment

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/strict"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema is the JSON Schema of experiment files, for editors: what is generated from Go
// types, and what follows from the tables of hops, kinds, options and metrics.
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
	inside(top, "matters")["propertyNames"] = object{"type": "string", "enum": matterNames()}
	addHops(inside(parts, "hop"))
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

// addHops adds to a hop the keys of its types, and refuses those that a type does not take.
func addHops(hop object) {
	keys := hop["properties"].(object)
	keys["type"].(object)["enum"] = HopTypes()
	var types []object
	for _, t := range HopTypes() {
		then, refused := object{}, object{}
		if t != Link {
			then["required"] = []string{"name"}
		}
		for f := range reflect.TypeFor[FileHop]().Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch of := HopTypesOf(key); {
			case !slices.Contains(of, t):
				refused[key] = false
			case len(of) < len(HopTypes()):
				keys[key] = keySchema(f)
			}
		}
		then["properties"] = refused
		is := object{"properties": object{"type": object{"const": t}}, "required": []string{"type"}}
		types = append(types, object{"if": is, "then": then})
	}
	hop["allOf"] = types
}

// keySchema is the schema of the value that a field has in a file.
func keySchema(f reflect.StructField) object {
	s := object{}
	switch rule, isText := TextRules()[f.Type]; {
	case isText:
		s = textSchema(rule)
	case f.Type.Kind() == reflect.Pointer:
		s["$ref"] = "#/$defs/" + strings.ToLower(strings.TrimPrefix(f.Type.Elem().Name(), "File"))
	default:
		s["type"] = map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.String: "string"}[f.Type.Kind()]
	}
	for _, tag := range strings.Split(f.Tag.Get("jsonschema"), ",") {
		switch name, text, _ := strings.Cut(tag, "="); name {
		case "minimum", "maximum":
			s[name] = json.Number(text)
		case "enum":
			words, _ := s[name].([]string)
			s[name] = append(words, text)
		}
	}
	s["description"] = f.Tag.Get("jsonschema_description")
	return s
}

func textSchema(rule strict.Rule) object {
	s := object{"type": "string", "minLength": 1, "maxLength": rule.MaxLength}
	if rule.Pattern != "" {
		s["pattern"] = rule.Pattern
	}
	if rule.Number {
		s = object{"anyOf": []object{s, {"type": "number", "minimum": 0}}}
	}
	if rule.Example != "" {
		s["examples"] = []string{rule.Example}
	}
	return s
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
		if !hasLengths(k.Name) {
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
		s = textSchema(TextRules()[text[o.Type]])
	}
	s["description"] = o.Doc + "; " + o.DefaultText() + " when left out"
	return s
}
