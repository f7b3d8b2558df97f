// Package experiments holds the bundled experiment files. Each is a file that
// a person could have written, and a starting point for their own.
package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.yaml experiment.schema.json
var files embed.FS

// Schema is what is generated of the JSON Schema of experiment files; experiment.Schema is
// the whole.
func Schema() []byte {
	text, err := files.ReadFile("experiment.schema.json")
	if err != nil {
		panic(err) // the file is embedded above
	}
	return text
}

// PublishedFile is the name of the file of published figures.
const PublishedFile = "published.yaml"

// Published returns the text of the published figures that the experiments
// are compared with.
func Published() []byte {
	text, err := files.ReadFile(PublishedFile)
	if err != nil {
		panic(err) // the file is embedded above
	}
	return text
}

// Names lists the bundled experiments in alphabetical order.
func Names() []string {
	matches, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic(err) // only a malformed pattern can fail, and it is the one above
	}
	var names []string
	for _, match := range matches {
		if match != PublishedFile {
			names = append(names, strings.TrimSuffix(match, ".yaml"))
		}
	}
	return names
}

// Read returns the text of a bundled experiment. The error lists those there
// are.
func Read(name string) ([]byte, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil || name+".yaml" == PublishedFile {
		return nil, fmt.Errorf("there is no bundled experiment %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return text, nil
}
