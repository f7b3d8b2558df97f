package inventory

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
)

// generated is the part of the schema that Go types give.
//
//go:embed testbed.schema.json
var generated []byte

// object is a part of a JSON Schema.
type object = map[string]any

// Schema is the JSON Schema of testbed files, for editors: what is generated from Go types,
// and what follows from the table of kinds.
func Schema() []byte {
	var schema object
	if err := json.Unmarshal(generated, &schema); err != nil {
		panic(err) // a test compares the file with what is generated
	}
	schema["properties"].(object)["kind"].(object)["enum"] = Kinds()
	var kinds []object
	for _, row := range kindTable() {
		path := object{"properties": refused(row, keysOfPath)}
		then := refused(row, keysOfFile)
		then["paths"] = object{"additionalProperties": path}
		pattern := strings.Replace(strings.Join(kind.Texts(row.reach), "://.+|")+"://.+", "local://.+", "local", 1)
		reach := object{"description": "How it is reached: " + row.forms + ".", "pattern": "^(" + pattern + ")$"}
		then["endpoints"] = object{"additionalProperties": object{"properties": object{"reach": reach}}}
		kinds = append(kinds, object{
			"if":   object{"properties": object{"kind": object{"const": row.name}}, "required": []string{"kind"}},
			"then": object{"properties": then},
		})
	}
	schema["allOf"] = kinds
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // it was JSON
	}
	return append(text, '\n')
}

// refused are the keys that kinds have as their own, and this one does not take.
func refused(row kindRow, keys func(kindRow) []string) object {
	none := object{}
	for _, other := range kindTable() {
		for _, key := range keys(other) {
			if !slices.Contains(keys(row), key) {
				none[key] = false
			}
		}
	}
	return none
}
