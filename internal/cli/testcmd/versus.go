package testcmd

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/words"
)

// versusFlag names a further way to the host.
const versusFlag = "versus"

// mostWays bounds how many ways are compared with each other.
const mostWays = 16

// The test over TCP of a comparison for which none was chosen, in seconds.
const (
	versusDuration  = 2
	versusMaxWarmup = 1
)

// way is one way to a host, as the command line names it.
type way struct {
	Target
	bind   string // local address, empty for the kernel's choice
	device string // interface, empty as routed
	dscp   int
}

// anyValue stands for what is left to the kernel.
const anyValue = "any"

// other is the way that the value of a --versus names: what it does not name is as in w.
func (w way) other(text string) (way, error) {
	wrong := func(format string, args ...any) (way, error) {
		return w, fmt.Errorf("--%s %q: %w", versusFlag, text, fmt.Errorf(format, args...))
	}
	given := map[string]bool{}
	parts := strings.Split(text, ",")
	// HOST first, which may name an interface and a port, too.
	slices.SortStableFunc(parts, func(a, b string) int {
		return strings.Count(a, "=") - strings.Count(b, "=")
	})
	for _, part := range parts {
		key, value, found := strings.Cut(part, "=")
		if !found {
			key, value = "HOST", part
		}
		if value == "" {
			return wrong("%q names nothing; write another HOST or :PORT, or bind=, device=, dscp=", part)
		}
		if given[key] {
			return wrong("it names %s twice; a further way is a --%s of its own", key, versusFlag)
		}
		given[key] = true
		var err error
		switch key {
		case "HOST":
			var to Target
			var device string
			to, device, err = SplitTarget(value, w.Port)
			if strings.Contains(to.Name, "%") {
				device = "" // an address on a link has its interface itself
			}
			w.Port, w.Name, w.device = to.Port, cmp.Or(to.Name, w.Name), cmp.Or(device, w.device)
			_, _, noPort := net.SplitHostPort(value)
			given["device"], given["port"] = device != "", noPort == nil
		case "port":
			var to Target
			to, _, err = SplitTarget(":"+value, w.Port)
			w.Port = to.Port
		case "bind":
			w.bind = unlessAny(value)
		case "device":
			w.device = unlessAny(value)
		case "dscp":
			var point float64
			point, err = base.ParseDSCP(value)
			w.dscp = int(point)
		default:
			return wrong("%q is none of bind, device, dscp and port", key)
		}
		if err != nil {
			return wrong("%w", err)
		}
	}
	switch {
	case onLink(w.Name) && w.device == "":
		return wrong("%w", errOnLink(w.Name))
	case onLink(w.Name):
		w.Name += "%" + w.device
	}
	if _, link, on := strings.Cut(w.Name, "%"); on && w.device != "" && w.device != link {
		if given["device"] {
			return wrong("%s is an address on the link of %s; write the one on that of %s", w.Name, link, w.device)
		}
		w.device = "" // which is of the other HOST
	}
	return w, nil
}

func unlessAny(value string) string {
	if value == anyValue {
		return ""
	}
	return value
}

// differ says whether something of the ways is not the same of all.
func differ[T comparable](ways []way, of func(way) T) bool {
	for _, w := range ways {
		if of(w) != of(ways[0]) {
			return true
		}
	}
	return false
}

func hostOf(w way) string   { return w.Name }
func portOf(w way) uint16   { return w.Port }
func bindOf(w way) string   { return w.bind }
func deviceOf(w way) string { return w.device }
func dscpOf(w way) int      { return w.dscp }

// wayNames name the ways by what tells them apart, as --versus takes it.
func wayNames(ways []way) []string {
	out := make([]string, len(ways))
	for i, w := range ways {
		var parts []string
		port := strconv.Itoa(int(w.Port))
		switch host, ports := differ(ways, hostOf), differ(ways, portOf); {
		case host && ports:
			parts = append(parts, net.JoinHostPort(w.Name, port))
		case host:
			parts = append(parts, w.Name)
		case ports:
			parts = append(parts, ":"+port)
		}
		if differ(ways, bindOf) {
			parts = append(parts, "bind="+cmp.Or(w.bind, anyValue))
		}
		if differ(ways, deviceOf) {
			parts = append(parts, "device="+cmp.Or(w.device, anyValue))
		}
		if differ(ways, dscpOf) {
			parts = append(parts, "dscp="+strconv.Itoa(w.dscp))
		}
		out[i] = strings.Join(parts, ",")
	}
	return out
}

