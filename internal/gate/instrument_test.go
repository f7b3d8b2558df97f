package gate

import (
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestInstrumentGate(t *testing.T) {
	first := map[string]string{"send_method": "splice", "receive_wait": "blocking", "gso": "on", "mss_bytes": "1448"}
	for _, c := range []struct {
		name       string
		first, now map[string]string
		want       []string // in a reason each
	}{
		{"alike", first, first, nil},
		{"the first trial", nil, first, nil},
		{"another path's MSS", first, map[string]string{"send_method": "splice", "mss_bytes": "1380"}, nil},
		{"not known of the first", first, map[string]string{"placement": "unplaced"}, nil},
		{"copied", first, map[string]string{"send_method": "copy"},
			[]string{`send_method was "copy", and "splice" in the first trial`}},
		{"two differ", first, map[string]string{"receive_wait": "poller", "gso": "off"},
			[]string{"ulimit -u", "set gso: off"}},
		{"placed elsewhere", map[string]string{"placement": "separate_cpus"}, map[string]string{"placement": "same_cpu"},
			[]string{"the same CPUs"}},
	} {
		j := &judge{limits: Limits{Instrument: c.first}, outcome: measurement.Outcome{Effective: c.now}}
		j.instrument()
		if len(j.checks) != len(c.want) {
			t.Errorf("%s: %d checks, want %d: %+v", c.name, len(j.checks), len(c.want), j.checks)
			continue
		}
		for _, want := range c.want {
			if !slices.ContainsFunc(j.checks, func(check measurement.Check) bool {
				return check.Name == "instrument" && check.Fatal && strings.Contains(check.Reason, want)
			}) {
				t.Errorf("%s: no check says %q: %+v", c.name, want, j.checks)
			}
		}
	}
}

// Every setting that trials may differ in has its own way out.
func TestEveryInstrumentHasARemedy(t *testing.T) {
	for _, key := range measurement.Instrument() {
		if remedy(key) == remedy("") && key != "receive_time" {
			t.Errorf("%s has no remedy of its own", key)
		}
	}
}
