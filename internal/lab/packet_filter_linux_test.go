package lab

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What the kernel holds, in the words of nft, is what was asked for: of every type of hop
// with its defaults, and of what changes its rules.
func TestRuleSets(t *testing.T) {
	needProgram(t, "nft")
	hops := map[string]string{
		"firewall-silent-one-way": "type: firewall, rules: 1, silent: true, one_way: true",
		"nat-destination":         "type: nat, translate: destination",
		"nat-both-silent":         "type: nat, translate: both, silent: true",
		"vnet-gateway-limit":      "type: vnet-gateway, flow_limit: 500",
		"router-silent":           "type: router, silent: true",
	}
	for _, typ := range experiment.HopTypes() {
		if (experiment.Hop{Type: typ}).Forwards() {
			hops[string(typ)] = "type: " + string(typ)
		}
	}
	for name, hop := range hops {
		t.Run(name, func(t *testing.T) {
			built, _ := layOut(t, "{type: link}", "{"+hop+", name: hop}")
			l := startLab(t, built)
			labtest.Golden(t, name+".nft", must(t, l, "tested/hop", "nft", "list", "ruleset"))
		})
	}
}

// Many rules are many rules, all different.
func TestManyRules(t *testing.T) {
	needProgram(t, "nft")
	built, _ := layOut(t, "{type: firewall, name: fw, rules: 2345}")
	l := startLab(t, built)
	text := must(t, l, "tested/fw", "nft", "list", "table", "ip", "hopbench")
	rules := regexp.MustCompile(`ip saddr 198\.18\.\d+\.\d+ drop`).FindAllString(text, -1)
	if len(rules) != 2345 || rules[2344] != "ip saddr 198.18.9.40 drop" {
		t.Errorf("%d rules, the last is %q", len(rules), rules[len(rules)-1])
	}
	slices.Sort(rules)
	if different := len(slices.Compact(rules)); different != 2345 {
		t.Errorf("%d different rules", different)
	}
	for _, chain := range []string{"rules-1", "rules-2", "rules-3"} {
		if !strings.Contains(text, "jump "+chain+"\n") {
			t.Errorf("the rules of %s are never met", chain)
		}
	}
}

func TestFirewall(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "nft", "ping", "cat")
	l, path := through(t, "{type: link}", "{type: firewall, name: fw, rules: 250}")
	const node = "tested/fw"
	source := path.Source.String()
	poll(t, func() bool { return *countersOf(t, l, node).Functions.Connections == 0 }, func() string { return "connections before any traffic" })

	const n = 30
	clients := run(t, l, path.SourceNode, "connect", source, target(path), strconv.Itoa(n), "10s")
	if line, want := clients.line(t), fmt.Sprintf("%d connected: ", n); !strings.HasPrefix(line, want) {
		t.Fatalf("%s, want %s", line, want)
	}
	if got := *countersOf(t, l, node).Functions.Connections; got != n {
		t.Errorf("the connection table has %v entries for %d connections", got, n)
	}
	if got := sysctlIn(t, l, node, "net.netfilter.nf_conntrack_count"); got != strconv.Itoa(n) {
		t.Errorf("the kernel says %s of %d connections", got, n)
	}
	role(t, l, path.SourceNode, "ask", source, target(path))
	must(t, l, path.SourceNode, "ping", "-n", "-c", "1", "-W", "5", "-I", source, path.Destination.String())
	must(t, l, path.DestinationNode, "ping", "-n", "-c", "1", "-W", "5", "-I", path.Destination.String(), source)
	if dropped := countersOf(t, l, node).Functions.DroppedPackets; dropped != 0 {
		t.Errorf("%v packets of the path's own traffic were dropped", dropped)
	}

	// What is not between the two ends, or speaks what it should not, is dropped.
	must(t, l, path.SourceNode, selfExecutable, "traffic", "protocol", source, path.Destination.String(), "253")
	poll(t, func() bool { return countersOf(t, l, node).Functions.DroppedPackets == 5 },
		func() string { return fmt.Sprintf("5 packets of protocol 253 became %+v", countersOf(t, l, node)) })
	other := "10.0.0.1" // of the source, on the other path
	if text, code := output(t, l, path.SourceNode, "ping", "-n", "-c", "3", "-i", "0.05", "-W", "1", "-I", other, path.Destination.String()); code == 0 {
		t.Errorf("pings from an address of another path were answered:\n%s", text)
	}
	if dropped := countersOf(t, l, node).Functions.DroppedPackets; dropped != 8 {
		t.Errorf("5 strange packets and 3 of a strange address became %v drops", dropped)
	}

	// Without its rule a new flow is refused, but those that stand go on.
	must(t, l, node, "nft", "flush", "set", "ip", "hopbench", "pairs")
	if line := clients.echo(t); line != fmt.Sprintf("%d echoed", n) {
		t.Errorf("of %d connections that stood: %s", n, line)
	}
	late := run(t, l, path.SourceNode, "connect", source, target(path), "1", "1500ms")
	if line := late.line(t); !strings.HasPrefix(line, "0 connected") {
		t.Errorf("without the rule that accepts: %s", line)
	}
	if limit := l.Environment()["net.netfilter.nf_conntrack_max"]; limit == "" || limit != sysctlIn(t, l, node, "net.netfilter.nf_conntrack_max") {
		t.Errorf("the limit of the connection table is recorded as %q", limit)
	}
}

