package strict

import (
	"fmt"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// Rename is a key or a value of a file that had another name before.
type Rename struct {
	In       reflect.Type // the struct that has the key, or the type of the value
	Old, New string
	Negated  bool         // a truth value means the opposite now
	Value    reflect.Type // of the key's value, where that may have an old name too
}

// renamedIn finds what a key of a struct, or a value of a type, is called now.
func (d *Decoder) renamedIn(t reflect.Type, old string) (Rename, bool) {
	for _, r := range d.Renames {
		if r.In == t && r.Old == old {
			return r, true
		}
	}
	return Rename{}, false
}

// today are the key and its value as they are written now.
func (d *Decoder) today(r Rename, key, value *yaml.Node) (*yaml.Node, *yaml.Node) {
	newKey, newValue := *key, *value
	newKey.Value = r.New
	if was, err := strconv.ParseBool(value.Value); err == nil && r.Negated {
		newValue.Value = strconv.FormatBool(!was)
	}
	if word, old := d.renamedIn(r.Value, value.Value); old {
		newValue.Value = word.New
	}
	return &newKey, &newValue
}

// advice says how to write the key.
func (d *Decoder) advice(r Rename, key, value *yaml.Node) string {
	newKey, newValue := d.today(r, key, value)
	if value.Kind != yaml.ScalarNode {
		return "write " + newKey.Value + " instead"
	}
	return fmt.Sprintf("write %s: %s", newKey.Value, Clip(newValue.Value))
}
