package sockets

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Every field comes from a spec, or is known by who opens the socket.
func TestOptionsComeFromASpec(t *testing.T) {
	whoOpens := []string{"Device", "ReusePort", "LatePort", "Backlog"}
	var spec measurement.Spec
	for i, all := 0, reflect.ValueOf(&spec).Elem(); i < all.NumField(); i++ {
		switch f := all.Field(i); {
		case f.CanInt():
			f.SetInt(2_000_000_000) // also as nanoseconds it is above 0 in any unit
		case f.CanFloat():
			f.SetFloat(1)
		case f.Kind() == reflect.String:
			f.SetString("x")
		default:
			f.SetBool(true)
		}
	}
	spec.Kind = measurement.TCP
	options := reflect.ValueOf(OptionsOf(spec, true))
	for i := range options.NumField() {
		if name := options.Type().Field(i).Name; options.Field(i).IsZero() != slices.Contains(whoOpens, name) {
			t.Errorf("%s is %v", name, options.Field(i))
		}
	}
}
