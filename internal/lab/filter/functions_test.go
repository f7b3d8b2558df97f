package filter

import (
	"reflect"
	"testing"
)

// Every field of Functions has a row, and rows stay where they are when others are
// missing.
func TestAllFunctions(t *testing.T) {
	var f Functions
	for range f.All() {
		t.Error("a node without functions has one")
	}
	fields := reflect.ValueOf(&f).Elem()
	rows := make(map[int]bool)
	for i := range fields.NumField() {
		var one Functions
		field := reflect.ValueOf(&one).Elem().Field(i)
		field.Set(reflect.New(field.Type().Elem()))
		for row, function := range one.All() {
			if reflect.TypeOf(function) != field.Type().Elem() || rows[row] {
				t.Errorf("row %d has %T for %s", row, function, fields.Type().Field(i).Name)
			}
			rows[row] = true
		}
	}
	if len(rows) != fields.NumField() {
		t.Errorf("%d fields have %d rows", fields.NumField(), len(rows))
	}
	for row, function := range (Functions{Spread: &Spread{}, Balance: &Balance{}, Filter: &Table{}}).All() {
		_, filters := function.(Table)
		if filters != (row >= Routing) {
			t.Errorf("%T is row %d; %d decide where flows go", function, row, Routing)
		}
	}
}
