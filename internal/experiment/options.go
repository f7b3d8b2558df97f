package experiment

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// Options are values of package kind's options, by name, as a file gives them.
type Options map[string]any

// optionAt names an option of a test as a place in the file: the decoder's maps
// know it as they know the address of a field.
type optionAt struct {
	of   *Options
	name string
}

// optionsOf is where a type keeps its options, nil if it has none.
func optionsOf(v reflect.Value) *Options {
	field := v.FieldByName("Options")
	if !field.IsValid() {
		return nil
	}
	options, _ := field.Addr().Interface().(*Options)
	return options
}

// optionsIn lists the options whose keys a type can have.
func optionsIn(t reflect.Type) (in []kind.Option) {
	for _, o := range kind.Options() {
		if o.InFile && (t == reflect.TypeFor[FileTest]() || o.InLength && t == reflect.TypeFor[FileLength]()) {
			in = append(in, o)
		}
	}
	return in
}

func kindNames() []string {
	var names []string
	for _, k := range kind.All() {
		names = append(names, string(k.Name))
	}
	return names
}

// option decodes the value of an option.
func (d *decoder) option(key, node *yaml.Node, options *Options, what string) {
	o := kind.OptionNamed(key.Value) // another of this name has the same type
	at := optionAt{options, o.Name}
	d.keyAt[at], d.at[at] = key, node
	if *options == nil {
		*options = make(Options)
	}
	before := len(d.found)
	text := func(t reflect.Type) string {
		v := reflect.New(t).Elem()
		d.value(node, v, optionField(o.Name), what)
		return v.String()
	}
	var value any
	switch o.Type {
	case kind.Truth:
		var b bool
		d.value(node, reflect.ValueOf(&b).Elem(), reflect.StructField{}, what)
		value = b
	case kind.Whole, kind.DSCP:
		var n int
		d.value(node, reflect.ValueOf(&n).Elem(), optionField(o.Name), what)
		value = float64(n)
	case kind.Number:
		var n float64
		d.value(node, reflect.ValueOf(&n).Elem(), reflect.StructField{}, what)
		value = n
	case kind.Time:
		value = parsed(quantity.ParseDuration, text(reflect.TypeFor[TimeText]())).Seconds()
	case kind.Size:
		value = float64(parsed(quantity.ParseBytes, text(reflect.TypeFor[SizeText]())))
	case kind.Rate:
		value = parsed(quantity.ParseRate, text(reflect.TypeFor[RateText]()))
	case kind.Share:
		value = parsed(quantity.ParseFraction, text(reflect.TypeFor[FractionText]()))
	default:
		value = text(reflect.TypeFor[WordText]())
	}
	if len(d.found) == before {
		(*options)[o.Name] = value
	}
}

// optionField gives an option the tags of a field: the widest bounds of any kind,
// and the words of all.
func optionField(name string) reflect.StructField {
	var tags []string
	for _, k := range kind.All() {
		o, _ := kind.Find(k.Name, name)
		limits := o.For(k.Name)
		if limits.Most > 0 && len(limits.Words) == 0 {
			tags = []string{"minimum=" + strconv.Itoa(int(o.Least)), "maximum=" + strconv.Itoa(int(o.Most))}
		}
		for _, w := range limits.Words {
			if tag := "enum=" + w; !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
	}
	return reflect.StructField{Tag: reflect.StructTag(`jsonschema:"` + strings.Join(tags, ",") + `"`)}
}

// apply puts the options that a kind of test takes and whose values it can have
// into a spec, and reports the others. Flows, which bound the size of a file from
// below, are those of the test.
func (l *loader) apply(options *Options, to *measurement.Spec, test NameText, takes []string) {
	before := ""
	for _, named := range kind.Options() {
		at := optionAt{options, named.Name}
		if !l.written(at) || named.Name == before {
			continue
		}
		before = named.Name
		value, read := (*options)[named.Name]
		o, taken := kind.Find(to.Kind, named.Name)
		switch {
		case !taken:
			l.inapplicable(at, named.Name, to.Kind, test, takes)
		case read:
			if wrong, remedy := o.Check(to.Kind, value); wrong != "" {
				l.wrong(at, remedy, "%s", wrong)
			} else {
				o.Set(to, value)
			}
		}
	}
}

// inapplicable reports a key that means nothing to the kind of test.
func (l *loader) inapplicable(field any, key string, k measurement.Kind, test NameText, takes []string) {
	remedy := "leave it out"
	if len(takes) > 0 {
		remedy += "; it can have " + oneOf(takes)
	}
	l.misplaced(field, remedy, "%s does not apply to test %q of kind %s", key, test, k)
}

// takenBy lists the keys that a kind of test can have in a type.
func takenBy(k measurement.Kind, t reflect.Type) (keys []string) {
	for _, o := range optionsIn(t) {
		if o.Takes(k) {
			keys = append(keys, o.Name)
		}
	}
	if t == reflect.TypeFor[FileTest]() && HasLengths(k) {
		keys = append(keys, "full", "quick")
	}
	return keys
}

// HasLengths says whether a kind of test has options that make it longer.
func HasLengths(k measurement.Kind) bool { return len(takenBy(k, reflect.TypeFor[FileLength]())) > 0 }
