package probetest

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// short are the values that make a test short and slow, of those options that its kind takes.
var short = map[string]any{
	"duration": 0.05, "max_warmup": 0.02, "idle": 0.05, "timeout": 0.02,
	"count": 3.0, "interval": 0.01, "file": float64(1 << 20), "flows": 2.0, "rate": 1e7,
}

// ways are the options that change who sends, and what: all words of some, one value of others.
var ways = map[string]any{
	"direction": nil, "protocol": nil,
	"requests_per_second": 500.0, "loss_bound": 0.01,
}

// Shortest are tests of every kind, as short as they may be, by what they are called:
// "tcp", and "tcp direction=both" in each other way in which the kind can send.
func Shortest(t testing.TB) map[string]measurement.Spec {
	t.Helper()
	all := map[string]measurement.Spec{}
	for _, k := range kind.All() {
		base := k.Defaults()
		for name, value := range short {
			if o, ok := kind.Find(k.Name, name); ok {
				o.Set(&base, value)
			}
		}
		all[string(k.Name)] = base
		for _, o := range kind.Options() {
			value, is := ways[o.Name]
			if !is || !o.Takes(k.Name) {
				continue
			}
			values := []any{value}
			if value == nil {
				values = nil
				for _, word := range o.For(k.Name).Words {
					values = append(values, word)
				}
			}
			for _, value := range values {
				spec := base
				o.Set(&spec, value)
				if len(kind.Check(spec)) > 0 {
					spec.Flows = 1 // a file is stored in one piece
				}
				if spec != base {
					all[fmt.Sprintf("%s %s=%v", k.Name, o.Name, value)] = spec.Defaults()
				}
			}
		}
	}
	for name, spec := range all {
		if problems := kind.Check(spec); len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems.Err())
		}
	}
	return all
}

// Served are those of Shortest in which a server of this project takes part.
func Served(t testing.TB) map[string]measurement.Spec {
	t.Helper()
	all := Shortest(t)
	for name, spec := range all {
		if k, _ := kind.Of(spec.Kind); k.NoServer || spec.Tool != "" {
			delete(all, name)
		}
	}
	return all
}
