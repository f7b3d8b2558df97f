package kind

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Type is how an option's value is written, and with that its unit.
type Type int

// The types of values. A number is a float64 in the type's base unit, a word, name
// or text is a string, a truth value is a bool.
const (
	Truth  Type = iota // true or false
	Whole              // a whole number
	Number             // a number
	Time               // seconds
	Size               // bytes
	Rate               // bits per second
	Share              // a fraction from 0 to 1
	Word               // one of Limits.Words
	Name               // a name that the kernel knows, of at most 15 bytes
	Text               // text
	// DSCP and TOS are a code point, and the byte that it is the upper six bits of.
	DSCP
	TOS
	File // the path of a file on this host
)

// Limits bound a value.
type Limits struct {
	Least, Most float64  // of a number
	Words       []string // of a word
}

// Option is a value that a test can be given.
type Option struct {
	// Name is its key in an experiment file, if InFile. Options of one name, which are
	// next to each other, are for different kinds.
	Name   string
	InFile bool
	// InLength says that it can differ when a run is asked to be full or quick.
	InLength bool
	// Flag is its flag on the command line, with its short form and the long names
	// that iperf3 has for it; empty when there is none.
	Flag, Short string
	Aliases     []string
	// Shared flags do not say which kind of test is meant: a profile takes them, too.
	Shared bool
	Kinds  []measurement.Kind
	Type   Type
	Limits
	// Except are other limits for some kinds.
	Except map[measurement.Kind]Limits
	// Scaled values of an experiment file are divided by the experiment's scale, and
	// must then be LeastScaled at least (0 for no such bound).
	Scaled      bool
	LeastScaled float64
	// PerFlow says that LeastScaled is that of each flow's part.
	PerFlow bool
	// Optional values may be zero in a complete spec although they have a default.
	Optional bool
	// Unset is what zero means, where that is no value.
	Unset string
	// Native options are of this project's protocol: iperf3 has no words for them.
	Native bool
	// Several says that it is of several pairs of hosts that do a test at the same time.
	Several bool
	// Doc is what it does, in one line.
	Doc string
	// field is where it lies in a spec.
	field func(*measurement.Spec) any
}

// Options lists every option, in the order in which documents name them.
func Options() []Option { return options }

// OptionNamed is the first option of that name, which there must be.
func OptionNamed(name string) Option {
	for _, o := range options {
		if o.Name == name {
			return o
		}
	}
	panic("there is no option " + name)
}

// Find is the option of that name that a kind of test takes.
func Find(kind measurement.Kind, name string) (Option, bool) {
	i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name && o.Takes(kind) })
	if i < 0 {
		return Option{}, false
	}
	return options[i], true
}

// Takes says whether a kind of test has the option.
func (o Option) Takes(kind measurement.Kind) bool { return slices.Contains(o.Kinds, kind) }

// For is the limits for a kind.
func (o Option) For(kind measurement.Kind) Limits {
	if l, ok := o.Except[kind]; ok {
		return l
	}
	return o.Limits
}

// Get reads the option's value from a spec: a float64, a string or a bool.
func (o Option) Get(s measurement.Spec) any {
	switch v := reflect.ValueOf(o.field(&s)).Elem(); v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return v.String()
	case reflect.Float64:
		return v.Float()
	default:
		return float64(v.Int())
	}
}

// Set puts a value, of the type that Get returns, into a spec.
func (o Option) Set(s *measurement.Spec, value any) {
	switch v := reflect.ValueOf(o.field(s)).Elem(); x := value.(type) {
	case bool:
		v.SetBool(x)
	case string:
		if x == auto {
			x = ""
		}
		v.SetString(x)
	case float64:
		if v.Kind() == reflect.Float64 {
			v.SetFloat(x)
		} else {
			v.SetInt(int64(x))
		}
	}
}

// IsZero says whether a value is that of an option that is left out.
func IsZero(value any) bool { return reflect.ValueOf(value).IsZero() }

// hasDefault says whether tests of a kind have a value of their own when none is written.
func (o Option) hasDefault(name measurement.Kind) bool {
	k, _ := Of(name)
	return !IsZero(o.Get(k.Defaults()))
}

// DefaultText says what holds when the option is left out: "10s; rr, crr 1s".
func (o Option) DefaultText() string {
	return o.byKind(func(k Kind) string {
		if value := o.Get(k.Defaults()); !IsZero(value) || o.Unset == "" {
			return o.Format(value)
		}
		return o.Unset
	})
}

// BoundsText says which values the option takes: "1 to 10000; ftp 1 to 256".
func (o Option) BoundsText() string {
	return o.byKind(func(k Kind) string { return o.bounds(k.Name) })
}

// byKind says of each kind what holds for it: what the first has without its name.
func (o Option) byKind(say func(Kind) string) string {
	var texts []string
	kindsOf := map[string][]string{}
	for _, name := range o.Kinds {
		k, _ := Of(name)
		text := say(k)
		if kindsOf[text] == nil {
			texts = append(texts, text)
		}
		kindsOf[text] = append(kindsOf[text], string(name))
	}
	for i, text := range texts {
		if i > 0 {
			texts[i] = strings.Join(kindsOf[text], ", ") + " " + text
		}
	}
	return strings.Join(texts, "; ")
}
