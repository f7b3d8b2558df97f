package lab

import (
	"testing"
)

func TestCheck(t *testing.T) {
	needLab(t)
	names := map[string]bool{}
	for f := range Check(t.Context()) {
		t.Logf("%-20s ok=%-5v required=%-5v %s | %s", f.Name, f.OK, f.Required, f.Detail, f.Remedy)
		if names[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		names[f.Name] = true
		if f.Detail == "" || !f.OK && f.Remedy == "" {
			t.Errorf("%s does not say what was found or how to fix it", f.Name)
		}
	}
	for _, want := range []string{"kernel", "user namespaces", "veth", "tbf", "TAP devices", "CPUs", "memory"} {
		if !names[want] {
			t.Errorf("no finding on %s", want)
		}
	}
}
