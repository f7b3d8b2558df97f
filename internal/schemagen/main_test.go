package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestSchemasAreUpToDate(t *testing.T) {
	testbed, err := os.ReadFile("../testbed/inventory/testbed.schema.json")
	testutil.OK(t, err)
	written := map[string][]byte{"experiment": experiments.Schema(), "testbed": testbed}
	for name, f := range formats() {
		directory, err := filepath.Rel("internal/schemagen", f.pkg)
		testutil.OK(t, err)
		// Joined with the directory, this gives the import path of the package.
		got, err := f.generate(module+"internal/schemagen", directory)
		testutil.OK(t, err)
		if !bytes.Equal(got, written[name]) {
			t.Errorf("the schema of the format %s is not what the types give; run go generate ./%s", name, f.pkg)
		}
	}
}

func compile(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testutil.OK(t, err)
	compiler := jsonschema.NewCompiler()
	testutil.OK(t, compiler.AddResource("schema.json", document))
	schema, err := compiler.Compile("schema.json")
	testutil.OK(t, err)
	return schema
}

// check validates YAML text; readable is false where it is no YAML.
func check(schema *jsonschema.Schema, text []byte) (readable bool, err error) {
	var value any
	if err := yaml.Load(text, &value); err != nil {
		return false, err
	}
	return true, schema.Validate(value)
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	schema := compile(t, experiment.Schema())
	for _, name := range experiments.Names() {
		text, err := experiments.Read(name)
		testutil.OK(t, err)
		if _, err := check(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for file, text := range testutil.Files(t, "../experiment/testdata/good/*.yaml") {
		if _, err := check(schema, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchemaRefusesBadFiles: an editor with the schema shows the mistakes that
// a schema can express. The others need the loader.
func TestSchemaRefusesBadFiles(t *testing.T) {
	beyondSchema := []string{
		// references and names that occur twice
		"duplicate-endpoint", "duplicate-path", "duplicate-test", "duplicate-hop-name", "same-trial-names",
		"unknown-baseline", "unknown-source", "same-ends", "figure-unknown-path", "figure-unknown-test",
		"variant-of-nothing", "variant-of-a-variant", "variant-off-unknown",
		"contrast-unknown", "contrast-itself", "contrast-twice", "contrast-against-itself", "contrast-against-unknown", "contrast-against-twice",
		"matters-not-measured", "matters-twice",
		// one value against another
		"matters-time-for-a-rate", "matters-share-for-a-time", "matters-rate-for-a-rate", "matters-without-unit", "matters-zero", "matters-all",
		"figure-prediction-without-tolerance", "figure-open-with-tolerance", "figure-two-tolerances", "figure-open-with-factor",
		"figure-metric-of-another-kind", "figure-wrong-unit", "figure-count-with-unit", "jitter-without-delay",
		"rate-too-slow-when-scaled", "window-too-small-when-scaled", "full-of-another-kind", "rr-over-icmp", "too-many-trials", "delay-together", "loss-together", "ping-requests-open",
		"in-flight-with-requests", "colocate-with-spin", "udp-both-ways", "both-ways-windows", "loss-bound-of-iperf3", "udp-too-many-flows", "source-port-beyond",
		"rr-timeout-over-tcp", "load-over-icmp", "idle-of-tcp", "multipath-window",
		"missing-of-all", "missing-of-one-pair", "waves-of-no-time", "waves-of-a-day", "time-of-no-waves", "more-waves-than-pairs", "ramp-of-one-pair", "ramp-and-waves", "search-of-pairs",
		"variant-with-hops", "variant-with-nothing-off", "off-without-same-as", "path-without-hops",
		"scale-out-to-fewer", "tunnel-id-of-wireguard", "tunnel-mtu-too-large", "tunnel-over-small-path",
		"tunnel-through-nat", "tunnels-of-one-id", "tunnels-on-one-port", "pairs-of-one", "pairs-of-many-flows",
		"too-few-round-trips", "flow-limit-below-datagrams", "flow-limit-below-flows", "flow-limit-below-controls", "flow-limit-below-files", "flow-limit-below-load", "flow-limit-below-pairs", "flow-limit-below-tunnels", "too-many-silent-hops", "tunnel-port-of-tests",
		"two-load-balancers", "ftp-behind-a-balancer", "iperf3-behind-a-balancer", "source-port-behind-a-balancer", "idps-behind-load-balancer", "nat-behind-load-balancer", "one-way-behind-load-balancer", "off-behind-load-balancer",
		"load-balancer-by-switch", "pairs-by-switch", "off-as-another", "off-of-links", "off-twice",
		// the size of a quantity with a unit
		"loss-bound-zero", "loss-bound-too-large", "mss-too-large", "packet-too-small", "packet-too-large", "send-buffer-too-small",
		"rate-zero", "rate-huge", "time-too-fine", "time-too-long", "duration-too-short", "window-part-of-a-byte", "window-too-large",
		"loss-above-whole", "loss-too-large", "loss-exponent", "scale-huge", "request-too-large", "ping-payload-too-small",
		// notation that means the same to YAML
		"blocks-hex", "utf16", "merge-key", "tag", "title-escape", "title-two-lines",
	}
	refuses(t, compile(t, experiment.Schema()), "../experiment/testdata/bad/*.yaml", beyondSchema)
}

// refuses holds that a schema refuses the files of a pattern, but for those that are
// beyond it.
func refuses(t *testing.T, schema *jsonschema.Schema, pattern string, beyond []string) {
	t.Helper()
	for file, text := range testutil.Files(t, pattern) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		readable, err := check(schema, text)
		if !readable {
			continue
		}
		if refused := err != nil; refused == slices.Contains(beyond, name) {
			t.Errorf("%s is refused: %v (%v)", name, refused, err)
		}
	}
}

// FuzzSchemaAgrees: an editor never marks as wrong what the loader accepts.
func FuzzSchemaAgrees(f *testing.F) {
	for _, pattern := range []string{"../experiment/testdata/good/*.yaml", "../experiment/testdata/bad/*.yaml", "../../experiments/*.yaml"} {
		for _, text := range testutil.Files(f, pattern) {
			f.Add(text)
		}
	}
	schema := compile(f, experiment.Schema())
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := experiment.Load("my.yaml", text); err != nil {
			return
		}
		if _, err := check(schema, text); err != nil {
			t.Errorf("the loader accepts what the schema does not: %v\n%s", err, text)
		}
	})
}
