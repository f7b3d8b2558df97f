package printable

import (
	"maps"
	"reflect"
	"slices"
)

// Bounds are how much text of somebody else is kept, in runes.
type Bounds struct {
	// Text is a string, Item one of a list, Key and Value one of a map.
	Text, Item, Key, Value int
	// Items is how many strings a list may have, and how many keys a map.
	Items int
}

// Fields makes every string safe to show that can be reached from the pointer v, as
// Line does: what was decoded from a peer's bytes is cleaned as a whole, where it
// enters, so that no field can be forgotten. Keys of a map that become the same are
// one. Bytes are no text, and stay.
func Fields(v any, most Bounds) { most.clean(reflect.ValueOf(v), most.Text) }

func (b Bounds) clean(v reflect.Value, most int) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(Line(v.String(), most))
		}
	case reflect.Pointer:
		b.clean(v.Elem(), most)
	case reflect.Struct:
		for i := range v.NumField() {
			b.clean(v.Field(i), b.Text)
		}
	case reflect.Slice, reflect.Array:
		b.list(v)
	case reflect.Map:
		b.dictionary(v)
	}
}

func (b Bounds) list(v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.String:
		if v.Kind() == reflect.Slice && v.CanSet() && v.Len() > b.Items {
			v.Set(v.Slice(0, b.Items))
		}
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
	default:
		return // numbers, of which there may be many
	}
	for i := range v.Len() {
		b.clean(v.Index(i), b.Item)
	}
}

func (b Bounds) dictionary(v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String || v.IsNil() || !v.CanSet() {
		return
	}
	old := make(map[string]reflect.Value, v.Len())
	for each := v.MapRange(); each.Next(); {
		old[each.Key().String()] = each.Value()
	}
	clean := reflect.MakeMap(v.Type())
	for _, name := range slices.Sorted(maps.Keys(old)) {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString(Line(name, b.Key))
		value.Set(old[name])
		b.clean(value, b.Value)
		if clean.SetMapIndex(key, value); clean.Len() >= b.Items {
			break
		}
	}
	v.Set(clean)
}
