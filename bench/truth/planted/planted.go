// Package planted is a table of experiments with a known cause: what limits the test
// is planted, so that what hopbench says of it can be judged.
package planted

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/result"
)

// Planted is one experiment and what limits one of its cells.
type Planted struct {
	Name string
	// ExperimentYAML is the experiment file; its number of blocks is 1.
	ExperimentYAML string
	// Test and Path name the cell that is judged.
	Test, Path string
	// Want are the causes of which any is right.
	Want []result.Cause
	// Hop is the hop that is to be named, empty for none.
	Hop string
}

// design is what differs between the experiments. All have a path without
// impairment besides the planted one.
type design struct {
	name        string
	source      string // further keys of the endpoints
	destination string
	hops        string   // of the path that is planted, in flow style
	tests       []string // the last one is judged
	want        []result.Cause
	hop         string
}

const hop = "box"

// box is a router with an impairment, between plain wires.
func box(keys string) string { return "{type: router, name: " + hop + ", " + keys + "}" }

func test(flows int, more string) string {
	return fmt.Sprintf("{name: flows-%d, kind: tcp, flows: %d, duration: 1s, max_warmup: 400ms%s}", flows, flows, more)
}

func ftp(flows int, file, more string) []string {
	return []string{fmt.Sprintf("{name: ftp-%d, kind: ftp, flows: %d, file: %s%s}", flows, flows, file, more)}
}

