package main

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// argumentSchema is that of an argument of a command: any single value.
func argumentSchema(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[inventory.ArgText]() {
		return nil
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
}

// restrictTestbed adds that a hop has one source of its figures that is asked something, and what a proof needs.
// It leaves out what inventory.Schema adds from the table of kinds.
func restrictTestbed(file *jsonschema.Schema) {
	kind, _ := file.Properties.Get("kind")
	kind.Enum = nil
	schemas := file.Definitions
	one, two := uint64(1), uint64(2)
	schemas["hop"].MinProperties, schemas["hop"].MaxProperties = &one, &one
	schemas["prometheusmeter"].MinProperties = &two // where to ask, and what
	schemas["snmpmeter"].OneOf = []*jsonschema.Schema{{Required: []string{"community_file"}}, {Required: []string{"user", "auth_file"}}}
	toggle := schemas["switch"]
	for _, needs := range []struct {
		proof inventory.Proof
		key   string
	}{{inventory.ProofCommand, "verify"}, {inventory.ProofCanary, "canary"}} {
		refused := jsonschema.NewProperties()
		refused.Set(needs.key, jsonschema.FalseSchema)
		toggle.AllOf = append(toggle.AllOf, &jsonschema.Schema{
			If:   whenIs("proof", string(needs.proof)),
			Then: &jsonschema.Schema{Required: []string{needs.key}},
			Else: &jsonschema.Schema{Properties: refused},
		})
	}
}
