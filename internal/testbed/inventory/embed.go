package inventory

import _ "embed"

//go:embed hosts.yaml
var hosts string

//go:embed fleet.yaml
var fleet string

//go:embed testbed.schema.json
var schema string

// Hosts is a testbed file of real hosts to start with.
func Hosts() string { return hosts }

// Schema is the JSON Schema of testbed files, for editors.
func Schema() string { return schema }

// Fleet is a testbed file of machines that join, to start with.
func Fleet() string { return fleet }