// comparison is a run of hopbench test that compares several ways to a host.
type comparison struct {
	flags *testFlags
	ways  []way // the baseline first
	e     *experiment.Experiment
	// watch is live.WatchMachine, but in tests.
	watch func(*store.Head, string, *live.Progress) *live.Neighbours
}

// comparison is what the command line compares: every way is a path of an experiment.
// No kinds are a short set that tells of both rate and latency.
func (f *testFlags) comparison(to Target, kinds []measurement.Kind, blocksGiven bool) (*comparison, error) {
	asked := measurement.Spec{Kind: measurement.TCP}
	f.options.apply(&asked)
	first := way{Target: to, bind: f.Bind, device: asked.Device, dscp: asked.DSCP}
	ways := []way{first}
	for _, text := range f.versus {
		w, err := first.other(text)
		if err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	if len(ways) > mostWays {
		return nil, fmt.Errorf("these are %d ways; compare at most %d", len(ways), mostWays)
	}
	called := wayNames(ways)
	for i, name := range called {
		for j := range i {
			if name == called[j] {
				return nil, fmt.Errorf("--%s %s is the same path as %s; name what is other about it: HOST, :PORT, bind=, device= or dscp=", versusFlag, f.versus[i-1], sameAs(j, f.versus))
			}
		}
	}
	e := &experiment.Experiment{
		Name: versusTitle(ways, called), Scale: 1, Baseline: called[0], Blocks: f.blocks, Matters: f.matters,
		Source: "source", Destination: "destination",
		// They complete the tests: who sends may be either.
		Endpoints: []experiment.Endpoint{
			{Name: "source", ReceiveWindowBytes: asked.WindowBytes, CongestionControl: asked.CongestionControl},
			{Name: "destination", ReceiveWindowBytes: asked.WindowBytes, CongestionControl: asked.CongestionControl},
		},
	}
	if !blocksGiven {
		e.Blocks = analysis.FewestBlocks()
	}
	for _, name := range called {
		e.Paths = append(e.Paths, experiment.Path{Name: name})
	}
	chosen := len(kinds) > 0
	if !chosen {
		kinds = []measurement.Kind{measurement.TCP, measurement.RR}
	}
	for _, name := range kinds {
		spec, err := f.versusSpec(name, kinds, ways)
		if err != nil {
			return nil, err
		}
		if !chosen && name == measurement.TCP {
			spec.MaxWarmup, spec.Duration = versusMaxWarmup, measurement.Seconds(cmp.Or(value[float64](f.options, "duration"), versusDuration))
		}
		e.Tests = append(e.Tests, experiment.Test{Name: string(name), Title: words.Title(spec), Spec: spec})
	}
	if runner.Comparisons(e) == 0 {
		return nil, fmt.Errorf("nothing of %s is compared; choose other kinds with --only", names(kinds))
	}
	return &comparison{flags: f, ways: ways, e: e, watch: live.WatchMachine}, nil
}

// versusSpec is the spec of one kind. What tells the ways apart is theirs, and every
// kind must take it.
func (f *testFlags) versusSpec(name measurement.Kind, kinds []measurement.Kind, ways []way) (measurement.Spec, error) {
	spec, err := f.options.specOf(name, kinds)
	if err != nil {
		return spec, err
	}
	for _, o := range []struct {
		option string
		differ bool
	}{{"device", differ(ways, deviceOf)}, {"dscp", differ(ways, dscpOf)}} {
		if _, takes := kind.Find(name, o.option); o.differ && !takes {
			return spec, fmt.Errorf("%s takes no %s, and would be done on the same path each time; leave it out of --only", name, o.option)
		}
		if o.differ && o.option == "device" {
			spec.Device = ""
		} else if o.differ {
			spec.DSCP = 0
		}
	}
	return spec, nil
}

// sameAs names the way of a number: the first is HOST's.
func sameAs(i int, versus []string) string {
	if i == 0 {
		return "HOST"
	}
	return "--" + versusFlag + " " + versus[i-1]
}

// versusTitle is that of the report.
func versusTitle(ways []way, called []string) string {
	title := words.List(called[1:]) + " against " + called[0]
	if !differ(ways, hostOf) {
		title += ", to " + ways[0].Name
	}
	return title
}
