package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tool is a peer's program that was found.
type tool struct {
	name    string
	path    string
	version string
}

// variant is a way to run a peer.
type variant struct {
	tool  *tool
	flags string // those besides the peer's defaults that change what is measured
	// asSent marks a result that is the sender's count, because the peer prints
	// no other.
	asSent         bool
	server, client []string
	port           int  // that the server listens on
	udp            bool // over UDP, not TCP
	parse          parser
	// countBytes, when above 0, has the datagrams that the server reads counted
	// by the kernel, each of so many bytes: the peer knows only what it sent.
	countBytes float64
}

// label names a variant in tables: "iperf3 3.12 -Z".
func (v *variant) label() string {
	parts := []string{v.tool.name, v.tool.version, v.flags}
	if v.asSent {
		parts = append(parts, "(as sent)")
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func (v *variant) isDefault() bool { return v.flags == "" }

// toolNames are the peers that are looked for, with the program that is looked
// for; neper is several.
var toolNames = []struct{ name, program string }{
	{"iperf3", "iperf3"}, {"nuttcp", "nuttcp"}, {"qperf", "qperf"}, {"sockperf", "sockperf"},
	{"ethr", "ethr"}, {"netperf", "netperf"}, {"neper", "tcp_stream"}, {"ntttcp", "ntttcp"},
}

// findTools looks for peers on PATH. Of iperf3 every version on it counts: a
// distribution's and a newer one are peers of their own.
func findTools(ctx context.Context, wanted []string) (found []*tool, missing []string) {
	for _, t := range toolNames {
		if len(wanted) > 0 && !slices.Contains(wanted, t.name) {
			continue
		}
		n := len(found)
		for _, path := range programs(t.program) {
			v := version(ctx, t.name, path)
			if len(found) == n || (t.name == "iperf3" && found[len(found)-1].version != v) {
				found = append(found, &tool{name: t.name, path: path, version: v})
			}
		}
		if len(found) == n {
			missing = append(missing, t.name)
		}
	}
	return found, missing
}

// programs are the executables of that name on PATH, in its order.
func programs(name string) []string {
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil || !filepath.IsAbs(path) {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out
}

// versionFlags make each peer print its version; neper has none to print but in
// its results.
var versionFlags = map[string][]string{
	"iperf3": {"-v"}, "nuttcp": {"-V"}, "qperf": {"--version"}, "sockperf": {"--version"},
	"ethr": {"-h"}, "netperf": {"-V"}, "ntttcp": {"-V"},
}

var versionText = regexp.MustCompile(`(?i)(?:iperf|nuttcp-|qperf|netperf version|NTTTCP for Linux|sockperf, version|\(Version:)[ ]*v?([0-9a-z][0-9a-z.+~_]*)`)

func version(ctx context.Context, name, path string) string {
	flags, ok := versionFlags[name]
	if !ok {
		return ""
	}
	return parseVersion(helpText(ctx, path, flags...))
}

func parseVersion(text string) string {
	return firstOf(versionText, text)
}

// firstOf is what the first group of a pattern matches in a text, empty if nothing.
func firstOf(pattern *regexp.Regexp, text string) string {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// helpText is what a program prints about itself; its status says nothing.
func helpText(ctx context.Context, path string, flags ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var out bytes.Buffer
	c := exec.CommandContext(ctx, path, flags...)
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
	_ = c.Run() // some end with a status of their own after their help
	return out.String()
}

// has says whether a tool's help names a flag.
func (t *tool) has(ctx context.Context, flag string) bool {
	return strings.Contains(helpText(ctx, t.path, "--help"), flag)
}

// sibling is the path of another program of the same peer.
func (t *tool) sibling(program string) string {
	return filepath.Join(filepath.Dir(t.path), program)
}

// kit builds variants: what to run for so many seconds. None has a flag for the
// congestion control: all take that of their node.
type kit struct {
	ctx      context.Context
	seconds  string
	duration float64
}

func (k kit) iperf3(t *tool, parse parser, flags string, always ...string) *variant {
	client := append([]string{t.path, "-c", host, "-p", "5301", "-J", "-t", k.seconds}, always...)
	return &variant{tool: t, flags: flags, port: 5301, parse: parse,
		server: []string{t.path, "-s", "-p", "5301"},
		client: append(client, strings.Fields(flags)...)}
}

func (k kit) tcp(t *tool, flows int, copied bool) []*variant {
	n := strconv.Itoa(flows)
	switch t.name {
	case "iperf3":
		always := []string{"-P", n}
		out := []*variant{k.iperf3(t, parseIPerf3, "", always...)}
		if copied {
			return out
		}
		out = append(out, k.iperf3(t, parseIPerf3, "-Z", always...))
		if t.has(k.ctx, "--skip-rx-copy") {
			// What paces may be slower without a copy.
			out = append(out, k.iperf3(t, parseIPerf3, "--skip-rx-copy", always...), k.iperf3(t, parseIPerf3, "-Z --skip-rx-copy", always...))
		}
		if flows == 1 { // with the strongest flags, both ends on one CPU
			best := out[len(out)-1].flags
			out = append(out, k.iperf3(t, parseIPerf3, best+" -A 0,0", always...))
		}
		return out
	case "nuttcp":
		return []*variant{k.nuttcp(t, "-N"+n)}
	case "ethr":
		v := k.ethr(t, parseEthrBandwidth, "-t", "b", "-n", n, "-dp", "2")
		v.asSent = true
		return []*variant{v}
	case "ntttcp":
		return []*variant{{tool: t, asSent: true, port: 5000, parse: parseNtttcp,
			server: []string{t.path, "-r", "-P", n, "-t", k.seconds, "-W", "0", "-C", "0"},
			client: []string{t.path, "-s" + host, "-P", n, "-n", "1", "-t", k.seconds, "-W", "0", "-C", "0"}}}
	case "neper":
		parse := parseNeperStream(k.duration)
		// A thread a flow, up to eight: more threads than that gain nothing.
		always := []string{"-F", n, "-T", strconv.Itoa(min(flows, 8))}
		return []*variant{
			k.neper(t, "tcp_stream", parse, "", nil, always),
			k.neper(t, "tcp_stream", parse, "--skip-rx-copy", []string{"--skip-rx-copy"}, always),
			k.neper(t, "tcp_stream", parse, "-Z --skip-rx-copy", []string{"-Z", "--skip-rx-copy"}, always),
		}
	}
	return nil
}

func (k kit) nuttcp(t *tool, args ...string) *variant {
	return &variant{tool: t, port: 5000, parse: parseNuttcp,
		server: []string{t.path, "-S", "--nofork", "-P", "5000"},
		client: slices.Concat([]string{t.path, "-P", "5000", "-T" + k.seconds}, args, []string{"-fparse", host})}
}

func (k kit) ethr(t *tool, parse parser, args ...string) *variant {
	return &variant{tool: t, port: 8888, parse: parse,
		server: []string{t.path, "-s", "-no", "-4"},
		client: append([]string{t.path, "-c", host, "-no", "-4", "-d", k.seconds + "s"}, args...)}
}

// neper's two ends take the same flags.
func (k kit) neper(t *tool, program string, parse parser, name string, flags, always []string) *variant {
	both := append([]string{"--nolog"}, append(flags, always...)...)
	return &variant{tool: t, flags: name, port: 12866, parse: parse,
		server: append([]string{t.sibling(program)}, both...),
		client: append([]string{t.sibling(program), "-c", "-H", host, "-l", k.seconds}, both...)}
}

func (k kit) sockperf(t *tool, udp bool, mode string, parse parser, size, flags string) *variant {
	both := []string{"-i", host, "-p", "5303"}
	if !udp {
		both = append(both, "--tcp")
	}
	both = append(both, strings.Fields(flags)...)
	return &variant{tool: t, flags: flags, port: 5303, udp: udp, parse: parse,
		server: append([]string{t.path, "server"}, both...),
		client: append([]string{t.path, mode, "-t", k.seconds, "-m", size}, both...)}
}

func (k kit) netperf(t *tool, test string, parse parser) *variant {
	return &variant{tool: t, port: 5304, parse: parse,
		server: []string{t.sibling("netserver"), "-D", "-4", "-p", "5304"},
		client: []string{t.path, "-4", "-H", host, "-p", "5304", "-l", k.seconds, "-t", test, "-P", "0", "--", "-r", "1,1", "-o", netperfColumns}}
}

// udp are datagrams as large as the path takes, as fast as they go.
func (k kit) udp(t *tool) []*variant {
	switch t.name {
	case "iperf3":
		out := []*variant{k.iperf3(t, parseIPerf3, "", "-u", "-b", "0")}
		if t.has(k.ctx, "--gsro") {
			out = append(out, k.iperf3(t, parseIPerf3, "--gsro", "-u", "-b", "0"))
		}
		return out
	case "nuttcp":
		return []*variant{k.nuttcp(t, "-u", "-R0", "-l1472")}
	case "sockperf":
		v := k.sockperf(t, true, "throughput", parseSockperfThroughput(1472), "1472", "")
		v.countBytes = 1472
		return []*variant{v}
	}
	return nil
}

// ppsGSO are datagrams of 64 bytes that may travel in super-packets.
func (k kit) ppsGSO(t *tool) []*variant {
	out := k.pps(t)
	if t.name == "iperf3" && t.has(k.ctx, "--gsro") {
		out = append(out, k.iperf3(t, parseIPerf3, "--gsro", "-u", "-b", "0", "-l", "64"))
	}
	return out
}

// pps are datagrams of 64 bytes, as fast as they go.
func (k kit) pps(t *tool) []*variant {
	switch t.name {
	case "iperf3":
		return []*variant{k.iperf3(t, parseIPerf3, "", "-u", "-b", "0", "-l", "64")}
	case "nuttcp":
		return []*variant{k.nuttcp(t, "-u", "-R0", "-l64")}
	case "sockperf":
		v := k.sockperf(t, true, "throughput", parseSockperfThroughput(64), "64", "")
		v.countBytes = 64
		return []*variant{v}
	case "ethr":
		v := k.ethr(t, parseEthrPackets(64), "-p", "udp", "-t", "p", "-l", "64B")
		v.countBytes = 64
		return []*variant{v}
	}
	return nil
}

// rr are round trips one after the other, of a byte or the least a peer sends.
func (k kit) rr(t *tool, udp, spin bool) []*variant {
	name := "tcp"
	if udp {
		name = "udp"
	}
	switch {
	case t.name == "ethr" && !udp: // it spins by itself: see docs/kinds.md
		return []*variant{k.ethr(t, parseEthrLatency, "-t", "l", "-i", "5000", "-g", "0")}
	case t.name == "sockperf" && spin:
		return []*variant{k.sockperf(t, udp, "ping-pong", parseSockperfLatency, "14", "--nonblocked")}
	case spin:
		return nil
	case t.name == "sockperf":
		return []*variant{k.sockperf(t, udp, "ping-pong", parseSockperfLatency, "14", "")}
	case t.name == "qperf":
		return []*variant{{tool: t, port: 5302, parse: parseQperf,
			server: []string{t.path, "-lp", "5302"},
			client: []string{t.path, host, "-lp", "5302", "-t", k.seconds, "-m", "1", "-e", "5", name + "_lat"}}}
	case t.name == "netperf":
		return []*variant{k.netperf(t, strings.ToUpper(name)+"_RR", parseNetperf(""))}
	case t.name == "neper":
		return []*variant{k.neper(t, name+"_rr", parseNeperTransactions(""), "", nil, []string{"-p", "50,99,99.9"})}
	}
	return nil
}

// crr are new connections one after the other, each with a request and a
// response of a byte; ethr's send nothing.
func (k kit) crr(t *tool) []*variant {
	switch t.name {
	case "netperf":
		return []*variant{k.netperf(t, "TCP_CRR", parseNetperf(connections))}
	case "neper":
		return []*variant{k.neper(t, "tcp_crr", parseNeperTransactions(connections), "", nil, nil)}
	case "ethr":
		return []*variant{k.ethr(t, parseEthrConnections, "-t", "c")}
	}
	return nil
}
