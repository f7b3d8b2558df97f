package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/hopbench/hopbench/internal/idps"
)

func TestCheckedInRulesAreGenerated(t *testing.T) {
	text, err := os.ReadFile("../builtin.rules")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, generate()) {
		t.Error("builtin.rules is not what rulegen writes; run go generate ./internal/idps")
	}
}

// Whatever a list holds comes through the rule's quotes and escapes unchanged.
func TestContentIsFound(t *testing.T) {
	for _, c := range categories() {
		if c.first%1000 != 1 || len(c.entries) > 999 {
			t.Errorf("%s: %d rules from sid %d on run into the next category", c.title, len(c.entries), c.first)
		}
	}
	for _, text := range []string{`a"b`, `a\b`, "a;b", "a:b", "a|b", "\x00\xff", "é", "x"} {
		rule := "alert tcp any any -> any any (" + content(text) + " " + anyCase(text) + " sid:1;)"
		if set, err := idps.Parse("test", []byte(rule)); err != nil || len(set.Rules) != 1 {
			t.Errorf("%q: %v, %v", text, set, err)
		}
	}
}
