package inventory

import _ "embed"

//go:embed hosts.yaml
var hosts string

//go:embed testbed.schema.json
var schema string

// Hosts is a testbed file of real hosts to start with.
func Hosts() string { return hosts }

// Schema is the JSON Schema of testbed files, for editors.
func Schema() string { return schema }
