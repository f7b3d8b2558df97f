package experiment

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/strict"
)

// This file is the experiment file as Go types: its keys (json tags), what
// may be left out (omitempty), its closed lists and its bounds (jsonschema
// tags). The decoder obeys these tags, and the JSON Schema for editors is
// generated from them, with the comments as its descriptions.

//go:generate go run ../schemagen -o ../../experiments/experiment.schema.json experiment

// File is an experiment: some paths between two endpoints, one of them the
// baseline, and the tests that every path gets in every block.
type File struct {
	// Version of this file format.
	Format string `json:"format" jsonschema:"enum=hopbench.experiment/1"`
	// Name of the experiment, used for run folders.
	Name strict.NameText `json:"name" jsonschema:"example=my-experiment"`
	// One line for people.
	Title strict.LineText `json:"title,omitempty"`
	// What the experiment is about, for the report.
	Description strict.ProseText `json:"description,omitempty"`
	// How many times smaller than the published setting the testbed is, as in
	// 1:10. Rates and windows are divided by it; times are not.
	Scale strict.ScaleText `json:"scale,omitempty"`
	// How the parameters of the hops were derived, for the report.
	Model strict.ProseText `json:"model,omitempty"`
	// The two hosts at the ends of every path.
	Endpoints []FileEndpoint `json:"endpoints" jsonschema:"minItems=2,maxItems=2"`
	// Name of the endpoint that paths start at.
	Source strict.NameText `json:"source" jsonschema:"example=vm1"`
	// Name of the endpoint that paths lead to.
	Destination strict.NameText `json:"destination" jsonschema:"example=vm2"`
	// Pairs of a source and a destination like these two, which do every test
	// at the same time; 1 when left out.
	Pairs int `json:"pairs,omitempty" jsonschema:"minimum=1,maximum=5000"`
	// Name of the path that all others are compared with.
	Baseline strict.NameText `json:"baseline" jsonschema:"example=direct"`
	// How many times every path gets every test; hopbench experiments check says
	// how many it takes to claim anything. 10 when left out.
	Blocks int `json:"blocks,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// Pause before each trial, in which nothing is measured: for token buckets and
	// caches to become what they were. None when left out.
	Rest strict.TimeText `json:"rest,omitempty"`
	// The smallest effects that matter, by metric, as in {rtt_p50: 50us, goodput: 3%}:
	// a share for what is judged by its ratio, an amount for what is judged by its
	// difference. For other metrics, the catalogue's.
	Matters FileMatters `json:"matters,omitempty"`
	// Which path is compared with which; every other with the baseline when left
	// out.
	Contrasts []FileContrast `json:"contrasts,omitempty" jsonschema:"minItems=1,maxItems=240"`
	// The paths to compare.
	Paths []FilePath `json:"paths" jsonschema:"minItems=2,maxItems=16"`
	// What is measured on every path.
	Tests []FileTest `json:"tests" jsonschema:"minItems=1,maxItems=32"`
	// Published figures to compare the measurement with.
	Published *FilePublished `json:"published,omitempty"`
}

// FileEndpoint is a host at an end of every path.
type FileEndpoint struct {
	// Name of the endpoint.
	Name strict.NameText `json:"name" jsonschema:"example=vm1"`
	// Metered rate of all that the endpoint sends; unmetered when left out.
	EgressRate strict.RateText `json:"egress_rate,omitempty"`
	// Largest receive window that the endpoint advertises per flow; the
	// kernel's own tuning when left out.
	ReceiveWindow strict.SizeText `json:"receive_window,omitempty"`
	// Kernel name of the congestion control of the endpoint's flows, such as
	// cubic or bbr; cubic in a lab and otherwise the host's own when left out.
	CongestionControl AlgorithmText `json:"congestion_control,omitempty"`
	// Whether the host's software switch stands between the endpoint's interfaces
	// and the network; false when left out.
	VSwitch bool `json:"vswitch,omitempty"`
	// Number of interfaces over which its paths are spread; they share the
	// egress. 1 when left out.
	NICs int `json:"nics,omitempty" jsonschema:"minimum=1,maximum=8"`
}

// FilePath is a way from the source to the destination.
type FilePath struct {
	// Name of the path.
	Name strict.NameText `json:"name" jsonschema:"example=one-appliance"`
	// One line for people.
	Title strict.LineText `json:"title,omitempty"`
	// What traffic crosses, in order from the source; a plain link where left out. A
	// variant of another path has that one's.
	Hops []FileHop `json:"hops,omitempty" jsonschema:"minItems=1,maxItems=32"`
	// Name of the path whose addresses, hops and tunnel this one has too, but
	// for the hops that it bypasses.
	VariantOf strict.NameText `json:"variant_of,omitempty"`
	// Names of the hops that this variant of another path bypasses.
	Bypass []strict.NameText `json:"bypass,omitempty" jsonschema:"minItems=1,maxItems=32"`
	// How long after switching nothing is measured; 200ms when left out.
	Settle strict.TimeText `json:"settle,omitempty"`
	// Encapsulation between the two endpoints, over all hops.
	Tunnel *FileTunnel `json:"tunnel,omitempty"`
	// Whether a software switch stands between each endpoint and this path. What
	// the endpoints say when left out.
	VSwitch bool `json:"vswitch,omitempty"`
}

// FileTunnel is an encapsulation between the two endpoints of a path.
type FileTunnel struct {
	// Kind of encapsulation.
	Type string `json:"type" jsonschema:"enum=vxlan,enum=wireguard"`
	// VXLAN network identifier; the first that no other path has when left out.
	ID int `json:"id,omitempty" jsonschema:"minimum=1,maximum=16777215"`
	// UDP port of the encapsulation; 4789 for vxlan, and for wireguard the first from 51820
	// that no other path has, when left out.
	Port int `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// MTU inside; what the path leaves when left out.
	MTU strict.SizeText `json:"mtu,omitempty"`
}

