package hosts

import _ "embed"

//go:embed start.yaml
var start string

// Start is a testbed file of this kind to start with.
func Start() string { return start }
