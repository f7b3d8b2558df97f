// Command schemagen writes the JSON Schema of experiment files, for editors,
// from the types that the loader itself decodes into. `go generate` runs it in
// the directory of package experiment.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/strict"
)

const experimentPackage = "github.com/hopbench/hopbench/internal/experiment"

func main() {
	out := flag.String("o", "experiment.schema.json", "file to write")
	flag.Parse()
	text, err := generate(experimentPackage, ".")
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "schemagen: write the schema to %s: %v\n", *out, err)
		os.Exit(1)
	}
}

// generate makes the schema. Descriptions are the comments of the source in
// directory, which is relative to the working directory; base is such that
// base joined with directory is the import path of package experiment.
func generate(base, directory string) ([]byte, error) {
	r := &jsonschema.Reflector{
		Anonymous:      true,
		ExpandedStruct: true,
		Mapper:         textSchema,
		Namer: func(t reflect.Type) string {
			return strings.ToLower(strings.TrimPrefix(t.Name(), "File"))
		},
	}
	if err := r.AddGoComments(base, directory, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("read the comments of package experiment: %w", err)
	}
	for name, comment := range r.CommentMap {
		comment = strings.Join(strings.Fields(comment), " ")
		// Comments on types start with Go's name for them, which tells a
		// reader of the schema nothing.
		if _, goName, ok := strings.Cut(name, experimentPackage+"."); ok && strings.HasPrefix(comment, goName+" is ") {
			comment = upperFirst(strings.TrimPrefix(comment, goName+" is "))
		} else if ok && strings.HasPrefix(comment, goName+" are ") {
			comment = upperFirst(strings.TrimPrefix(comment, goName+" are "))
		}
		r.CommentMap[name] = comment
	}
	schema := r.Reflect(&experiment.File{})
	schema.Title = "hopbench experiment"
	addOptions(schema.Definitions)
	restrictHops(schema.Definitions["hop"])
	restrictFigures(schema.Definitions["figure"])
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// textSchema maps the kinds of text in an experiment file to their patterns.
func textSchema(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[experiment.FileMatters]() {
		return mattersSchema()
	}
	rule, ok := experiment.TextRules()[t]
	if !ok {
		return nil
	}
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

// mattersSchema maps metrics, by any of their names, to their margins.
func mattersSchema() *jsonschema.Schema {
	names := &jsonschema.Schema{Type: "string"}
	for _, name := range experiment.MatterNames() {
		names.Enum = append(names.Enum, name)
	}
	margin := textSchema(reflect.TypeFor[experiment.ValueText]())
	margin.Examples = nil
	return &jsonschema.Schema{Type: "object", PropertyNames: names, AdditionalProperties: margin}
}

// addOptions adds the options of package kind's table to the schema of a test, or of
// what differs in a test at another length, and to that of a test which each kind
// can have.
func addOptions(schemas jsonschema.Definitions) {
	test, length := schemas["test"], schemas["length"]
	lengths := test.Properties
	test.Properties = jsonschema.NewProperties()
	for pair := lengths.Oldest(); pair != nil; pair = pair.Next() {
		if pair.Key == "full" {
			for _, o := range kind.Options() {
				if !o.InFile {
					continue
				}
				s := optionSchema(o)
				if other, ok := test.Properties.Get(o.Name); ok {
					s.Enum, s.Description = append(other.Enum, s.Enum...), other.Description+"; or "+s.Description
				}
				test.Properties.Set(o.Name, s)
				if o.InLength {
					length.Properties.Set(o.Name, s)
				}
			}
		}
		test.Properties.Set(pair.Key, pair.Value)
	}
	for _, k := range kind.All() {
		refused := jsonschema.NewProperties()
		for _, o := range kind.Options() {
			if _, takes := kind.Find(k.Name, o.Name); o.InFile && !takes {
				refused.Set(o.Name, jsonschema.FalseSchema)
			}
		}
		if !experiment.HasLengths(k.Name) {
			refused.Set("full", jsonschema.FalseSchema)
			refused.Set("quick", jsonschema.FalseSchema)
		}
		test.AllOf = append(test.AllOf, &jsonschema.Schema{
			If:   whenIs("kind", string(k.Name)),
			Then: &jsonschema.Schema{Properties: refused},
		})
	}
}

// optionSchema is the schema of an option's value, within the bounds of any kind.
func optionSchema(o kind.Option) *jsonschema.Schema {
	text := map[kind.Type]reflect.Type{
		kind.Time: reflect.TypeFor[strict.TimeText](), kind.Size: reflect.TypeFor[strict.SizeText](),
		kind.Rate: reflect.TypeFor[strict.RateText](), kind.Share: reflect.TypeFor[strict.FractionText](),
	}
	number := func(v float64) json.Number { return json.Number(strconv.FormatFloat(v, 'f', -1, 64)) }
	var s *jsonschema.Schema
	switch o.Type {
	case kind.Truth:
		s = &jsonschema.Schema{Type: "boolean"}
	case kind.Whole, kind.DSCP:
		s = &jsonschema.Schema{Type: "integer", Minimum: number(o.Least), Maximum: number(o.Most)}
	case kind.Number:
		s = &jsonschema.Schema{Type: "number", Minimum: number(o.Least), Maximum: number(o.Most)}
	case kind.Word:
		s = &jsonschema.Schema{Type: "string"}
		for _, w := range o.AllWords() {
			s.Enum = append(s.Enum, w)
		}
	default:
		s = textSchema(text[o.Type])
	}
	s.Description = o.Doc + "; " + o.DefaultText() + " when left out"
	return s
}

// restrictHops adds that every hop but a link emulator must have a name, and which keys
// each type can have.
func restrictHops(hop *jsonschema.Schema) {
	for _, hopType := range experiment.HopTypes() {
		then := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
		if hopType != experiment.Link {
			then.Required = []string{"name"}
		}
		for pair := hop.Properties.Oldest(); pair != nil; pair = pair.Next() {
			if !slices.Contains(experiment.HopTypesOf(pair.Key), hopType) {
				then.Properties.Set(pair.Key, jsonschema.FalseSchema)
			}
		}
		hop.AllOf = append(hop.AllOf, &jsonschema.Schema{If: whenIs("type", string(hopType)), Then: then})
	}
}

// restrictFigures adds the metrics that there are.
func restrictFigures(figure *jsonschema.Schema) {
	metric, _ := figure.Properties.Get("metric")
	for _, m := range measurement.Catalogue() {
		metric.Enum = append(metric.Enum, m.Name)
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