// A firewall in the forward direction alone sees no answers, and lets the flow pass.
//
//	source ── firewall ── destination
//	   └────────────────────┘ the reverse direction
func TestFirewallOneWay(t *testing.T) {
	t.Parallel() // it waits for most of its time
	for _, oneWay := range []bool{true, false} {
		t.Run(strconv.FormatBool(oneWay), func(t *testing.T) {
			from, to := labtest.Address(0, 0, 1), labtest.Address(0, 1, 2)
			back := labtest.Address(0, 2, 1).Addr()
			l := startLab(t, Topology{
				Nodes: []Node{
					{Name: "source", Agent: true},
					{Name: "fw", Forward: true, Functions: filter.Functions{Filter: &filter.Table{Firewall: &filter.Firewall{
						Rules: 1, Pairs: []filter.Pair{{A: from.Addr(), B: to.Addr()}}, OneWay: oneWay,
					}}}},
					{Name: "destination", Agent: true, Routes: []topology.Route{{Destination: netip.PrefixFrom(from.Addr(), 32), Via: back, Interface: "back"}}},
				},
				Links: []Link{
					{A: End{Node: "source", Interface: "there", Address: from}, B: End{Node: "fw", Interface: "left", Address: labtest.Address(0, 0, 2)}},
					{A: End{Node: "fw", Interface: "right", Address: labtest.Address(0, 1, 1)}, B: End{Node: "destination", Interface: "there", Address: to}},
					{A: End{Node: "source", Interface: "back", Address: labtest.Address(0, 2, 1)}, B: End{Node: "destination", Interface: "back", Address: labtest.Address(0, 2, 2)}},
				},
			})
			target := netip.AddrPortFrom(to.Addr(), trafficPort).String()
			listening(t, l, "destination", "serve", target)
			clients := run(t, l, "source", "connect", from.Addr().String(), target, "3", "3s")
			line := clients.line(t)
			if !oneWay {
				// It lets the first packet pass, and nothing of the client's after that.
				if !strings.HasPrefix(line, "0 connected") {
					t.Error(line)
				}
				return
			}
			if !strings.HasPrefix(line, "3 connected") {
				t.Error(line)
			}
			if line := clients.echo(t); line != "3 echoed" {
				t.Error(line)
			}
		})
	}
}

