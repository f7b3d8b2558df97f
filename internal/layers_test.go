// Package internal_test keeps the house rules that docs/architecture.md draws.
package internal_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hopbench/hopbench"

// homes names the only packages that may import a heavy dependency.
// Packages for tests are free.
var homes = map[string][]string{
	"github.com/vishvananda/netlink":            {"internal/lab/apply", "internal/lab/filter"},
	"github.com/vishvananda/netns":              {"internal/lab/apply"},
	"github.com/google/nftables":                {"internal/lab/filter"},
	"github.com/mdlayher/netlink":               {"internal/lab/filter"},
	"golang.zx2c4.com/wireguard/wgctrl":         {"internal/lab/apply"},
	"modernc.org/sqlite":                        {"internal/store"},
	"github.com/klauspost/compress":             {"internal/fleet/samples"},
	"github.com/xuri/excelize/v2":               {"internal/export"},
	"github.com/jackc/pgx/v5":                   {"internal/fleet/sink/postgres"},
	"github.com/Azure/azure-sdk-for-go":         {"internal/fleet/sink/azuretable", "internal/fleet/servicebus"},
	"github.com/parquet-go/parquet-go":          {"internal/export"},
	"go.yaml.in/yaml/v4":                        {"internal/strict"},
	"github.com/spf13/cobra":                    {"internal/cli", "packaging/extras"},
	"github.com/google/go-containerregistry":    {"packaging/image"},
	"github.com/invopop/jsonschema":             {"internal/schemagen"},
	"github.com/HdrHistogram/hdrhistogram-go":   {"internal/probe/latency", "internal/report/figure"},
	"github.com/fclairamb/ftpserverlib":         {"internal/ftp"},
	"github.com/jlaffaye/ftp":                   {"internal/ftp"},
	"github.com/spf13/afero":                    {"internal/ftp"},
	"golang.org/x/net":                          {"internal/probe/icmp", "internal/probe/trace", "internal/lab/apply", "internal/metrics", "internal/ui"},
	"github.com/prometheus/client_golang":       {"internal/metrics", "internal/meter"},
	"github.com/gosnmp/gosnmp":                  {"internal/meter"},
	"github.com/safchain/ethtool":               {"internal/hostinfo"},
	"github.com/nats-io/nats-server/v2":         {"internal/fleet/broker"},
	"github.com/nats-io/nats.go":                {"internal/fleet/bus"},
	"github.com/nats-io/jwt/v2":                 {"internal/fleet/broker"},
	"github.com/nats-io/nkeys":                  {"internal/fleet/broker", "internal/fleet/bus"},
	"github.com/Azure/go-amqp":                  {"internal/fleet/amqp"},
	"github.com/grafana/grafana-foundation-sdk": {},
	"github.com/santhosh-tekuri/jsonschema/v6":  {},
	"github.com/rogpeppe/go-internal":           {},
	"pgregory.net/rapid":                        {},
	"go.uber.org/goleak":                        {},
}

// slim is all that the slim program may be made of, besides Go's own: what is to be copied
// to many machines, and started there, carries no database, broker, sheet or chart.
var slim = []string{
	"github.com/HdrHistogram/hdrhistogram-go",
	"github.com/fclairamb/ftpserverlib",
	"github.com/hopbench/hopbench",
	"github.com/jlaffaye/ftp",
	"github.com/klauspost/compress",
	"github.com/nats-io/nats.go",
	"github.com/nats-io/nkeys",
	"github.com/nats-io/nuid",
	"github.com/safchain/ethtool",
	"github.com/spf13/afero",
	"github.com/spf13/cobra",
	"github.com/spf13/pflag",
	"go.yaml.in/yaml/v4",
	"golang.org/x/crypto",
	"golang.org/x/net",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/term",
	"golang.org/x/text",
}

type listed struct {
	ImportPath string
	Name       string
	Imports    []string
}

// forTests says whether a package only serves tests and the benchmark
// programs.
func forTests(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasPrefix(pkg, "test/") || pkg == "internal/testutil"
}

