package inventory

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestSwitching(t *testing.T) {
	in := &Inventory{
		Paths: []Path{
			{Name: "direct"},
			{Name: "off", Set: map[string]string{"idps": "off", "route": "short"}},
			{Name: "deny", Set: map[string]string{"idps": "deny", "route": "short"}},
		},
		Switches: []Switch{{Name: "idps", Settle: 3 * time.Second}, {Name: "route", Settle: 5 * time.Second}},
	}
	// Two commands for the first, settling together; none for a path by addresses and
	// what is in force; one each for the other two.
	commands, settle := in.Switching([]string{"off", "direct", "off", "deny", "direct", "off"})
	if commands != 4 || settle != 11*time.Second {
		t.Errorf("%d commands, %v", commands, settle)
	}
	if len(in.Alike()) != 0 {
		t.Errorf("alike: %v", in.Alike())
	}
	in.Paths = append(in.Paths, Path{Name: "again", Set: in.Paths[1].Set})
	if got := in.Alike(); len(got) != 1 || got[0] != [2]string{"off", "again"} {
		t.Errorf("alike: %v", got)
	}
}

// A reach is read back as it is written.
func TestReachRoundTrip(t *testing.T) {
	for _, text := range []string{"local", "ssh://ops@10.0.0.7:22", "ssh://gateway_1.example.com", "tls://[2001:db8::7]:5202", "tls://[2001:db8::7]", "serve://host"} {
		r, err := parseReach(text)
		testutil.OK(t, err)
		if r.String() != text {
			t.Errorf("%s is written as %s", text, r)
		}
	}
}