func TestNAT(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ping", "traceroute")
	addr := netip.MustParseAddr
	public := addr("10.1.1.2") // the nat's, towards the source
	for _, test := range []struct {
		translate   string
		destination netip.Addr // that the source sends to
		from        string     // whom the destination sees
		hops        []netip.Addr
	}{
		{"source", addr("10.1.3.2"), "10.1.2.1", []netip.Addr{addr("10.1.0.2"), addr("10.1.1.2"), addr("10.1.2.2"), addr("10.1.3.2")}},
		{"destination", public, "10.1.0.1", []netip.Addr{addr("10.1.0.2"), public, public, public}},
		{"both", public, "10.1.2.1", []netip.Addr{addr("10.1.0.2"), public, public, public}},
	} {
		t.Run(test.translate, func(t *testing.T) {
			l, path := through(t, "{type: router, name: before}", "{type: nat, name: edge, translate: "+test.translate+"}", "{type: router, name: behind}", "{type: link}")
			if path.Destination != test.destination || path.Listen != addr("10.1.3.2") || !slices.Equal(path.Hops, test.hops) || path.ReceivedTTL != InitialTTL-3 {
				t.Fatalf("path %+v", path)
			}
			source := path.Source.String()
			clients := run(t, l, path.SourceNode, "connect", source, target(path), "20", "10s")
			line := clients.line(t)
			if want := `20 connected: ` + regexp.QuoteMeta(test.from) + `:\d+ 10\.1\.3\.2:7000`; !regexp.MustCompile("^" + want + "$").MatchString(line) {
				t.Errorf("%s, want %s", line, want)
			}
			if line := clients.echo(t); line != "20 echoed" {
				t.Error(line)
			}
			if seen := role(t, l, path.SourceNode, "ask", source, target(path)); !strings.HasPrefix(seen[0], test.from+":") {
				t.Errorf("a datagram came from %s, want %s", seen[0], test.from)
			}
			text := must(t, l, path.SourceNode, "ping", "-n", "-c", "2", "-i", "0.05", "-W", "5", "-I", source, path.Destination.String())
			if !strings.Contains(text, fmt.Sprintf("ttl=%d ", path.ReceivedTTL)) {
				t.Errorf("want a TTL of %d in\n%s", path.ReceivedTTL, text)
			}
			if got := *countersOf(t, l, "tested/edge").Functions.Connections; got < 20 {
				t.Errorf("20 connections that stand became %v", got)
			}
			if c := countersOf(t, l, "tested/before").Functions.Connections; c != nil {
				t.Errorf("a plain router counts %v connections", *c)
			}
			traces(t, l, path)
		})
	}
}

// Sources are translated whatever way packets take behind the nat: the bypass of the hop
// behind it, or that to any back end.
func TestNATBeforeSeveralWays(t *testing.T) {
	t.Parallel()              // it waits for most of its time
	const source = "10.1.1.1" // of the nat
	t.Run("bypass", func(t *testing.T) {
		hops := []experiment.Hop{
			{Type: experiment.NAT, Name: "edge", Translate: experiment.TranslateSource},
			{Type: experiment.Router, Name: "r"},
			{Type: experiment.Firewall, Name: "fw", Rules: 1, Instances: 1},
		}
		e := labtest.RoutingAppliance()
		e.Paths = []experiment.Path{{Name: "other"}, {Name: "tested", Hops: hops}, {Name: "short", VariantOf: "tested", Hops: hops, Bypass: []string{"r"}}}
		l, paths := startExperiment(t, e)
		at := target(paths[1])
		listening(t, l, paths[1].DestinationNode, "serve", at)
		for _, path := range paths[1:] {
			switchTo(t, l, path.Name)
			clients := run(t, l, path.SourceNode, "connect", path.Source.String(), at, "3", "3s")
			if line := clients.line(t); !strings.HasPrefix(line, "3 connected: "+source+":") {
				t.Errorf("path %s: %s", path.Name, line)
			}
			clients.end()
		}
	})
	t.Run("back ends", func(t *testing.T) {
		e := labtest.RoutingAppliance()
		e.Paths = []experiment.Path{{Name: "other"}, {Name: "tested", Hops: []experiment.Hop{
			{Type: experiment.LoadBalancer, Name: "lb", Backends: 2},
			{Type: experiment.NAT, Name: "edge", Translate: experiment.TranslateSource},
		}}}
		l, paths := startExperiment(t, e)
		path, seen := paths[1], map[string]bool{}
		for _, b := range path.Backends {
			listening(t, l, b.Node, "serve", netip.AddrPortFrom(b.Address, trafficPort).String())
		}
		for range 12 {
			clients := run(t, l, path.SourceNode, "connect", path.Source.String(), target(path), "1", "3s")
			line := clients.line(t)
			from, at, _ := strings.Cut(strings.TrimPrefix(line, "1 connected: "), " ")
			seen[at] = true
			if !strings.HasPrefix(from, "10.1.2.") {
				t.Errorf("a back end sees an address that is none of the nat's: %s", line)
			}
			clients.end()
		}
		if len(seen) != 2 {
			t.Errorf("12 flows met %v", seen)
		}
	})
}

