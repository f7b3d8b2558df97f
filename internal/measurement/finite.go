package measurement

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// OnlyFinite returns v without its NaN and infinite values, which JSON cannot
// carry and no figure can place, and how many there were. A metric or an element
// of a list that has such a value is left out whole, an optional value becomes
// absent, any other becomes 0. v itself is returned when all is finite, which is
// the usual case; it is never changed.
func OnlyFinite[T any](v T) (T, int) {
	value := reflect.ValueOf(&v).Elem()
	n := countNonFinite(value)
	if n == 0 {
		return v, 0
	}
	return withoutNonFinite(value).Interface().(T), n
}

// countNonFinite counts the NaNs and infinities below v.
func countNonFinite(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		if !finite(v.Float()) {
			return 1
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return countNonFinite(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() { // exported
				n += countNonFinite(f)
			}
		}
	case reflect.Slice, reflect.Array:
		if holdsFloats(v.Type().Elem()) {
			for i := range v.Len() {
				n += countNonFinite(v.Index(i))
			}
		}
	case reflect.Map:
		if holdsFloats(v.Type().Elem()) {
			for it := v.MapRange(); it.Next(); {
				n += countNonFinite(it.Value())
			}
		}
	}
	return n
}

// holdsFloats spares the walk lists that cannot hold a float, such as bytes
// and names.
func holdsFloats(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Uint8, reflect.Int, reflect.Int64, reflect.Uint64:
		return false
	}
	return true
}

// withoutNonFinite copies v and leaves out what is not finite.
func withoutNonFinite(v reflect.Value) reflect.Value {
	if countNonFinite(v) == 0 {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if inner := v.Elem(); inner.Kind() != reflect.Float64 {
			out.Set(reflect.New(inner.Type()))
			out.Elem().Set(withoutNonFinite(inner))
		}
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(withoutNonFinite(v.Field(i)))
			}
		}
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), 0, v.Len()))
		for i := range v.Len() {
			e := v.Index(i)
			if e.Kind() == reflect.Struct && !estimateIsFinite(e) {
				continue
			}
			out.Set(reflect.Append(out, withoutNonFinite(e)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		for it := v.MapRange(); it.Next(); {
			if e := it.Value(); e.Kind() != reflect.Float64 || countNonFinite(e) == 0 {
				out.SetMapIndex(it.Key(), withoutNonFinite(e))
			}
		}
	}
	return out
}

// estimateIsFinite says that no plain number of the struct itself is NaN or
// infinite; lists, maps and optional values inside it are cleared on their own.
// A trial is always kept: it is a record of what happened. So is a pair, whose
// place in its list is its number.
func estimateIsFinite(v reflect.Value) bool {
	if v.Type() == reflect.TypeFor[Trial]() || v.Type() == reflect.TypeFor[Pair]() {
		return true
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Float64 && !finite(f.Float()) {
			return false
		}
	}
	return true
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// KeepFinite leaves out of an outcome what OnlyFinite does, and says so among
// its facts.
func (o *Outcome) KeepFinite() {
	kept, n := OnlyFinite(*o)
	if n > 0 {
		*o = kept
		o.Facts = append(slices.Clip(o.Facts), fmt.Sprintf("%d values of this trial were not finite numbers and are left out.", n))
	}
}