// FileMatters are metrics and their margins, which a file writes as keys with values.
type FileMatters []strict.Entry[string, ValueText]

// Entries says what the mapping has.
func (FileMatters) Entries() strict.Entries {
	return strict.Entries{What: "metrics with their margins", Key: "metric", Example: "{rtt_p50: 50us, goodput: 3%}", Most: maxMatters}
}

// FileContrast is a comparison of one path with another.
type FileContrast struct {
	// Name of the path whose cost is asked for.
	Path strict.NameText `json:"path" jsonschema:"example=one-appliance"`
	// Name of the path that it is compared with; the experiment's baseline when
	// left out.
	Baseline strict.NameText `json:"baseline,omitempty"`
	// Another comparison: how much the two differ is asked for then.
	Against *FilePair `json:"against,omitempty"`
}

// FilePair is a path and what it is compared with.
type FilePair struct {
	// Name of the path.
	Path strict.NameText `json:"path" jsonschema:"example=one-appliance"`
	// Name of the path that it is compared with; the experiment's baseline when
	// left out.
	Baseline strict.NameText `json:"baseline,omitempty"`
}

// FileTest is a measurement that every path gets in every block.
type FileTest struct {
	// Name of the test.
	Name strict.NameText `json:"name" jsonschema:"example=flows-1"`
	// One line for people.
	Title strict.LineText `json:"title,omitempty"`
	// What it measures.
	Kind KindText `json:"kind"`
	// Options that the kind takes, by package kind's table.
	Options Options `json:"-"`
	// What differs when the run is asked for the published durations.
	Full *FileLength `json:"full,omitempty"`
	// What differs when the run is asked to be quick; 500 ms of measured time at
	// most when left out.
	Quick *FileLength `json:"quick,omitempty"`
}

// FileLength is what differs in a test at another length.
type FileLength struct {
	// Those options that make a test longer or shorter.
	Options Options `json:"-"`
}

// FilePublished are figures to compare the measurement with.
type FilePublished struct {
	// Where the figures come from, in words.
	Source strict.LineText `json:"source"`
	// The published values.
	Figures []FileFigure `json:"figures" jsonschema:"minItems=1,maxItems=1000"`
	// What the published study left open, one sentence each.
	Open []strict.ProseText `json:"open,omitempty" jsonschema:"maxItems=32"`
}

