package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/strict"
)

// restrictExperiment adds what the types of an experiment do not say.
func restrictExperiment(schemas jsonschema.Definitions) {
	addOptions(schemas)
	restrictHops(schemas["hop"])
	restrictFigures(schemas["figure"])
}

// mattersSchema maps metrics, by any of their names, to their margins.
func mattersSchema(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[experiment.FileMatters]() {
		return nil
	}
	names := &jsonschema.Schema{Type: "string"}
	for _, name := range experiment.MatterNames() {
		names.Enum = append(names.Enum, name)
	}
	margin := textSchema(experiment.TextRules()[reflect.TypeFor[experiment.ValueText]()])
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
		s = textSchema(experiment.TextRules()[text[o.Type]])
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
