// Package wordstest holds findings of gates to the sentences that words makes of
// them.
package wordstest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/words"
)

// Given holds that each of the codes is among the findings, that a sentence is
// made of each finding, and that some finding of its code gives each parameter
// that the sentence depends on.
func Given(t *testing.T, codes []measurement.FindingCode, found []measurement.Finding) {
	t.Helper()
	for _, code := range codes {
		used, given := map[string]bool{}, map[string]bool{}
		for _, f := range found {
			if f.Code != code {
				continue
			}
			text := words.Finding(f)
			if text == "" || text == f.Name || text == string(code) || strings.Contains(text, "%!") {
				t.Errorf("%s: the sentence is %q", code, text)
			}
			fields := reflect.TypeFor[measurement.Finding]()
			for i := range fields.NumField() {
				name, changed := fields.Field(i).Name, f
				if slices.Contains([]string{"Name", "Code", "Fatal", "PathFailure"}, name) {
					continue
				}
				v := reflect.ValueOf(&changed).Elem().Field(i)
				given[name] = given[name] || !v.IsZero()
				other(t, name, v)
				used[name] = used[name] || words.Finding(changed) != text
			}
		}
		if len(used) == 0 {
			t.Errorf("no gate found %s", code)
		}
		for name := range used {
			// A pair is named, and a tunnel, of whatever was found there.
			if used[name] && !given[name] && name != "Pair" && name != "Outer" {
				t.Errorf("%s: the sentence depends on %s, which no gate gives", code, name)
			}
			if given[name] && !used[name] {
				t.Errorf("%s: a gate gives %s, which the sentence leaves out", code, name)
			}
		}
	}
	for _, f := range found {
		if !slices.Contains(codes, f.Code) {
			t.Errorf("the code %q is not known: %+v", f.Code, f)
		}
	}
}

// other gives a parameter a value that it does not have.
func other(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case name == "Part":
		v.SetString(map[string]string{"": "loaded", "idle": "loaded", "loaded": "idle"}[v.String()])
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "other")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 12345)
	case v.CanFloat():
		v.SetFloat(v.Float()*3 + 12345)
	case v.Type() == reflect.TypeFor[[]string]():
		v.Set(reflect.ValueOf([]string{"other"}))
	case v.Type() == reflect.TypeFor[[]measurement.EndDrop]():
		v.Set(reflect.ValueOf([]measurement.EndDrop{{End: "other"}}))
	default:
		t.Fatalf("%s is of a type that the test cannot change", name)
	}
}
