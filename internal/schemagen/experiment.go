package main

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/strict"
)

// restrictExperiment leaves out what experiment.Schema adds from the tables of hops, kinds,
// options and metrics.
func restrictExperiment(file *jsonschema.Schema) {
	schemas := file.Definitions
	hop := schemas["hop"].Properties
	for _, key := range strict.KeysOf(reflect.TypeFor[experiment.FileHop]()) {
		if len(experiment.HopTypesOf(key)) < len(experiment.HopTypes()) {
			hop.Delete(key)
		}
	}
	hopType, _ := hop.Get("type")
	kind, _ := schemas["test"].Properties.Get("kind")
	hopType.Enum, kind.Enum = nil, nil
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