// tool says whether p is a program that users do not get, or a part of one: a benchmark
// or a generator. It may use everything but the command line.
func (p listed) tool() bool {
	return p.Name == "main" && !strings.HasSuffix(p.ImportPath, "/cmd/hopbench") || forBenchmarks(strings.TrimPrefix(p.ImportPath, module+"/"))
}

func forBenchmarks(pkg string) bool { return strings.HasPrefix(pkg, "bench/") }

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layers are the lines of packages of docs/architecture.md, from the top down. A
// package may import those of lines below its own, and what lies under its own folder.
type layers [][]string

func readLayers(t *testing.T) layers {
	t.Helper()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Imports go down only;")
	_, rest, _ = strings.Cut(rest, "```\n")
	drawn, _, ended := strings.Cut(rest, "```")
	if !ended {
		t.Fatal("docs/architecture.md draws no layers")
	}
	var all layers
	for line := range strings.Lines(drawn) {
		names := strings.Fields(line)
		for i, name := range names {
			if name != "cmd/hopbench" && name != "experiments" {
				names[i] = "internal/" + name
			}
			if _, err := os.Stat("../" + names[i]); err != nil {
				t.Errorf("docs/architecture.md draws a package that there is not: %v", err)
			}
		}
		all = append(all, names)
	}
	return all
}

// of finds the line of a package: its own, or that of the nearest folder above it.
func (l layers) of(pkg string) int {
	for p := pkg; p != "."; p = path.Dir(p) {
		for i, line := range l {
			if slices.Contains(line, p) {
				return i
			}
		}
	}
	return -1
}

func TestImportsGoDown(t *testing.T) {
	layers := readLayers(t)
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		if len(p.Imports) == 0 || forTests(from) {
			continue
		}
		layer := layers.of(from)
		if layer < 0 && !p.tool() {
			t.Errorf("%s is on no line of docs/architecture.md; add it there", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !ours:
			case p.tool() && forBenchmarks(to):
			case forBenchmarks(to):
				t.Errorf("%s imports %s, which is a benchmark", from, to)
			case p.tool():
				if layers.of(to) <= layers.of("internal/cli") && !forTests(to) && from != "packaging/extras" { // which describes the product
					t.Errorf("%s imports %s, which wires the product and serves no other program", from, to)
				}
			case forTests(to):
				t.Errorf("%s imports %s, which is for tests", from, to)
			case layers.of(to) <= layer && !strings.HasPrefix(to, from+"/"):
				t.Errorf("%s imports %s, which is not below it", from, to)
			}
		}
	}
}

// A trial is done in the same way wherever its path is.
func TestTrialsKnowNoLab(t *testing.T) {
	free := []string{"internal/testbed", "internal/trial", "internal/gate", "internal/runner"}
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			to := strings.TrimPrefix(imported, module+"/")
			if slices.Contains(free, from) && (to == "internal/lab" || strings.HasPrefix(to, "internal/lab/") || strings.HasPrefix(to, "internal/testbed/")) {
				t.Errorf("%s imports %s, which is one testbed of several", from, to)
			}
		}
	}
}

func TestHeavyDependenciesHaveOneHome(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		if forTests(from) {
			continue
		}
		for _, imported := range p.Imports {
			for dependency, allowed := range homes {
				if imported != dependency && !strings.HasPrefix(imported, dependency+"/") {
					continue
				}
				if !slices.ContainsFunc(allowed, func(home string) bool { return from == home || strings.HasPrefix(from, home+"/") }) {
					t.Errorf("%s imports %s, whose home is %v", from, dependency, allowed)
				}
			}
		}
	}
}

func TestTheSlimProgramIsSlim(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-tags", "agent", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"/cmd/hopbench")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	used := strings.Fields(string(out))
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(used, slim) {
		t.Errorf("the slim program is made of\n%s\nand should be of\n%s", strings.Join(used, "\n"), strings.Join(slim, "\n"))
	}
}
