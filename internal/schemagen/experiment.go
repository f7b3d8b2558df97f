package main

import (
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/experiment"
)

// restrictExperiment adds what the types of an experiment do not say.
func restrictExperiment(schemas jsonschema.Definitions) {
	restrictHops(schemas["hop"])
	kind, _ := schemas["test"].Properties.Get("kind")
	kind.Enum = nil // experiment.Schema lists them, and what else its tables have
}

// mattersSchema maps metrics to their margins.
func mattersSchema(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[experiment.FileMatters]() {
		return nil
	}
	margin := textSchema(experiment.TextRules()[reflect.TypeFor[experiment.ValueText]()])
	margin.Examples = nil
	return &jsonschema.Schema{Type: "object", AdditionalProperties: margin}
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
