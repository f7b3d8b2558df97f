package experiment

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/strict"
)

// Options are values of package kind's options, by name, as a file gives them.
type Options map[string]any

// optionsIn lists the options whose keys a type can have.
func optionsIn(t reflect.Type) (in []kind.Option) {
	for _, o := range kind.Options() {
		if o.InFile && (t == reflect.TypeFor[FileTest]() || o.InLength && t == reflect.TypeFor[FileLength]()) {
			in = append(in, o)
		}
	}
	return in
}

func kindNames() []string { return kind.Texts(measurement.Kinds()) }

// Names lists the options whose keys a type can have.
func (*Options) Names(in reflect.Type) []string {
	var names []string
	for _, o := range optionsIn(in) {
		if !slices.Contains(names, o.Name) { // kinds may share a name
			names = append(names, o.Name)
		}
	}
	return names
}

// New is a pointer to an option's value as a file writes it, and its tags.
func (*Options) New(name string) (any, reflect.StructTag) {
	tags := optionTags(name)
	switch kind.OptionNamed(name).Type { // another of this name has the same type
	case kind.Truth:
		return new(bool), tags
	case kind.Whole, kind.DSCP:
		return new(int), tags
	case kind.Number:
		return new(float64), tags
	case kind.Time:
		return new(strict.TimeText), tags
	case kind.Size:
		return new(strict.SizeText), tags
	case kind.Rate:
		return new(strict.RateText), tags
	case kind.Share:
		return new(strict.FractionText), tags
	}
	return new(WordText), tags
}

// Put keeps an option's value as package kind has it.
func (options *Options) Put(name string, value any) {
	if *options == nil {
		*options = make(Options)
	}
	var v any
	switch value := value.(type) {
	case *bool:
		v = *value
	case *int:
		v = float64(*value)
	case *float64:
		v = *value
	case *strict.TimeText:
		v = strict.Parsed(quantity.ParseDuration, *value).Seconds()
	case *strict.SizeText:
		v = float64(strict.Parsed(quantity.ParseBytes, *value))
	case *strict.RateText:
		v = strict.Parsed(quantity.ParseRate, *value)
	case *strict.FractionText:
		v = strict.Parsed(quantity.ParseFraction, *value)
	case *WordText:
		v = string(*value)
	}
	(*options)[name] = v
}

// optionTags are the tags of an option: the widest bounds of any kind, and the words
// of all.
func optionTags(name string) reflect.StructTag {
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
	return reflect.StructTag(`jsonschema:"` + strings.Join(tags, ",") + `"`)
}

// apply puts the options that a kind of test takes and whose values it can have
// into a spec, and reports the others. Flows, which bound the size of a file from
// below, are those of the test.
func (l *loader) apply(options *Options, to *measurement.Spec, test strict.NameText, takes []string) {
	before := ""
	for _, named := range kind.Options() {
		at := strict.KeyOf{Table: options, Key: named.Name}
		if !l.Written(at) || named.Name == before {
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
				l.Wrong(at, remedy, "%s", wrong)
			} else {
				o.Set(to, value)
			}
		}
	}
}

// inapplicable reports a key that means nothing to the kind of test.
func (l *loader) inapplicable(field any, key string, k measurement.Kind, test strict.NameText, takes []string) {
	remedy := "leave it out"
	if len(takes) > 0 {
		remedy += "; it can have " + strict.OneOf(takes)
	}
	l.Misplaced(field, remedy, "%s does not apply to test %q of kind %s", key, test, k)
}

// takenBy lists the keys that a kind of test can have in a type.
func takenBy(k measurement.Kind, t reflect.Type) (keys []string) {
	for _, o := range optionsIn(t) {
		if o.Takes(k) {
			keys = append(keys, o.Name)
		}
	}
	if t == reflect.TypeFor[FileTest]() && hasLengths(k) {
		keys = append(keys, "full", "quick")
	}
	return keys
}

// hasLengths says whether a kind of test has options that make it longer.
func hasLengths(k measurement.Kind) bool { return len(takenBy(k, reflect.TypeFor[FileLength]())) > 0 }
