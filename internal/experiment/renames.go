package experiment

import (
	"fmt"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// rename is a key or a value of an experiment file that had another name before.
type rename struct {
	in       reflect.Type // the struct that has the key, or the type of the value
	old, new string
	negated  bool // a truth value means the opposite now
}

// renames lists all of them. Files with an old name are refused with the new one;
// those in the folders of runs are read.
func renames() []rename {
	return []rename{
		{in: reflect.TypeFor[FileEndpoint](), old: "egress", new: "egress_rate"},
		{in: reflect.TypeFor[FileEndpoint](), old: "accelerated", new: "vswitch", negated: true},
		{in: reflect.TypeFor[FilePath](), old: "accelerated", new: "vswitch", negated: true},
		{in: reflect.TypeFor[FilePath](), old: "same_as", new: "variant_of"},
		{in: reflect.TypeFor[FilePath](), old: "off", new: "bypass"},
		{in: reflect.TypeFor[FileHop](), old: "account_cpu", new: "measure_kernel_cpu"},
		{in: reflect.TypeFor[FileTest](), old: "tool", new: "protocol"},
		{in: reflect.TypeFor[WordText](), old: "iperf3-wire", new: "iperf3"},
		{in: reflect.TypeFor[HopType](), old: "cable", new: "link"},
		{in: reflect.TypeFor[HopType](), old: "gateway", new: "vnet-gateway"},
	}
}

// renamedIn finds what a key of a struct, or a value of a type, is called now.
func renamedIn(t reflect.Type, old string) (rename, bool) {
	for _, r := range renames() {
		if r.in == t && r.old == old {
			return r, true
		}
	}
	return rename{}, false
}

// today are the key and its value as they are written now.
func (r rename) today(key, value *yaml.Node) (*yaml.Node, *yaml.Node) {
	newKey, newValue := *key, *value
	newKey.Value = r.new
	if was, err := strconv.ParseBool(value.Value); err == nil && r.negated {
		newValue.Value = strconv.FormatBool(!was)
	}
	if word, old := renamedIn(reflect.TypeFor[WordText](), value.Value); old {
		newValue.Value = word.new
	}
	return &newKey, &newValue
}

// advice says how to write the key.
func (r rename) advice(key, value *yaml.Node) string {
	newKey, newValue := r.today(key, value)
	if value.Kind != yaml.ScalarNode {
		return "write " + newKey.Value + " instead"
	}
	return fmt.Sprintf("write %s: %s", newKey.Value, clip(newValue.Value))
}
