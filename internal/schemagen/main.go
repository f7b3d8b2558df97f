// Command schemagen writes the JSON Schemas of the files that people write, for
// editors, from the types that the loaders themselves decode into. `go generate` runs
// it in the directory of such a loader.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/strict"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

const module = "github.com/hopbench/hopbench/"

// format is a kind of file.
type format struct {
	pkg   string // import path below the module, of the package that loads it
	title string
	file  any // a pointer to its type
	texts map[reflect.Type]strict.Rule
	// special are schemas of types that are no structs, nil for none of its own.
	special func(reflect.Type) *jsonschema.Schema
	// restrict adds to the schema, and takes away, what the types do not say.
	restrict func(*jsonschema.Schema)
}

func formats() map[string]format {
	return map[string]format{
		"experiment": {
			pkg: "internal/experiment", title: "hopbench experiment", file: &experiment.File{}, texts: experiment.TextRules(),
			special: mattersSchema, restrict: restrictExperiment,
		},
		"testbed": {
			pkg: "internal/testbed/inventory", title: "hopbench testbed", file: &inventory.File{}, texts: inventory.TextRules(),
			special: argumentSchema, restrict: restrictTestbed,
		},
	}
}

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if err := write(flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func write(name, out string) error {
	f, known := formats()[name]
	if !known {
		return fmt.Errorf("there is no format %q", name)
	}
	text, err := f.generate(module+f.pkg, ".")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, text, 0o644); err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	return nil
}

// generate makes the schema. Descriptions are the comments of the source in
// directory, which is relative to the working directory; base is such that
// base joined with directory is the import path of the package.
func (f format) generate(base, directory string) ([]byte, error) {
	r := &jsonschema.Reflector{
		Anonymous:      true,
		ExpandedStruct: true,
		Mapper:         f.schema,
		Namer:          nameOf,
	}
	if err := r.AddGoComments(base, directory, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("read the comments of package %s: %w", path.Base(f.pkg), err)
	}
	for name, comment := range r.CommentMap {
		comment = strings.Join(strings.Fields(comment), " ")
		// Comments on types start with Go's name for them, which tells a
		// reader of the schema nothing.
		if _, goName, ok := strings.Cut(name, module+f.pkg+"."); ok && strings.HasPrefix(comment, goName+" is ") {
			comment = upperFirst(strings.TrimPrefix(comment, goName+" is "))
		} else if ok && strings.HasPrefix(comment, goName+" are ") {
			comment = upperFirst(strings.TrimPrefix(comment, goName+" are "))
		}
		r.CommentMap[name] = comment
	}
	schema := r.Reflect(f.file)
	schema.Title = f.title
	// What a mapping has as its values is known to nobody else.
	for _, value := range valuesOf(reflect.TypeOf(f.file)) {
		inner := r.ReflectFromType(value)
		if schema.Definitions == nil {
			schema.Definitions = jsonschema.Definitions{}
		}
		for name, definition := range inner.Definitions {
			schema.Definitions[name] = definition
		}
		inner.Version, inner.Definitions = "", nil
		schema.Definitions[nameOf(value)] = inner
	}
	f.restrict(schema)
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(text, '\n'), nil
}

func nameOf(t reflect.Type) string { return strings.ToLower(strings.TrimPrefix(t.Name(), "File")) }

// valuesOf lists the structs that are values of mappings in a type.
func valuesOf(t reflect.Type) (values []reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		return valuesOf(t.Elem())
	case reflect.Slice:
		if _, value, ok := mapping(t); ok && value.Kind() == reflect.Struct {
			values = append(values, value)
			return append(values, valuesOf(value)...)
		}
		return valuesOf(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			values = append(values, valuesOf(t.Field(i).Type)...)
		}
	}
	return values
}

// mapping is the types of the keys and values of a mapping, false for any other type.
func mapping(t reflect.Type) (key, value reflect.Type, ok bool) {
	if !t.Implements(reflect.TypeFor[strict.Mapping]()) {
		return nil, nil, false
	}
	return t.Elem().Field(0).Type, t.Elem().Field(1).Type, true
}

// schema is that of a kind of text or a mapping, nil for what is neither.
func (f format) schema(t reflect.Type) *jsonschema.Schema {
	if s := f.special(t); s != nil {
		return s
	}
	if rule, ok := f.texts[t]; ok {
		return textSchema(rule)
	}
	key, value, ok := mapping(t)
	if !ok {
		return nil
	}
	entries := reflect.New(t).Elem().Interface().(strict.Mapping).Entries()
	least, most := uint64(entries.Least), uint64(entries.Most)
	s := &jsonschema.Schema{Type: "object", PropertyNames: f.schema(key), MinProperties: &least, MaxProperties: &most}
	switch value.Kind() {
	case reflect.Struct:
		s.AdditionalProperties = &jsonschema.Schema{Ref: "#/$defs/" + nameOf(value)}
	case reflect.Slice:
		s.AdditionalProperties = &jsonschema.Schema{Type: "array", Items: f.schema(value.Elem())}
		bounds(s.AdditionalProperties, t.Elem().Field(1).Tag)
	default:
		if s.AdditionalProperties = f.schema(value); s.AdditionalProperties == nil {
			s.AdditionalProperties = &jsonschema.Schema{Type: "string"}
		}
		bounds(s.AdditionalProperties, t.Elem().Field(1).Tag)
	}
	return s
}

// bounds adds what a field's tag says of its value.
func bounds(s *jsonschema.Schema, tag reflect.StructTag) {
	for _, part := range strings.Split(tag.Get("jsonschema"), ",") {
		name, text, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(text, 10, 64)
		switch {
		case name == "enum":
			s.Enum = append(s.Enum, text)
		case name == "minItems" && err == nil:
			s.MinItems = &n
		case name == "maxItems" && err == nil:
			s.MaxItems = &n
		}
	}
}

func textSchema(rule strict.Rule) *jsonschema.Schema {
	if len(rule.Enum) > 0 {
		enum := &jsonschema.Schema{Type: "string"}
		for _, value := range rule.Enum {
			enum.Enum = append(enum.Enum, value)
		}
		return enum
	}
	least := uint64(1)
	text := &jsonschema.Schema{Type: "string", Pattern: rule.Pattern, MinLength: &least, MaxLength: &rule.MaxLength}
	if !rule.Number {
		if rule.Example != "" {
			text.Examples = []any{rule.Example}
		}
		return text
	}
	return &jsonschema.Schema{
		AnyOf:    []*jsonschema.Schema{text, {Type: "number", Minimum: "0"}},
		Examples: []any{rule.Example},
	}
}

// whenIs matches objects in which key has the value.
func whenIs(key, value string) *jsonschema.Schema {
	properties := jsonschema.NewProperties()
	properties.Set(key, &jsonschema.Schema{Const: value})
	return &jsonschema.Schema{Properties: properties, Required: []string{key}}
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
