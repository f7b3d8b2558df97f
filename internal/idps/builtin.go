package idps

import _ "embed"

//go:embed builtin.rules
var builtinText []byte

// TestString is what the first of the built-in rules looks for, in TCP and UDP
// alike. Its only meaning is to be found.
const TestString = "HOPBENCH-INSPECTION-TEST-STRING!$P1-7C4E-D0T#"

// Builtin are the rules that come with the program.
func Builtin() *RuleSet {
	set, err := Parse("the built-in rules", builtinText)
	if err != nil {
		panic(err) // a test reads the same bytes
	}
	return set
}
