package subject

import (
	"strings"
	"testing"
)

var key = "U" + strings.Repeat("A", 55)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "vm-1_B", strings.Repeat("x", 63)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "*", ">", "a.b", "a b", "ä", "a\x00", strings.Repeat("x", 64), "a\r\nPUB x 0"} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken as a name", name)
		}
	}
}

func TestSubjects(t *testing.T) {
	a := Agent{"fw", "vm-1", key}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	if got := a.Command(); got != "hopbench-fw-command.vm-1-"+key {
		t.Error(got)
	}
	if got := Joins("fw"); got != "hopbench-fw-join.*" {
		t.Error(got)
	}
	if got, err := WhoJoins(a.Join()); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{
		a.Event(), a.Join() + ".x", a.Join() + "A", Joins("fw"), "", "hopbench-fw-join", "hopbench-fw-join.-" + key, "hopbench-fw-join.vm-1." + key,
		"hopbench-join.vm-1-" + key, "hopbench--join.vm-1-" + key, "hopbench-fw-join.vm-1-" + strings.ToLower(key),
	} {
		if got, err := WhoJoins(wrong); err == nil {
			t.Errorf("%q is of %+v", wrong, got)
		}
	}
}

// No two agents, fleets or purposes share a subject, whatever their names are.
func TestSubjectsAreApart(t *testing.T) {
	seen := map[string]bool{}
	for _, fleet := range []string{"fw", "fw-join", "fw-event", "join", "join-join"} {
		for _, name := range []string{"vm", "vm-1", "vm-1-" + key, "-", "vm-"} {
			a := Agent{fleet, name, key}
			for _, s := range []string{a.Join(), a.Event(), a.Command()} {
				if seen[s] {
					t.Errorf("%q is the subject of two", s)
				}
				seen[s] = true
			}
			if got, err := WhoJoins(a.Join()); len(name) <= maxName && (err != nil || got != a) {
				t.Errorf("%+v, %v, want %+v", got, err, a)
			}
		}
	}
}

// Whatever a subject is, the agent found in it is one that can be, and the only one that
// writes there.
func FuzzWhoJoins(f *testing.F) {
	f.Add(Agent{"fw", "vm-1", key}.Join())
	f.Add("hopbench-*-join.>-" + key)
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := WhoJoins(text); err == nil && (a.Check() != nil || a.Join() != text || strings.ContainsAny(text, "*> ")) {
			t.Errorf("%q is of %+v", text, a)
		}
	})
}