// traces compares the trace of the product, and traceroute's, with the path.
func traces(t *testing.T, l *Lab, path Path) {
	t.Helper()
	var want []string
	silent := 0
	for _, h := range path.Hops {
		if h.IsValid() {
			want = append(want, h.String())
		} else {
			want, silent = append(want, "*"), silent+1
		}
	}
	summary := fmt.Sprintf("%d hops, %d silent", len(want), silent)
	if got := role(t, l, path.SourceNode, "trace", path.Source.String(), target(path)); !slices.Equal(got, append(slices.Clone(want), summary)) {
		t.Errorf("the trace saw %q, want %q, %s", got, want, summary)
	}
	text := must(t, l, path.SourceNode, "traceroute", "-n", "-T", "-p", strconv.Itoa(trafficPort), "-q", "1", "-w", "1", "-s", path.Source.String(), path.Destination.String())
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^ *\d+  (\S+)`).FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("traceroute saw %q, want %q:\n%s", got, want, text)
	}
}

// A provider's silent hops before a public address: published as 8 hops, of
// which 7 are silent.
func TestProviderHops(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "traceroute", "tcptraceroute")
	l, path := through(t, "{type: link}", "{type: nat, name: public, translate: destination, silent_hops: 7}", "{type: link}")
	if len(path.Hops) != 8 || path.Hops[6].IsValid() || !path.Hops[7].IsValid() || path.ReceivedTTL != InitialTTL-7 {
		t.Fatalf("path %+v", path)
	}
	traces(t, l, path)
	text := must(t, l, path.SourceNode, "tcptraceroute", "-n", "-q", "1", "-w", "1", "-s", path.Source.String(), path.Destination.String(), strconv.Itoa(trafficPort))
	lines := regexp.MustCompile(`(?m)^ *(\d+)  (\S+)`).FindAllStringSubmatch(text, -1)
	for i, m := range lines {
		if silent := m[2] == "*"; silent != (i < 7) {
			t.Errorf("hop %s is %s", m[1], m[2])
		}
	}
	if len(lines) != 8 || lines[7][2] != path.Destination.String() {
		t.Errorf("tcptraceroute saw\n%s", text)
	}
}

func TestGatewayLimitsFlows(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ping")
	const limit = 25
	l, path := through(t, fmt.Sprintf("{type: vnet-gateway, name: gw, flow_limit: %d, delay: 1ms}", limit), "{type: link}")
	source := path.Source.String()
	clients := run(t, l, path.SourceNode, "connect", source, target(path), "60", "4s")
	if line, want := clients.line(t), fmt.Sprintf("%d connected: ", limit); !strings.HasPrefix(line, want) {
		t.Errorf("of 60 connections through a limit of %d: %s", limit, line)
	}
	if line := clients.echo(t); line != fmt.Sprintf("%d echoed", limit) {
		t.Errorf("of the connections that passed: %s", line)
	}
	if dropped := countersOf(t, l, "tested/gw").Functions.DroppedPackets; dropped < 60-limit {
		t.Errorf("%d connections did not pass, but %v packets were dropped", 60-limit, dropped)
	}
	if text, code := output(t, l, path.SourceNode, "ping", "-n", "-c", "1", "-W", "1", "-I", source, path.Destination.String()); code == 0 {
		t.Errorf("a ping is a flow, too, and passed:\n%s", text)
	}
	clients.end()
	poll(t, func() bool {
		again := run(t, l, path.SourceNode, "connect", source, target(path), strconv.Itoa(limit), "2s")
		defer again.end()
		return strings.HasPrefix(again.line(t), fmt.Sprintf("%d connected", limit))
	}, func() string { return "new flows do not take the place of those that ended" })
	if text, code := output(t, l, path.SourceNode, "ping", "-n", "-c", "1", "-W", "1", "-t", "1", "-I", source, path.Destination.String()); code == 0 || strings.Contains(text, "exceeded") {
		t.Errorf("the gateway answered:\n%s", text)
	}
}

// The flows of a trial count in no other: those over UDP would for minutes.
func TestGatewayForgetsFlows(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ping")
	const limit = 40 // of which the kernel takes but some from its list for each new flow
	l, path := through(t, fmt.Sprintf("{type: vnet-gateway, name: gw, flow_limit: %d}", limit), "{type: link}")
	node, source := path.SourceNode, path.Source.String()
	pings := func(n int) (answered int) {
		for range n { // each is a flow for half a minute
			if _, code := output(t, l, node, "ping", "-n", "-c", "1", "-W", "1", "-I", source, path.Destination.String()); code == 0 {
				answered++
			}
		}
		return answered
	}
	if n := pings(limit + 1); n != limit {
		t.Errorf("%d pings passed a limit of %d", n, limit)
	}
	testutil.OK(t, l.ForgetFlows(t.Context(), []string{"tested/gw"}))
	clients := run(t, l, node, "connect", source, target(path), "60", "4s")
	if line, want := clients.line(t), fmt.Sprintf("%d connected: ", limit); !strings.HasPrefix(line, want) {
		t.Errorf("of 60 connections through a limit of %d that forgot: %s", limit, line)
	}
	if pings(1) > 0 {
		t.Error("a ping passed the limit that is reached again")
	}
}

// Silence is about what a hop would send itself, not about what it forwards.
func TestSilentHops(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needProgram(t, "ping", "traceroute")
	for _, silent := range []bool{false, true} {
		t.Run(strconv.FormatBool(silent), func(t *testing.T) {
			l, path := through(t,
				"{type: router, name: first}",
				fmt.Sprintf("{type: router, name: second, mtu: 1400B, silent: %v}", silent),
				"{type: link}")
			traces(t, l, path)
			source, node := path.Source.String(), path.SourceNode
			for _, test := range []struct {
				what, size, ttl, says string
				silenced              bool
			}{
				{"a packet whose time runs out", "56", "2", "Time to live exceeded", true},
				{"a packet whose time runs out at the hop before", "56", "1", "Time to live exceeded", false},
				{"a packet that does not fit", "1450", "64", "Frag", true},
			} {
				text, code := output(t, l, node, "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", test.size, "-t", test.ttl, "-I", source, path.Destination.String())
				if said := strings.Contains(text, test.says); code == 0 || said == (silent && test.silenced) {
					t.Errorf("%s:\n%s", test.what, text)
				}
			}
			_, code := output(t, l, node, "ping", "-n", "-c", "1", "-W", "1", addressOf(l, "tested/second"))
			if answered := code == 0; answered == silent {
				t.Errorf("the hop answered an echo request: %v", answered)
			}
			must(t, l, node, "ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "1300", "-I", source, path.Destination.String())
			if line := run(t, l, node, "connect", source, target(path), "5", "10s").line(t); !strings.HasPrefix(line, "5 connected") {
				t.Error(line)
			}
		})
	}
}

// Whichever instance of a firewall a packet is for, its sender hears that it does not fit the
// link behind.
func TestInstancesSayWhatDoesNotFit(t *testing.T) {
	needProgram(t, "ip", "ping")
	l, path := through(t, "{type: firewall, name: fw, instances: 4, rules: 1}", "{type: link, mtu: 1400B}", "{type: router, name: r}")
	for range 10 { // each has an id of its own, and so an instance
		must(t, l, path.SourceNode, "ip", "route", "flush", "cache") // what was heard before
		text, _ := output(t, l, path.SourceNode, "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1450", "-I", path.Source.String(), path.Destination.String())
		if !strings.Contains(text, "mtu = 1400") {
			t.Errorf("nothing was heard of a packet that is too large:\n%s", text)
		}
	}
}

// addressOf is the address of a node towards the source.
func addressOf(l *Lab, node string) string {
	for _, link := range l.topology.Links {
		if link.B.Node == node {
			return link.B.Address.Addr().String()
		}
	}
	return ""
}
