package main

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// recorded are reports of the peers themselves, from runs over loopback with
// these versions: iperf3 3.12, nuttcp 6.1.2, qperf 0.4.11, sockperf 3.7, neper
// 1.1.0, ntttcp 1.4.3, netperf 2.7.1, ethr of December 2025.
var recorded = []struct {
	file  string
	parse parser
	want  values
}{
	{"iperf3-tcp.json", parseIPerf3, values{goodput: 21102255855.7838, bytesMoved: 2638217216}},
	{"iperf3-udp.json", parseIPerf3, values{goodput: 104170246.12102191, bytesMoved: 13023872, packets: (703250 - 499752) / 1.000199}},
	{"nuttcp-tcp.txt", parseNuttcp, values{goodput: 11683.8762e6, bytesMoved: 1393.25 * (1 << 20)}},
	{"nuttcp-udp.txt", parseNuttcp, values{goodput: 7144.6701e6, bytesMoved: 851.3746 * (1 << 20), packets: 663824 - 26159}},
	{"qperf.txt", parseQperf, values{rttMean: 2 * 2.6888e-6}},
	{"sockperf-ping-pong.txt", parseSockperfLatency, values{rttMean: 2 * 34.809e-6, rttP50: 2 * 34.688e-6, rttP99: 2 * 50.203e-6, rttP999: 2 * 71.082e-6}},
	{"sockperf-throughput.txt", parseSockperfThroughput(64), values{packets: 833612 / 1.001, goodput: 8 * 64 * 833612 / 1.001, bytesMoved: 833612 * 64}},
	{"ethr-bandwidth-1.txt", parseEthrBandwidth, values{goodput: 35.51e9, bytesMoved: 35.51e9 / 8}},
	{"ethr-bandwidth-2.txt", parseEthrBandwidth, values{goodput: (33.52e9 + 31.22e9) / 2, bytesMoved: (33.52e9 + 31.22e9) / 8}},
	{"ethr-packets.txt", parseEthrPackets(64), values{packets: (468.2e3 + 449.3e3) / 2, goodput: 8 * 64 * (468.2e3 + 449.3e3) / 2, bytesMoved: 64 * (468.2e3 + 449.3e3)}},
	{"ethr-udp.txt", parseEthrPackets(1400), values{packets: (347.5e3 + 337.5e3) / 2, goodput: 8 * 1400 * 342.5e3, bytesMoved: 1400 * 685e3}},
	{"ethr-connections.txt", parseEthrConnections, values{connections: 12.05e3}},
	{"ethr-latency.txt", parseEthrLatency, values{
		rttMean: (48.695 + 51.963 + 46.641 + 43.387 + 45.617 + 47.352 + 44.295 + 44.873 + 47.221) / 9 * 1e-6,
		rttP50:  (41.442 + 49.982 + 48.925 + 48.359 + 47.743 + 47.469 + 48.230 + 47.292 + 45.130) / 9 * 1e-6,
		rttP99:  (134.824 + 128.674 + 96.034 + 88.994 + 105.784 + 88.764 + 102.446 + 86.688 + 135.660) / 9 * 1e-6,
		rttP999: (423.195 + 313.064 + 138.999 + 117.600 + 141.212 + 131.304 + 149.540 + 142.950 + 230.935) / 9 * 1e-6,
	}},
	{"netperf-rr.txt", parseNetperf(""), values{rttMean: 13.96e-6, rttP50: 5e-6, rttP99: 130e-6}},
	{"netperf-rr.txt", parseNetperf(connections), values{connections: 71348.33}},
	{"neper-rr.txt", parseNeperTransactions(""), values{rttMean: 54.734e-6, rttP50: 72.31e-6, rttP99: 135.67e-6, rttP999: 383.99e-6}},
	{"neper-crr.txt", parseNeperTransactions(connections), values{connections: 21479.03}},
	{"neper-stream.txt", parseNeperStream(2), values{goodput: 29185258436, bytesMoved: 29185258436 / 4}},
	{"ntttcp.txt", parseNtttcp, values{goodput: 32.87e9, bytesMoved: 4109762560}},
}