// FileFigure is one published value.
type FileFigure struct {
	// Row of the published table, such as E5.1.
	ID strict.LineText `json:"id" jsonschema:"example=E5.1"`
	// Name of the path it was measured on.
	Path strict.NameText `json:"path" jsonschema:"example=one-appliance"`
	// Name of the test that measures the same here.
	Test strict.NameText `json:"test" jsonschema:"example=flows-1"`
	// Name of the metric, which ends in its unit.
	Metric string `json:"metric"`
	// The value at published scale, in the metric's unit: 12.0Gbit, 2.783ms,
	// 64kB, 1% or, for counts, a plain number.
	Value ValueText `json:"value"`
	// What it is to the model: planted (a parameter was derived from it),
	// predicted (it follows from parameters that were derived from others) or
	// open (the model leaves out what it comes from, so nothing is judged).
	Kind string `json:"kind" jsonschema:"enum=planted,enum=predicted,enum=open"`
	// By what share of it the measured value may be off, either way; in a lab,
	// the ratio of the path to the baseline. A prediction needs one, or a
	// tolerance_factor; a planted figure without either is not judged.
	Tolerance strict.FractionText `json:"tolerance,omitempty"`
	// By what factor instead it may be off, either way: for what is rare, such
	// as retransmits.
	ToleranceFactor int `json:"tolerance_factor,omitempty" jsonschema:"minimum=2,maximum=1000"`
	// How many flows were published; a run with another number is not counted.
	Flows int `json:"flows,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// How long was measured; a run of another length is not counted.
	Duration strict.TimeText `json:"duration,omitempty"`
	// A remark for the report.
	Note strict.LineText `json:"note,omitempty"`
}

// The kinds of text that only an experiment file has.
type (
	// WordText is one of the words that an option takes.
	WordText string
	// KindText names a kind of test.
	KindText string
	// AlgorithmText is the kernel's name of a congestion control.
	AlgorithmText string
	// ValueText is a quantity whose unit its neighbour, the metric, decides.
	ValueText string
)

// algorithmPattern is what an AlgorithmText looks like; the kernel's
// TCP_CA_NAME_MAX is 16 with the closing zero.
const algorithmPattern = `^[a-z0-9_]{1,15}$`

// TextRules gives the rule of every kind of text.
func TextRules() map[reflect.Type]strict.Rule {
	rules := strict.TextRules()
	rules[reflect.TypeFor[HopType]()] = strict.Rule{Enum: kind.Texts(HopTypes())}
	rules[reflect.TypeFor[KindText]()] = strict.Rule{Enum: kindNames()}
	rules[reflect.TypeFor[AlgorithmText]()] = strict.Rule{Pattern: algorithmPattern, MaxLength: 15, Example: "cubic", Check: checkAlgorithm}
	rules[reflect.TypeFor[ValueText]()] = strict.Rule{Pattern: `^` + strict.Number + `[A-Za-zµμ%/]*$`, MaxLength: quantity.MaxText, Example: "12.0Gbit", Number: true}
	return rules
}

func checkAlgorithm(text string, isString bool) *quantity.UnitError {
	if isString && regexp.MustCompile(algorithmPattern).MatchString(text) {
		return nil
	}
	return &quantity.UnitError{Problem: fmt.Sprintf("%q is no name of a congestion control", strict.Clip(text)), Remedy: "write one such as cubic or bbr"}
}

// document is an experiment file to the decoder.
func document() strict.Document {
	return strict.Document{
		Format: Format, Noun: "experiment", Top: "the experiment", Schema: "hopbench experiments schema",
		Texts: TextRules(), Item: itemName, Renames: renames(),
		Optional: func(in reflect.Type, key string) bool { return in == reflect.TypeFor[FileFigure]() && key == "kind" },
		Takes:    takes,
	}
}

// takes says whether a hop of its type, or a test of its kind, takes a key.
func takes(in reflect.Type, key string, text func(key string) string) bool {
	switch in {
	case reflect.TypeFor[FileHop]():
		named := HopType(text("type"))
		return !slices.Contains(HopTypes(), named) || slices.Contains(HopTypesOf(key), named)
	case reflect.TypeFor[FileTest]():
		named := text("kind")
		_, option := kind.Find(measurement.Kind(named), key)
		return option || !slices.Contains(kindNames(), named) || slices.Contains(strict.KeysOf(in), key)
	}
	return true
}

// itemName is how messages call an item: `path "direct"` or `hop 2 of path "direct"`.
func itemName(list string, index int, key func(string) string) string {
	singular := map[string]string{"endpoints": "endpoint", "paths": "path", "tests": "test", "studies": "study", "metrics": "metric"}[list]
	switch kind, owner, _ := strings.Cut(list, " of "); kind {
	case "hops":
		return fmt.Sprintf("hop %d of %s", index+1, owner)
	case "contrasts":
		return fmt.Sprintf("contrast %d", index+1)
	case "figures":
		if strings.HasPrefix(owner, "setting ") {
			return fmt.Sprintf("figure %d of %s", index+1, owner)
		}
		return fmt.Sprintf("figure %d", index+1)
	case "settings":
		if id := key("id"); id != "" {
			return fmt.Sprintf("setting %q", id)
		}
	}
	if name := key("name"); singular != "" && name != "" {
		return fmt.Sprintf("%s %q", singular, name)
	}
	return ""
}
