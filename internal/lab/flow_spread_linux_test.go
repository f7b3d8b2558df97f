package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The rules are those that nft shows, and scaling changes nothing but the
// number of ways.
func TestDividingRules(t *testing.T) {
	needProgram(t, "nft", "ip", "sysctl")
	built, paths, err := FromExperiment(labtest.ParallelHops())
	testutil.OK(t, err)
	l := startLab(t, built)
	const key = "jhash ip saddr . ip daddr . th sport . th dport . meta l4proto"
	shows := func(node string, want ...string) {
		t.Helper()
		text := must(t, l, node, "nft", "list", "ruleset")
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%s lacks %q:\n%s", node, line, text)
			}
		}
	}
	spread := func(ways int) {
		t.Helper()
		for _, node := range paths[0].ScaleOuts[0].Nodes {
			shows(node, "ip ttl set ip ttl map { 0 : 1, 1 : 2, ", " 254 : 255 }", "ct mark set iif map {",
				fmt.Sprintf("ct mark set %s mod %d seed 0x686f7062 offset 1", key, ways), "meta mark set ct mark")
		}
	}
	spread(2)
	shows("balanced/lb", "ip daddr 10.1.0.2 dnat to "+key+" mod 2 seed 0x686f7062 map { 0 : 10.1.1.2, ")
	rules := must(t, l, "fleet/fw.after", "ip", "rule")
	for i, way := range built.Nodes[6].Functions.Spread.Ways {
		if want := fmt.Sprintf("fwmark %#x lookup %d", i+1, 1000+i+1); !strings.Contains(rules, want) {
			t.Errorf("no %q in\n%s", want, rules)
		}
		route := must(t, l, "fleet/fw.after", "ip", "route", "show", "table", fmt.Sprint(1000+i+1))
		if want := fmt.Sprintf("default via %s dev %s", way.Via, way.Interface); !strings.Contains(route, want) {
			t.Errorf("route %q, want %q", route, want)
		}
	}
	if text := must(t, l, "fleet/fw.after", "sysctl", "-n", "net.netfilter.nf_conntrack_tcp_be_liberal"); strings.TrimSpace(text) != "1" {
		t.Errorf("%s is %q", "net.netfilter.nf_conntrack_tcp_be_liberal", text)
	}

	for _, n := range []int{3, 3, 2} {
		testutil.OK(t, l.Scale(t.Context(), paths[0], "fw", n))
		spread(n)
	}
	for _, test := range []struct {
		path Path
		hop  string
		n    int
		want string
	}{
		{paths[0], "fw", 4, "4 active ways are not between 1 and 3"},
		{paths[0], "fw", 0, "0 active ways are not between 1 and 3"},
		{paths[0], "r", 1, "it does not grow"},
		{paths[2], "fw", 1, "it does not grow"},
		{Path{Name: "x", ScaleOuts: []ScaleOut{{Hop: "fw", Nodes: []string{"fleet/r"}}}}, "fw", 1, "node fleet/r spreads no flows"},
	} {
		if err := l.Scale(t.Context(), test.path, test.hop, test.n); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("scaling %s of %s to %d: %v, want %q", test.hop, test.path.Name, test.n, err, test.want)
		}
	}
	spread(2)
}

// Every instance answers a trace now and then, and costs one time to live; the
// nodes that spread do not.
func TestTraceSeesOneOfTheInstances(t *testing.T) {
	needProgram(t, "traceroute")
	l, paths := startExperiment(t, labtest.ParallelHops())
	path := paths[0]
	seen := make(map[netip.Addr]bool)
	for range 8 {
		text := must(t, l, path.SourceNode, "traceroute", "-n", "-U", "-q", "3", "-w", "2", path.Destination.String())
		lines := strings.Split(strings.TrimSpace(text), "\n")[1:]
		if len(lines) != len(path.Hops) {
			t.Fatalf("want %d hops:\n%s", len(path.Hops), text)
		}
		for i, line := range lines {
			for _, word := range strings.Fields(line)[1:] {
				a, err := netip.ParseAddr(word)
				if err != nil {
					continue // a time
				}
				if i == 0 {
					seen[a] = true
				}
				if !slices.Contains(path.Answers(i), a) {
					t.Errorf("hop %d is %s, want one of %v", i+1, a, path.Answers(i))
				}
			}
		}
	}
	if seen[path.Others[0][1]] || !seen[path.Hops[0]] || !seen[path.Others[0][0]] {
		t.Errorf("24 flows over two of three instances met %v", seen)
	}
}
