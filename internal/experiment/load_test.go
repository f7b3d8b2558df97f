package experiment

import (
	"testing"

	"github.com/hopbench/hopbench/experiments"
)

func TestLoadBundled(t *testing.T) {
	for _, name := range experiments.Names() {
		text, err := experiments.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Load(name+".yaml", text)
		if err != nil {
			t.Fatalf("load %s:\n%v", name, err)
		}
		if e.Name != name {
			t.Errorf("experiment in %s.yaml is named %q", name, e.Name)
		}
	}
}
