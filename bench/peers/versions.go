package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"

	hopbench "github.com/hopbench/hopbench/internal/result"
)

// versions replaces the peers of tests by one: an older version of this program.
func (b *bench) versions(k kit, tests []test, old string) []test {
	var out []test
	for _, t := range tests {
		if t.words == "" {
			continue
		}
		t.variants = []*variant{k.hopbench(old, "older", t.words)}
		for i := range t.metrics {
			t.metrics[i].targets = nil
		}
		out = append(out, t)
	}
	return out
}

// hopbench is this project's program as users run it. A version that does not know --spin
// polls for whoever asks.
func (k kit) hopbench(program, version, flags string) *variant {
	const port = 5310
	server := []string{program, "serve", "--open", "--port", fmt.Sprint(port), "--quiet"}
	// A program that cannot be run fails at its first test, which says why.
	if help, _ := exec.CommandContext(k.ctx, program, "serve", "--help").Output(); bytes.Contains(help, []byte("--spin")) {
		server = append(server, "--spin")
	}
	return &variant{
		tool: &tool{name: "hopbench", path: program, version: version}, port: port, parse: parseHopbench,
		server: server,
		client: append([]string{program, "test", host, "--port", fmt.Sprint(port), "--json", "--quiet", "--duration", k.seconds + "s"}, strings.Fields(flags)...),
	}
}

// parseHopbench reads the result of hopbench test --json.
func parseHopbench(text string) (values, error) {
	r, _, err := hopbench.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read hopbench's result: %w", err)
	}
	if len(r.Trials) != 1 || len(r.Trials[0].Metrics) == 0 {
		return nil, noResult(text)
	}
	t := r.Trials[0]
	v := values{}
	for _, name := range []string{goodput, packets, connections, rttMean, rttP50, rttP99} {
		if x, ok := t.Metrics[name]; ok {
			v[name] = x
		}
	}
	if x, ok := t.Metrics["received_packets_per_second"]; ok {
		v[packets] = x
	}
	if t.Latency != nil {
		for _, p := range t.Latency.Percentiles {
			if p.Percent == 99.9 {
				v[rttP999] = float64(p.Value)
			}
		}
	}
	if t.Throughput != nil {
		for _, n := range t.Throughput.Bytes {
			v[bytesMoved] += n
		}
	}
	return v, nil
}
