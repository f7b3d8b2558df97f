package gate_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/words"
)

func testInstrument(t *testing.T) (found []measurement.Finding) {
	first := map[string]string{"send_method": "splice", "receive_wait": "blocking", "gso": "on", "mss_bytes": "1448"}
	for _, c := range []struct {
		name       string
		first, now map[string]string
		want       []string // in a sentence each
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
		g := gate.Judge(measurement.Spec{Kind: measurement.Trace}, measurement.Outcome{Effective: c.now}, measurement.Fingerprint{Matches: true}, gate.Limits{Instrument: c.first}, nil)
		if len(g.Findings) != len(c.want) {
			t.Errorf("%s: %d findings, want %d: %+v", c.name, len(g.Findings), len(c.want), g.Findings)
		}
		for _, f := range g.Findings {
			if f.Name != "instrument" || !f.Fatal {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
		for _, want := range c.want {
			if text := words.Findings(g, true); !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", c.name, text, want)
			}
		}
		found = append(found, g.Findings...)
	}
	return found
}
