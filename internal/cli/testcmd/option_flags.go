package testcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// options are the flags of `hopbench test` that shape tests, each with its value.
type options []*base.OptionValue

// define binds the flags of package kind's table.
func (all *options) define(c *cobra.Command) {
	for _, f := range kind.Flags() {
		v := &base.OptionValue{Flag: f}
		*all = append(*all, v)
		flag := c.Flags().VarPF(v, f.Name, f.Short, usage(f))
		if f.Type == kind.Truth {
			flag.NoOptDefVal = "true"
		}
	}
	for _, v := range *all {
		if v.Flag.Excludes != "" {
			c.MarkFlagsMutuallyExclusive(v.Flag.Excludes, v.Flag.Name)
		}
	}
}

// usage is a flag's line in the help text, with the kinds of test that take it.
func usage(f kind.Flag) string {
	doc := f.Doc
	if kinds := f.Kinds(); len(kinds) < len(kind.All())/2 && !strings.Contains(doc, string(kinds[0])) {
		doc = names(kinds) + ": " + doc
	}
	if f.Default != "" {
		doc += " (default " + f.Default + ")"
	}
	return doc
}

// asIPerf3Says lets the long names of iperf3's flags name those here.
func asIPerf3Says() func(*pflag.FlagSet, string) pflag.NormalizedName {
	names := map[string]string{"version4": "ipv4", "version6": "ipv6"}
	for _, f := range kind.Flags() {
		for _, alias := range f.Aliases {
			names[alias] = f.Name
		}
	}
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(names[name], name))
	}
}

// value is what was given for a flag, its type's zero value when nothing was.
func value[T any](all options, flag string) T {
	for _, v := range all {
		if v.Flag.Name == flag {
			out, _ := v.Value.(T)
			return out
		}
	}
	panic("there is no flag --" + flag)
}

// give is as if the flag were on the command line.
func (all options) give(flag, text string) {
	for _, v := range all {
		if v.Flag.Name == flag {
			v.Text, v.Value = text, text
		}
	}
}

// chooseKinds says which kinds of test the flags that were given ask for; none
// is the whole profile.
func (f *testFlags) chooseKinds() ([]measurement.Kind, error) {
	var used []kind.Flag
	for _, v := range f.options {
		if v.Value != nil {
			used = append(used, v.Flag)
		}
	}
	kinds, err := f.namedKinds()
	if err != nil {
		return nil, err
	}
	if len(kinds) > 0 {
		return kinds, takenBy(used, kinds)
	}
	telling := slices.DeleteFunc(slices.Clone(used), func(o kind.Flag) bool { return o.Shared })
	if len(telling) == 0 {
		return nil, nil
	}
	if len(telling) == 1 && telling[0].Name == "length" {
		return nil, fmt.Errorf("--length alone does not say what to measure; add -u for datagrams, or --only %s", names(telling[0].Kinds()))
	}
	for _, k := range kind.All() {
		if one := []measurement.Kind{k.Name}; k.Implied && takenBy(used, one) == nil {
			return one, nil
		}
	}
	var each []string
	for _, o := range telling {
		each = append(each, fmt.Sprintf("--%s (%s)", o.Name, names(o.Kinds())))
	}
	return nil, fmt.Errorf("%s together do not say what to measure; choose with --only", strings.Join(each, " and "))
}

// namedKinds are those of --only or -u.
func (f *testFlags) namedKinds() ([]measurement.Kind, error) {
	if f.udp {
		if len(f.only) > 0 {
			return nil, fmt.Errorf("-u means --only udp; leave one of them out, and for latency over UDP say --only rr --protocol udp")
		}
		return []measurement.Kind{measurement.UDP}, nil
	}
	var kinds []measurement.Kind
	for _, name := range f.only {
		k := measurement.Kind(name)
		if _, ok := kind.Of(k); !ok {
			return nil, fmt.Errorf("--only %q is not a kind of test; they are %s", name, names(measurement.Kinds()))
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// takenBy says what is wrong with a flag that none of the kinds takes.
func takenBy(used []kind.Flag, kinds []measurement.Kind) error {
	for _, f := range used {
		if !slices.ContainsFunc(kinds, f.Takes) {
			return fmt.Errorf("--%s has no meaning for %s; it is for %s", f.Name, names(kinds), names(f.Kinds()))
		}
	}
	return nil
}

// specOf is the spec of one of the chosen kinds with the flags that were given, but for those
// that it ignores and another of them does not.
func (all options) specOf(name measurement.Kind, chosen []measurement.Kind) (measurement.Spec, error) {
	spec := all.given(name)
	for _, p := range kind.Ignored(spec) {
		heeds := func(other measurement.Kind) bool {
			sets := func(v *base.OptionValue) bool { return v.Value != nil && v.Flag.Sets(other, p.Option) }
			ignores := func(q kind.Problem) bool { return q.Option == p.Option }
			return slices.ContainsFunc(all, sets) && !slices.ContainsFunc(kind.Ignored(all.given(other)), ignores)
		}
		if o, ok := kind.Find(name, p.Option); ok && slices.ContainsFunc(chosen, heeds) {
			o.Set(&spec, o.Get(measurement.Spec{Kind: name}.Defaults()))
		}
	}
	problems := append(kind.Check(spec), kind.Ignored(spec)...)
	for i := range problems {
		problems[i].Message = all.blame(name, problems[i].Option) + problems[i].Message
	}
	return spec, problems.Err()
}

// given is the spec of one kind with the flags that were given. Pings follow each other
// faster than in an experiment, where they are to disturb nothing.
func (all options) given(name measurement.Kind) measurement.Spec {
	spec := measurement.Spec{Kind: name}
	if name == measurement.Ping {
		spec.Interval = 0.02
	}
	all.apply(&spec)
	return spec.Defaults()
}

// apply does what the flags that were given do to a test of the spec's kind.
func (all options) apply(spec *measurement.Spec) {
	for _, v := range all {
		if v.Value != nil {
			v.Flag.Apply(spec, v.Value)
		}
	}
	spec.FileCRC32 = strings.ToLower(spec.FileCRC32)
}

// blame names the flag that set an option, unless it is called the same.
func (all options) blame(name measurement.Kind, option string) string {
	for _, v := range all {
		if v.Value != nil && v.Flag.Name != option && v.Flag.Sets(name, option) {
			return "--" + v.Flag.Name + ": "
		}
	}
	return ""
}

func texts(kinds []measurement.Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return all
}

func names(kinds []measurement.Kind) string { return strings.Join(texts(kinds), ", ") }
