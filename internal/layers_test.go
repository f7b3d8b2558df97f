// Package internal_test keeps the house rules that docs/architecture.md draws.
package internal_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hopbench/hopbench"

// layers lists the packages from the top down. A package may import those of
// lines below its own, and what lies under its own folder.
var layers = [][]string{
	{"cmd/hopbench"},
	{"internal/cli"},
	{"internal/report/html", "internal/report/terminal", "internal/report/summary"},
	{"internal/report/figure", "internal/report/markdown", "internal/report/data"},
	{"internal/runner", "internal/report", "internal/testbed/lab", "internal/testbed/host"},
	{"internal/trial", "internal/survey"},
	{"internal/gate"},
	{"internal/testbed"},
	{"internal/lab", "internal/agent", "internal/store", "internal/metrics", "internal/report/typeset"},
	{"internal/lab/supervisor"},
	{"internal/lab/message"},
	{"internal/lab/apply", "internal/lab/layout"},
	{"internal/lab/plan"},
	{"internal/lab/topology"},
	{"internal/linkem", "internal/probe", "internal/experiment", "internal/analysis", "internal/words"},
	{"internal/probe/load"},
	{"internal/probe/tcp", "internal/probe/udp", "internal/probe/rr", "internal/probe/crr", "internal/probe/mtu", "internal/probe/ftp", "internal/probe/iperf3"},
	{"internal/probe/datagram"},
	{"internal/probe/session"},
	{"internal/probe/host"},
	{"internal/probe/icmp", "internal/probe/trace", "internal/protocol", "internal/iperf3", "internal/ftp", "internal/lab/filter", "experiments"},
	{"internal/tcpinfo"},
	{"internal/sampling", "internal/probe/latency", "internal/probe/icmp/wire", "internal/sockets", "internal/hostinfo", "internal/result", "internal/admission", "internal/idps", "internal/neighbour"},
	{"internal/kind"},
	{"internal/quantity"},
	{"internal/measurement", "internal/printable"},
}

// homes names the only packages that may import a heavy dependency.
// Packages for tests are free.
var homes = map[string][]string{
	"github.com/vishvananda/netlink":           {"internal/lab/apply", "internal/lab/filter"},
	"github.com/vishvananda/netns":             {"internal/lab/apply"},
	"github.com/google/nftables":               {"internal/lab/filter"},
	"github.com/mdlayher/netlink":              {"internal/lab/filter"},
	"golang.zx2c4.com/wireguard/wgctrl":        {"internal/lab/apply"},
	"modernc.org/sqlite":                       {"internal/store"},
	"go.yaml.in/yaml/v4":                       {"internal/experiment"},
	"github.com/spf13/cobra":                   {"internal/cli"},
	"github.com/invopop/jsonschema":            {"internal/experiment/schemagen"},
	"github.com/HdrHistogram/hdrhistogram-go":  {"internal/probe/latency", "internal/report/figure"},
	"github.com/fclairamb/ftpserverlib":        {"internal/ftp"},
	"github.com/jlaffaye/ftp":                  {"internal/ftp"},
	"github.com/spf13/afero":                   {"internal/ftp"},
	"golang.org/x/net":                         {"internal/probe/icmp", "internal/probe/trace", "internal/lab/apply", "internal/metrics"},
	"github.com/prometheus/client_golang":      {"internal/metrics"},
	"github.com/santhosh-tekuri/jsonschema/v6": {},
	"github.com/rogpeppe/go-internal":          {},
	"pgregory.net/rapid":                       {},
	"go.uber.org/goleak":                       {},
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

// tool says whether p is a program that users do not get: a benchmark or a
// generator. It may use everything but the command line.
func (p listed) tool() bool {
	return p.Name == "main" && !strings.HasSuffix(p.ImportPath, "/cmd/hopbench")
}

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

// layerOf finds the line of a package: its own, or that of the nearest folder
// above it.
func layerOf(pkg string) int {
	for p := pkg; p != "."; p = path.Dir(p) {
		for i, line := range layers {
			if slices.Contains(line, p) {
				return i
			}
		}
	}
	return -1
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		if len(p.Imports) == 0 || forTests(from) {
			continue
		}
		layer := layerOf(from)
		if layer < 0 && !p.tool() {
			t.Errorf("%s is on no line of docs/architecture.md; add it there and here", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !ours:
			case p.tool():
				if layerOf(to) <= layerOf("internal/cli") && !forTests(to) {
					t.Errorf("%s imports %s, which wires the product and serves no other program", from, to)
				}
			case forTests(to):
				t.Errorf("%s imports %s, which is for tests", from, to)
			case layerOf(to) <= layer && !strings.HasPrefix(to, from+"/"):
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
