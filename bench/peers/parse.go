package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// values maps a quantity's name (below) to its value in base units.
type values map[string]float64

// The quantities that are compared.
const (
	goodput     = "goodput_bits_per_second"
	packets     = "packets_per_second"
	connections = "connections_per_second"
	rttMean     = "rtt_mean_seconds"
	rttP50      = "rtt_p50_seconds"
	rttP99      = "rtt_p99_seconds"
	rttP999     = "rtt_p99_9_seconds"
	cpuPerByte  = "cpu_seconds_per_byte"
	peakMemory  = "peak_memory_bytes"
	// bytesMoved is what the receiver got in a whole run; it is no result, but
	// what the CPU time of the run is divided by.
	bytesMoved = "received_bytes"
)

// parser reads what a peer's client printed.
type parser func(text string) (values, error)

// errNoResult is a report without the figure that was looked for.
var errNoResult = errors.New("no result in the peer's report")

func noResult(text string) error {
	return fmt.Errorf("%w: %q", errNoResult, tail(text, 400))
}

func tail(text string, n int) string {
	text = strings.TrimSpace(text)
	if len(text) > n {
		text = "…" + text[len(text)-n:]
	}
	return text
}

// parseIPerf3 reads iperf3 -J. Its sum_received is the receiver's count; in
// UDP tests packets is what was sent, of which lost_packets did not arrive.
func parseIPerf3(text string) (values, error) {
	var report struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Seconds float64 `json:"seconds"`
				Bytes   float64 `json:"bytes"`
				Rate    float64 `json:"bits_per_second"`
				Packets float64 `json:"packets"`
				Lost    float64 `json:"lost_packets"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read iperf3's report: %w", err)
	}
	if report.Error != "" {
		return nil, fmt.Errorf("iperf3: %s", report.Error)
	}
	r := report.End.Received
	if r.Rate <= 0 || r.Seconds <= 0 {
		return nil, noResult(text)
	}
	v := values{goodput: r.Rate, bytesMoved: r.Bytes}
	if r.Packets > r.Lost {
		v[packets] = (r.Packets - r.Lost) / r.Seconds
	}
	return v, nil
}

// fields reads name=value pairs, one or several a line, of which each name
// counts where it stands last.
func fields(text string) map[string]string {
	found := map[string]string{}
	for _, word := range strings.Fields(text) {
		if name, value, ok := strings.Cut(word, "="); ok {
			found[name] = value
		}
	}
	return found
}

// number is 0 for what is no number.
func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 {
		return 0
	}
	return v
}

// parseNuttcp reads nuttcp -fparse. Its megabytes are 2^20 bytes, its Mbps
// 10^6 bits; in UDP tests both count what the receiver got.
func parseNuttcp(text string) (values, error) {
	f := fields(text)
	rate := number(f["rate_Mbps"]) * 1e6
	if rate == 0 {
		return nil, noResult(text)
	}
	v := values{goodput: rate, bytesMoved: number(f["megabytes"]) * (1 << 20)}
	if sent, seconds := number(f["pkt"]), number(f["real_seconds"]); sent > 0 && seconds > 0 {
		v[packets] = (sent - number(f["drop"])) / seconds
	}
	return v, nil
}

var qperfLatency = regexp.MustCompile(`(?m)^\s*latency\s*=\s*([0-9.]+) (ns|us|ms|sec)$`)

// parseQperf reads a latency test of qperf, which prints half of a round trip;
// this doubles it.
func parseQperf(text string) (values, error) {
	m := qperfLatency.FindStringSubmatch(text)
	if m == nil || number(m[1]) == 0 {
		return nil, noResult(text)
	}
	unit := map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1}[m[2]]
	return values{rttMean: 2 * number(m[1]) * unit}, nil
}

var (
	sockperfMean       = regexp.MustCompile(`avg-latency=\s*([0-9.]+)`)
	sockperfPercentile = regexp.MustCompile(`percentile\s+([0-9.]+)\s*=\s*([0-9.]+)`)
	sockperfTotal      = regexp.MustCompile(`Total of ([0-9]+) messages sent in ([0-9.]+) sec`)
)

// parseSockperfLatency reads sockperf ping-pong, whose latencies are half of a
// round trip in microseconds; this doubles them.
func parseSockperfLatency(text string) (values, error) {
	mean := number(firstOf(sockperfMean, text))
	if mean == 0 {
		return nil, noResult(text)
	}
	v := values{rttMean: 2e-6 * mean}
	names := map[float64]string{50: rttP50, 99: rttP99, 99.9: rttP999}
	for _, m := range sockperfPercentile.FindAllStringSubmatch(text, -1) {
		if name := names[number(m[1])]; name != "" {
			v[name] = 2e-6 * number(m[2])
		}
	}
	return v, nil
}

// parseSockperfThroughput reads sockperf throughput with messages of size
// bytes. It knows only what was sent.
func parseSockperfThroughput(size float64) parser {
	return func(text string) (values, error) {
		m := sockperfTotal.FindStringSubmatch(text)
		if m == nil || number(m[1]) == 0 || number(m[2]) == 0 {
			return nil, noResult(text)
		}
		n, seconds := number(m[1]), number(m[2])
		return values{packets: n / seconds, goodput: 8 * size * n / seconds, bytesMoved: n * size}, nil
	}
}

// ethrLine is a line of ethr's result table: one session, or the sum of all.
var ethrLine = regexp.MustCompile(`(?m)^(?:\[ *(SUM|[0-9]+)\])? *(?:TCP|UDP) +([0-9]+)-([0-9]+) sec +([0-9.]+[KMGT]?)(?: +([0-9.]+[KMGT]?))? *$`)

// ethrTable averages the columns of ethr's lines, sums only where there are
// sums, and adds up the seconds that they cover.
func ethrTable(text string) (first, second, seconds float64, err error) {
	lines := ethrLine.FindAllStringSubmatch(text, -1)
	sums := strings.Contains(text, "[  SUM]")
	for _, m := range lines {
		if sums && m[1] != "SUM" {
			continue
		}
		took := number(m[3]) - number(m[2])
		seconds += took
		first += ethrNumber(m[4]) * took
		second += ethrNumber(m[5]) * took
	}
	if seconds <= 0 || first <= 0 {
		return 0, 0, 0, noResult(text)
	}
	return first / seconds, second / seconds, seconds, nil
}

// ethrNumber reads 33.5G: ethr's suffixes are powers of 1000.
func ethrNumber(text string) float64 {
	if text == "" {
		return 0
	}
	if unit, ok := map[byte]float64{'K': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[text[len(text)-1]]; ok {
		return unit * number(text[:len(text)-1])
	}
	return number(text)
}

// parseEthrBandwidth reads what an ethr client says it sent.
func parseEthrBandwidth(text string) (values, error) {
	rate, _, seconds, err := ethrTable(text)
	return values{goodput: rate, bytesMoved: rate * seconds / 8}, err
}

// parseEthrPackets reads ethr -t p -p udp with datagrams of size bytes. Its
// bits are not computed from: they do not fit its packets.
func parseEthrPackets(size float64) parser {
	return func(text string) (values, error) {
		_, rate, seconds, err := ethrTable(text)
		if err == nil && rate == 0 {
			err = noResult(text)
		}
		return values{packets: rate, goodput: 8 * size * rate, bytesMoved: rate * seconds * size}, err
	}
}

func parseEthrConnections(text string) (values, error) {
	rate, _, _, err := ethrTable(text)
	return values{connections: rate}, err
}

// ethrColumns are those of ethr -t l.
var ethrColumns = []string{rttMean, "", rttP50, "", "", rttP99, rttP999, "", ""}

// parseEthrLatency reads ethr -t l, which prints a line for each batch of round
// trips. The batches are equal, so the mean of their means is that of all; of
// percentiles the mean over batches is taken, too.
func parseEthrLatency(text string) (values, error) {
	v, n := values{}, 0.0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != len(ethrColumns) {
			continue
		}
		row := make([]float64, len(words))
		for i, word := range words {
			if row[i] = seconds(word); row[i] == 0 {
				break
			}
		}
		if row[len(row)-1] == 0 {
			continue // the heading
		}
		n++
		for i, name := range ethrColumns {
			if name != "" {
				v[name] += (row[i] - v[name]) / n
			}
		}
	}
	if n == 0 {
		return nil, noResult(text)
	}
	return v, nil
}

// seconds reads 48.7us; 0 for what is no time.
func seconds(text string) float64 {
	for _, unit := range []struct {
		suffix string
		scale  float64
	}{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}} {
		if digits, ok := strings.CutSuffix(text, unit.suffix); ok {
			return number(digits) * unit.scale
		}
	}
	return 0
}

// netperfColumns are what netperf is asked to print with its -o, in this order.
const netperfColumns = "mean_latency,p50_latency,p99_latency,throughput"

// parseNetperf reads that: microseconds, and transactions a second; rate is the
// name of the quantity that these are, "" if none.
func parseNetperf(rate string) parser {
	return func(text string) (values, error) {
		var row []string
		for line := range strings.Lines(text) { // the last one of numbers
			if words := strings.Split(strings.TrimSpace(line), ","); len(words) == 4 && number(words[0]) > 0 {
				row = words
			}
		}
		if row == nil {
			return nil, noResult(text)
		}
		v := values{rttMean: 1e-6 * number(row[0]), rttP50: 1e-6 * number(row[1]), rttP99: 1e-6 * number(row[2])}
		if rate != "" {
			v = values{rate: number(row[3])}
		}
		return v, nil
	}
}

// parseNeperStream reads neper's tcp_stream: remote_throughput is what the
// server received, in bits a second, over test_length seconds.
func parseNeperStream(duration float64) parser {
	return func(text string) (values, error) {
		rate := number(fields(text)["remote_throughput"])
		if rate == 0 {
			return nil, noResult(text)
		}
		return values{goodput: rate, bytesMoved: rate * duration / 8}, nil
	}
}

// parseNeperTransactions reads neper's tcp_rr, udp_rr and tcp_crr, whose
// latencies are whole transactions in seconds.
func parseNeperTransactions(rate string) parser {
	return func(text string) (values, error) {
		f := fields(text)
		v := values{rate: number(f["throughput"])}
		if rate == "" {
			v = values{rttMean: number(f["latency_mean"]), rttP50: number(f["latency_p50"]), rttP99: number(f["latency_p99"]), rttP999: number(f["latency_p99.9"])}
		}
		for name, x := range v {
			if x == 0 {
				return nil, fmt.Errorf("%s: %w", name, noResult(text))
			}
		}
		return v, nil
	}
}

var (
	ntttcpRate  = regexp.MustCompile(`throughput\s*:([0-9.]+)([KMG]?)bps`)
	ntttcpBytes = regexp.MustCompile(`total bytes\s*:([0-9]+)`)
)

// parseNtttcp reads what ntttcp's sender says it sent.
func parseNtttcp(text string) (values, error) {
	i := strings.LastIndex(text, "Totals:")
	if i < 0 {
		return nil, noResult(text)
	}
	rate, bytes := ntttcpRate.FindStringSubmatch(text[i:]), ntttcpBytes.FindStringSubmatch(text[i:])
	if rate == nil || bytes == nil || number(bytes[1]) == 0 {
		return nil, noResult(text)
	}
	return values{goodput: ethrNumber(rate[1] + rate[2]), bytesMoved: number(bytes[1])}, nil
}
