package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Every field of what a check prints is in docs/data-format.md.
func TestTestbedCheckIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/data-format.md")
	testutil.OK(t, err)
	_, section, found := strings.Cut(string(text), "\n### TestbedCheck\n")
	if !found {
		t.Fatal("there is no section TestbedCheck")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if !strings.Contains(section, "`"+name+"`") {
					t.Errorf("the section lacks %q of %s", name, typ.Name())
				}
				visit(typ.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[testbedCheck]())
}