func TestParseRecordedReports(t *testing.T) {
	for _, c := range recorded {
		t.Run(c.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", c.file))
			testutil.OK(t, err)
			got, err := c.parse(string(text))
			testutil.OK(t, err)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(c.want))) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for name, want := range c.want {
				if math.Abs(got[name]-want) > 1e-9*want {
					t.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
		})
	}
}

// Every parser refuses a report that holds no result: a peer that could not
// connect ends with status 0 at times.
func TestParseReportsWithoutResult(t *testing.T) {
	for _, text := range []string{"", "connection refused\n", "{}", `{"error": "unable to connect"}`, "latency = 0 us", "a=b\n", "[ SUM] TCP 000-001 sec 0\n", ",,,\n"} {
		for _, c := range recorded {
			if got, err := c.parse(text); err == nil {
				t.Errorf("%s: a result of %q: %v", c.file, text, got)
			}
		}
	}
}

func TestParseVersions(t *testing.T) {
	for text, want := range map[string]string{
		"iperf 3.12 (cJSON 1.7.15)\nLinux vm":                         "3.12",
		"iperf 3.21+ (cJSON 1.7.15)":                                  "3.21+",
		"nuttcp-6.1.2\n":                                              "6.1.2",
		"qperf 0.4.11\n":                                              "0.4.11",
		"sockperf, version 3.7-no.git \n   compiled":                  "3.7",
		"Netperf version 2.7.1":                                       "2.7.1",
		"NTTTCP for Linux 1.4.3\n----":                                "1.4.3",
		"\nEthr: Comprehensive … Measurement Tool (Version: 86e0704)": "86e0704",
		"nothing": "",
	} {
		if got := parseVersion(text); got != want {
			t.Errorf("version of %q is %q, want %q", text, got, want)
		}
	}
}

func TestParseKernelTables(t *testing.T) {
	busy, err := parseBusy("cpu  100 20 300 4000 50 6 70 8 9 10\ncpu0 …\n")
	if err != nil || math.Abs(busy-5.04) > 1e-9 {
		t.Errorf("busy for %v s (%v), want 5.04", busy, err)
	}
	if _, err := parseBusy("intr 1\n"); err == nil {
		t.Error("took a line that is not cpu's")
	}
	const sockets = "  sl  local_address rem_address   st tx_queue\n" +
		"   0: 0100007F:14B5 00000000:0000 0A 00000000:00000000\n" +
		"   1: 0100007F:14B6 0100007F:9C40 01 00000000:00000000\n" +
		"  12: 00000000000000000000000000000000:22B8 00000000000000000000000000000000:0000 07 0:0\n"
	for _, c := range []struct {
		port int
		udp  bool
		want bool
	}{{5301, false, true}, {5301, true, false}, {5302, false, false}, {8888, true, true}, {8888, false, false}} {
		if got := listens(sockets, c.port, c.udp); got != c.want {
			t.Errorf("port %d, udp %v: listens %v", c.port, c.udp, got)
		}
	}
	n, err := parseInDatagrams("Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts\nUdp: 4711 3\n")
	if err != nil || n != 4711 {
		t.Errorf("%v datagrams (%v), want 4711", n, err)
	}
	if got := parseHighWater("Name:\tx\nVmHWM:\t    2048 kB\n"); got != 2048*1024 {
		t.Errorf("high water %v", got)
	}
	if got := parsePeak("text\n\npeak-memory-bytes 16433152\n"); got != 16433152 {
		t.Errorf("peak %v", got)
	}
}

func FuzzParsers(f *testing.F) {
	for _, c := range recorded {
		text, err := os.ReadFile(filepath.Join("testdata", c.file))
		testutil.OK(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range recorded {
			v, err := c.parse(text)
			if err != nil {
				continue
			}
			for name, x := range v {
				if math.IsNaN(x) || x < 0 {
					t.Errorf("%s: %s is %v", c.file, name, x)
				}
			}
		}
		parseVersion(text)
		listens(text, 1, false)
	})
}
