package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func startExperiment(t *testing.T, e *experiment.Experiment) (*Lab, []Path) {
	t.Helper()
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	return startLab(t, built), paths
}

func switchTo(t *testing.T, l *Lab, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	testutil.OK(t, l.Switch(ctx, path))
}

// checkPath compares what ping and the kernel's own routing say with what is
// expected of the path in force.
func checkPath(t *testing.T, l *Lab, p Path) {
	t.Helper()
	text := must(t, l, p.SourceNode, "ping", "-n", "-c", "1", "-W", "5", "-I", p.Source.String(), p.Destination.String())
	if want := fmt.Sprintf("ttl=%d ", p.ReturnedTTL); !strings.Contains(text, want) {
		t.Errorf("path %s: no %q in\n%s", p.Name, want, text)
	}
	text = must(t, l, p.DestinationNode, "ping", "-n", "-c", "1", "-W", "5", "-I", p.Destination.String(), p.Source.String())
	if want := fmt.Sprintf("ttl=%d ", p.ReceivedTTL); !strings.Contains(text, want) {
		t.Errorf("path %s: no %q in\n%s", p.Name, want, text)
	}
	// A packet with a short life is answered by each node in turn.
	for i, hop := range p.Hops[:len(p.Hops)-1] {
		wait := "5"
		if !hop.IsValid() {
			wait = "0.2" // for an answer that must not come
		}
		text, _ := output(t, l, p.SourceNode, "ping", "-n", "-c", "1", "-W", wait, "-t", fmt.Sprint(i+1), "-I", p.Source.String(), p.Destination.String())
		if !hop.IsValid() { // silent
			if strings.Contains(text, "From") || !strings.Contains(text, "100% packet loss") {
				t.Errorf("path %s: hop %d answers or is not there:\n%s", p.Name, i+1, text)
			}
			continue
		}
		if want := fmt.Sprintf("From %v icmp_seq=1 Time to live exceeded", hop); !strings.Contains(text, want) {
			t.Errorf("path %s: no %q in\n%s", p.Name, want, text)
		}
	}
}

func TestSwitchInPlace(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ping", "ip")
	for name, e := range map[string]*experiment.Experiment{"off": labtest.FastPath(), "one way": labtest.OneWay()} {
		t.Run(name, func(t *testing.T) {
			l, paths := startExperiment(t, e)
			checkPath(t, l, paths[1]) // as it is built
			rng := rand.New(rand.NewPCG(7, 7))
			for range 12 {
				p := paths[rng.IntN(len(paths))]
				switchTo(t, l, p.Name)
				checkPath(t, l, p)
			}
			// The kernel has each of the routes once, and an understudy of those that
			// are switched, however often they were replaced.
			type place struct {
				Dst    string `json:"dst"`
				Metric int    `json:"metric"`
			}
			var routes []struct {
				place
				Dev string `json:"dev"`
			}
			testutil.OK(t, json.Unmarshal([]byte(must(t, l, "gateway/edge", "ip", "-j", "route")), &routes))
			seen := map[place]string{}
			for _, r := range routes {
				if other, twice := seen[r.place]; twice {
					t.Errorf("two routes to %s, by %s and by %s", r.Dst, other, r.Dev)
				}
				seen[r.place] = r.Dev
			}
			for at, dev := range seen {
				if first := seen[place{Dst: at.Dst}]; at.Metric != 0 && (at.Metric != 1<<16 || dev != first) {
					t.Errorf("the route to %s by %s with metric %d is no standby for that by %s", at.Dst, dev, at.Metric, first)
				}
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(p place) bool { return p.Metric != 0 }) {
				t.Error("no route has an understudy")
			}
		})
	}
}

// What a one-way hop says to the source passes by the hops before it that are off: a firewall
// among them does not know the flow.
func TestOneWayHopBehindBypassAnswers(t *testing.T) {
	needProgram(t, "ping")
	hops := []experiment.Hop{
		{Type: experiment.Router, Name: "edge"},
		{Type: experiment.Firewall, Name: "fw", Rules: 1, Instances: 1},
		{Type: experiment.Router, Name: "there", OneWay: true},
		{Type: experiment.Router, Name: "far"},
	}
	e := labtest.FastPath()
	e.Paths = []experiment.Path{
		{Name: "whole", Hops: hops},
		{Name: "no-fw", VariantOf: "whole", Hops: hops, Bypass: []string{"fw"}},
		{Name: "no-edge-no-fw", VariantOf: "whole", Hops: hops, Bypass: []string{"edge", "fw"}},
	}
	l, paths := startExperiment(t, e)
	for _, i := range []int{1, 0, 2, 1} {
		switchTo(t, l, paths[i].Name)
		checkPath(t, l, paths[i])
	}
}

