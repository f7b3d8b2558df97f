package main

import (
	"context"
	"fmt"
	"slices"
)

// test is what both sides are measured by in interleaved pairs.
type test struct {
	name  string
	title string
	words string // flags of hopbench test
	own   func(context.Context) (values, error)
	// peer runs a variant; variants are those that can do this test.
	peer     func(*variant) func(context.Context) (values, error)
	variants []*variant
	metrics  []metric
}

// metric is a quantity of a test that gets a row for each peer.
type metric struct {
	name  string
	label string
	unit  string
	scale float64 // from base units to unit
	// lessIsBetter makes the best peer the one with the least median.
	lessIsBetter bool
	targets      []goal
}

// goal is a bound of the ratio hopbench / the best of some peers.
type goal struct {
	bound float64
	best  string // of what
	among func(*variant) bool
}

func anyPeer(*variant) bool { return true }

// the makes a goal's selection: the named tools, with their default flags.
func the(names ...string) func(*variant) bool {
	return func(v *variant) bool { return v.isDefault() && slices.Contains(names, v.tool.name) }
}

func withFlags(name, flags string) func(*variant) bool {
	return func(v *variant) bool { return v.tool.name == name && v.flags == flags }
}

func (b *bench) tests(k kit, tools []*tool, ownProgram string) []test {
	gather := func(f func(*tool) []*variant) []*variant {
		var out []*variant
		for _, t := range tools {
			out = append(out, f(t)...)
		}
		return out
	}
	// Peers discard no start; that of hopbench is short.
	const tcp = "--only tcp --omit 300ms --flows "
	var all []test
	for _, flows := range []int{1, 8, 64} {
		goals := []goal{{1, "the fastest peer with any flags", anyPeer}}
		if flows == 1 {
			goals = []goal{{2, "iperf3's default", the("iperf3")}, {1.4, "the fastest peer with any flags", anyPeer}}
		}
		all = append(all, test{
			name: fmt.Sprintf("tcp-%d", flows), title: fmt.Sprintf("TCP, flows: %d", flows),
			words:    tcp + fmt.Sprint(flows),
			variants: gather(func(t *tool) []*variant { return k.tcp(t, flows, false) }),
			metrics:  []metric{rate(goals...), processor()},
		})
	}
	for _, flows := range []int{1, 8, 64} {
		all = append(all, test{
			name: fmt.Sprintf("tcp-%d-copied", flows), title: fmt.Sprintf("TCP, payload copied at both ends, flows: %d", flows),
			words: tcp + fmt.Sprint(flows) + " --copy",
			variants: gather(func(t *tool) []*variant {
				if t.name != "iperf3" {
					return nil
				}
				return k.tcp(t, flows, true)
			}),
			metrics: []metric{rate(goal{1.05, "iperf3's default", the("iperf3")})},
		})
	}
	all = append(all, test{
		name: "udp", title: "UDP as fast as it goes, GSO and GRO", words: "--only udp",
		variants: gather(k.udp),
		metrics:  []metric{rate(goal{1.2, "iperf3 --gsro", withFlags("iperf3", "--gsro")}), processor()},
	}, test{
		name: "pps", title: "datagrams of 64 bytes", words: "--only pps",
		variants: gather(k.pps), metrics: []metric{packetRate()},
	}, test{
		name: "pps-gso", title: "datagrams of 64 bytes in super-packets, GSO and GRO", words: "--only udp --length 64",
		variants: gather(k.ppsGSO), metrics: []metric{packetRate()},
	})
	all = append(all, latencyTests(k, gather)...)
	for i, t := range all {
		all[i].own, all[i].peer = b.peer(k.hopbench(ownProgram, "", t.words)), b.peer
	}
	return append(all, b.memoryTests(k, gather, ownProgram)...)
}

func packetRate() metric {
	return metric{name: packets, label: "packets", unit: "10³/s", scale: 1e-3, targets: []goal{{3, "iperf3", the("iperf3")}}}
}

func latencyTests(k kit, gather func(func(*tool) []*variant) []*variant) []test {
	var all []test
	for _, over := range []string{"tcp", "udp"} {
		for _, spin := range []bool{false, true} {
			t := test{
				name: "rr-" + over, title: "round trips over " + over + ", blocking", words: "--only rr --protocol " + over,
				variants: gather(func(t *tool) []*variant { return k.rr(t, over == "udp", spin) }),
				metrics:  latencies(goal{0.9, "the best of qperf, sockperf, netperf, neper", the("qperf", "sockperf", "netperf", "neper")}),
			}
			if spin {
				t.name += "-spin"
				t.title = "round trips over " + over + ", spinning"
				t.words += " --spin"
				t.metrics = latencies(goal{0.9, "ethr", the("ethr")})
			}
			all = append(all, t)
		}
	}
	return append(all, test{
		name: "crr", title: "new connections, one after the other", words: "--only crr", variants: gather(k.crr),
		metrics: []metric{{name: connections, label: "connections", unit: "10³/s", scale: 1e-3,
			targets: []goal{{1.2, "the best of netperf and neper", the("netperf", "neper")}}}},
	})
}

func (b *bench) memoryTests(k kit, gather func(func(*tool) []*variant) []*variant, ownProgram string) []test {
	const flows = 8
	return []test{{
		name: "memory", title: fmt.Sprintf("memory of client and server, TCP, flows: %d", flows), peer: b.memory,
		own: b.memory(k.hopbench(ownProgram, "", fmt.Sprint("--only tcp --flows ", flows))),
		variants: gather(func(t *tool) []*variant {
			var defaults []*variant
			for _, v := range k.tcp(t, flows, false) {
				if v.isDefault() {
					v.asSent = false // no count is compared here
					defaults = append(defaults, v)
				}
			}
			return defaults
		}),
		metrics: []metric{{name: peakMemory, label: "peak", unit: "MB", scale: 1e-6, lessIsBetter: true}},
	}}
}

func rate(goals ...goal) metric {
	return metric{name: goodput, label: "goodput", unit: "Gbit/s", scale: 1e-9, targets: goals}
}

func processor() metric {
	return metric{name: cpuPerByte, label: "CPU of the host", unit: "ns/kB", scale: 1e12, lessIsBetter: true,
		targets: []goal{{0.9, "the best peer", anyPeer}}}
}

func latencies(g goal) []metric {
	var out []metric
	for _, m := range []struct{ name, label string }{{rttMean, "mean"}, {rttP50, "p50"}, {rttP99, "p99"}, {rttP999, "p99.9"}} {
		one := metric{name: m.name, label: m.label, unit: "µs", scale: 1e6, lessIsBetter: true, targets: []goal{g}}
		if m.name == rttP999 {
			one.targets = nil
		}
		out = append(out, one)
	}
	return out
}