func designs() []design {
	one := []string{test(1, "")}
	with := func(more string) []string { return []string{test(1, ", "+more)} }
	of := func(c ...result.Cause) []result.Cause { return c }
	return []design{
		{name: "receive-window", destination: "receive_window: 64kB", hops: box("delay: 5ms"), tests: one, want: of(result.CauseReceiveWindow)},
		{name: "send-buffer", hops: box("delay: 5ms"), tests: with("send_buffer: 64kB"), want: of(result.CauseSendBuffer)},
		{name: "sending-program-20ms", hops: box("delay: 5ms"), tests: with("sender_pause: 20ms"), want: of(result.CauseSenderApplication)},
		{name: "sending-program-rtt", hops: box("delay: 10ms"), tests: with("sender_pause: 4ms"), want: of(result.CauseSenderApplication)},
		{name: "receiving-program", hops: box("delay: 1ms"), tests: with("receiver_pause: 10ms"), want: of(result.CauseReceiverApplication)},
		{name: "pacing", hops: box("delay: 2ms"), tests: with("pacing: 80Mbit"), want: of(result.CausePacing)},
		{name: "egress-cap", source: "egress_rate: 200Mbit", hops: box("delay: 1ms"), tests: one, want: of(result.CauseSourceCap)},
		{name: "shaper-half", source: "egress_rate: 200Mbit", hops: box("delay: 1ms, rate: 100Mbit"), tests: one, want: of(result.CauseHopRate), hop: hop},
		{name: "shaper-97", source: "egress_rate: 200Mbit", hops: box("delay: 1ms, rate: 194Mbit"), tests: one, want: of(result.CauseHopRate), hop: hop},
		{name: "policer", hops: box("delay: 1ms, rate: 48Mbit, queue: 10kB"), tests: one, want: of(result.CauseHopPolicer, result.CauseHopRate), hop: hop},
		{name: "random-loss", hops: box("delay: 10ms, loss: 0.5%"), tests: one, want: of(result.CauseCongestionWindowLoss), hop: hop},
		{name: "reordering", hops: box("delay: 2ms, reorder: 1%, reorder_by: 5ms"), tests: one, want: of(result.CauseReordering), hop: hop},
		{name: "per-flow-1", hops: box("delay: 1ms, per_flow_rate: 50Mbit"), tests: one, want: of(result.CauseHopFlowRate), hop: hop},
		{name: "per-flow-8", hops: box("delay: 1ms, per_flow_rate: 20Mbit"), tests: []string{test(8, "")}, want: of(result.CauseHopFlowRate), hop: hop},
		{name: "hop-cpu", hops: "{type: idps, name: " + hop + ", delay: 500us}", tests: one, want: of(result.CauseHopCPU), hop: hop},
		{name: "source-thread", hops: box("delay: 500us"), tests: with("sender_burn: 1ms"), want: of(result.CauseSourceThread, result.CauseSourceCPU)},
		{name: "destination-thread", hops: box("delay: 500us"), tests: with("receiver_burn: 1ms"), want: of(result.CauseDestinationThread, result.CauseDestinationCPU)},
		{name: "slow-start", hops: box("delay: 50ms"), tests: []string{"{name: short, kind: tcp, duration: 400ms, max_warmup: 1ms}"}, want: of(result.CauseCongestionWindowGrowth)},
		{name: "bbr-shaper", source: "congestion_control: bbr", hops: box("delay: 2ms, rate: 100Mbit"), tests: one, want: of(result.CauseHopRate), hop: hop},
		{name: "nothing", hops: "{type: link}", tests: one, want: of(result.CauseGenerator, result.CauseSourceThread, result.CauseDestinationThread,
			result.CauseSourceCPU, result.CauseDestinationCPU)},
		// Files are fetched from b, but for one.
		{name: "ftp-receive-window", source: "receive_window: 64kB", hops: box("delay: 5ms"), tests: ftp(1, "4MB", ""), want: of(result.CauseReceiveWindow)},
		{name: "ftp-egress-cap", destination: "egress_rate: 200Mbit", hops: box("delay: 1ms"), tests: ftp(1, "4MB", ""), want: of(result.CauseDestinationCap)},
		{name: "ftp-egress-cap-8", destination: "egress_rate: 400Mbit", hops: box("delay: 1ms"), tests: ftp(8, "8MB", ""), want: of(result.CauseDestinationCap)},
		{name: "ftp-egress-cap-send", source: "egress_rate: 200Mbit", hops: box("delay: 1ms"), tests: ftp(1, "4MB", ", direction: send"), want: of(result.CauseSourceCap)},
		{name: "ftp-shaper", destination: "egress_rate: 200Mbit", hops: box("delay: 1ms, rate: 100Mbit"), tests: ftp(1, "4MB", ""), want: of(result.CauseHopRate), hop: hop},
		{name: "ftp-policer", hops: box("delay: 1ms, rate: 48Mbit, queue: 10kB"), tests: ftp(1, "4MB", ""), want: of(result.CauseHopPolicer, result.CauseHopRate), hop: hop},
		{name: "ftp-random-loss", hops: box("delay: 10ms, loss: 0.5%"), tests: ftp(1, "4MB", ""), want: of(result.CauseCongestionWindowLoss), hop: hop},
		{name: "ftp-per-flow-8", hops: box("delay: 1ms, per_flow_rate: 20Mbit"), tests: ftp(8, "8MB", ""), want: of(result.CauseHopFlowRate), hop: hop},
		{name: "ftp-slow-start", hops: box("delay: 50ms"), tests: ftp(1, "1MB", ""), want: of(result.CauseCongestionWindowGrowth)},
	}
}

// All lists the experiments.
func All() []Planted {
	var out []Planted
	for _, d := range designs() {
		last := d.tests[len(d.tests)-1]
		name, _, _ := strings.Cut(strings.TrimPrefix(last, "{name: "), ",")
		out = append(out, Planted{Name: d.name, ExperimentYAML: d.yaml(), Test: name, Path: "planted", Want: d.want, Hop: d.hop})
	}
	return out
}

func (d design) yaml() string {
	end := func(name, keys string) string {
		if keys != "" {
			keys = ", " + keys
		}
		return "  - {name: " + name + keys + "}\n"
	}
	text := "format: hopbench.experiment/1\nname: " + d.name + "\nendpoints:\n" + end("a", d.source) + end("b", d.destination) +
		"source: a\ndestination: b\nbaseline: plain\nblocks: 1\npaths:\n" +
		"  - {name: plain, hops: [{type: link}]}\n  - {name: planted, hops: [" + d.hops + "]}\ntests:\n"
	for _, t := range d.tests {
		text += "  - " + t + "\n"
	}
	return text
}