// Packets that are sent while paths are switched all arrive.
func TestSwitchLosesNothing(t *testing.T) {
	needProgram(t, "ping")
	e := labtest.FastPath()
	for i := range e.Paths {
		for j := range e.Paths[i].Hops {
			e.Paths[i].Hops[j].Impairment = experiment.Impairment{}
		}
	}
	l, paths := startExperiment(t, e)
	p := paths[1]
	done := make(chan string, 1)
	go func() {
		text, _ := output(t, l, p.SourceNode, "ping", "-n", "-f", "-c", "10000", "-W", "5", "-q", "-I", p.Source.String(), p.Destination.String())
		done <- text
	}()
	for i := 0; ; i++ {
		select {
		case text := <-done:
			if !strings.Contains(text, "10000 packets transmitted, 10000 received, 0% packet loss") {
				t.Errorf("after %d switches:\n%s", i, text)
			}
			if i < 3 {
				t.Errorf("only %d switches meanwhile", i)
			}
			return
		default:
			switchTo(t, l, paths[i%len(paths)].Name)
		}
	}
}

func TestSwitchRefuses(t *testing.T) {
	l := startLab(t, chain(1, nil))
	if err := l.Switch(t.Context(), "fast"); err == nil || !strings.Contains(err.Error(), "no path of this lab is switched in place") {
		t.Errorf("got %v", err)
	}
	other, _ := startExperiment(t, labtest.FastPath())
	if err := other.Switch(t.Context(), "nowhere"); err == nil || !strings.Contains(err.Error(), `"nowhere" is none of those`) {
		t.Errorf("got %v", err)
	}
	must(t, other, "gateway/edge", "ip", "link", "set", "to-destination", "down")
	// Renamed, not deleted: without its device, the link emulator would rightly end.
	must(t, other, "gateway/edge", "ip", "link", "set", "bypass-1-1", "down")
	must(t, other, "gateway/edge", "ip", "link", "set", "bypass-1-1", "name", "elsewhere")
	if err := other.Switch(t.Context(), "fast"); err == nil || !strings.Contains(err.Error(), "route of gateway/edge") {
		t.Errorf("got %v, want the route that could not be replaced", err)
	}
	if err := other.Err(); err != nil {
		t.Errorf("a switch that failed broke the lab: %v", err)
	}
}

// Counters can be asked of some nodes alone, with the link emulators at them.
func TestCountersOfNodes(t *testing.T) {
	l, _ := startExperiment(t, labtest.FastPath())
	all, err := l.Counters(t.Context())
	testutil.OK(t, err)
	before := time.Now()
	some, err := l.Counters(t.Context(), "gateway/gateway", "gateway/appliance")
	testutil.OK(t, err)
	if len(all.Nodes) != 5 || len(all.Links) < 3 || len(some.Nodes) != 2 || some.Nodes[0].Node != "gateway/gateway" {
		t.Errorf("all: %d nodes, %d links; some: %+v", len(all.Nodes), len(all.Links), some)
	}
	at := func(c LinkCounters) bool {
		return slices.ContainsFunc(some.Nodes, func(n NodeCounters) bool { return n.Node == c.A.Node || n.Node == c.B.Node })
	}
	want := slices.DeleteFunc(slices.Clone(all.Links), func(c LinkCounters) bool { return !at(c) })
	if len(want) == 0 || len(want) == len(all.Links) || len(some.Links) != len(want) || !slices.ContainsFunc(some.Links, at) {
		t.Errorf("%d links at the nodes of %d in all, got %+v", len(want), len(all.Links), some.Links)
	}
	// Of a host, one interface and its link emulator alone.
	host, err := l.Counters(t.Context(), "site:gateway")
	if err != nil || len(host.Nodes) != 1 || host.Nodes[0].Node != "site" || len(host.Links) != 1 || host.Links[0].A.Interface != "gateway" {
		t.Errorf("at the source: %+v, %v", host, err)
	}
	if host, err = l.Counters(t.Context(), "site:elsewhere"); err != nil || len(host.Links) != 0 {
		t.Errorf("at no interface: %+v, %v", host, err)
	}
	for _, n := range some.Nodes {
		if n.Read.Before(before) || n.Read.After(time.Now()) {
			t.Errorf("node %s was read at %v, asked at %v", n.Node, n.Read, before)
		}
	}
}
