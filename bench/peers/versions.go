package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// versions replaces the peers of tests by one: an older version of this program. Both
// run as users run them, so that processes are compared with processes.
func (b *bench) versions(k kit, tests []test, ownProgram, old string) []test {
	flags := map[string]string{
		"tcp-1": "--only tcp --flows 1", "tcp-8": "--only tcp --flows 8", "tcp-64": "--only tcp --flows 64",
		"tcp-1-copied": "--only tcp --flows 1 --copy", "tcp-8-copied": "--only tcp --flows 8 --copy", "tcp-64-copied": "--only tcp --flows 64 --copy",
		"udp": "--only udp", "pps": "--only pps", "rr-tcp": "--only rr --protocol tcp", "rr-udp": "--only rr --protocol udp",
		"crr": "--only crr",
	}
	var out []test
	for _, t := range tests {
		words, ok := flags[t.name]
		if !ok {
			continue
		}
		t.own = b.peer(k.hopbench(ownProgram, "", words))
		t.variants = []*variant{k.hopbench(old, "older", words)}
		for i := range t.metrics {
			t.metrics[i].targets = nil
		}
		out = append(out, t)
	}
	return out
}

// hopbench is this project's program as a peer.
func (k kit) hopbench(program, name, flags string) *variant {
	const port = "5310"
	if strings.Contains(flags, "tcp --flows") {
		flags += " -C " + k.congestion
	}
	return &variant{
		tool: &tool{name: "hopbench", path: program, version: name}, port: 5310, parse: parseHopbench,
		server: []string{program, "serve", "--open", "--port", port, "--quiet"},
		client: append([]string{program, "test", host, "--port", port, "--json", "--quiet", "--duration", k.seconds + "s"}, strings.Fields(flags)...),
	}
}

// parseHopbench reads the result of hopbench test --json.
func parseHopbench(text string) (values, error) {
	var report struct {
		Trials []struct {
			Gate struct {
				Reason string `json:"reason"`
			} `json:"gate"`
			Metrics    map[string]float64 `json:"metrics"`
			Throughput *struct {
				Bytes []float64 `json:"bytes"`
			} `json:"throughput"`
		} `json:"trials"`
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read hopbench's result: %w", err)
	}
	if len(report.Trials) != 1 || len(report.Trials[0].Metrics) == 0 {
		return nil, noResult(text)
	}
	t := report.Trials[0]
	v := values{}
	for _, name := range []string{goodput, packets, connections, rttMean, rttP50, rttP99} {
		if x, ok := t.Metrics[name]; ok {
			v[name] = x
		}
	}
	if t.Throughput != nil {
		for _, n := range t.Throughput.Bytes {
			v[bytesMoved] += n
		}
	}
	return v, nil
}
