package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMedianAndInterval(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   interval
	}{
		{[]float64{3}, interval{Median: 3}},
		{[]float64{4, 1, 3, 2, 5}, interval{Median: 3}},
		// Tables of the sign test: ranks 1 and 6 of 6 (96.9 %), 2 and 9 of 10 (97.9 %).
		{[]float64{6, 5, 4, 3, 2, 1}, interval{Median: 3.5, Low: 1, High: 6, Bounded: true}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, interval{Median: 5.5, Low: 2, High: 9, Bounded: true}},
	} {
		given := slices.Clone(c.values)
		if got := medianOf(c.values); got != c.want {
			t.Errorf("%v: got %+v, want %+v", given, got, c.want)
		}
		if !slices.Equal(given, c.values) {
			t.Error("the values were changed")
		}
	}
}

func TestVerdict(t *testing.T) {
	at := func(m, lo, hi float64) interval { return interval{Median: m, Low: lo, High: hi, Bounded: true} }
	for _, c := range []struct {
		ratio interval
		bound float64
		less  bool
		want  string
	}{
		{at(2.5, 2.1, 3), 2, false, "met"},
		{at(2, 1.5, 3), 2, false, "met (interval includes the target)"},
		{at(1.9, 1.5, 1.99), 2, false, "missed"},
		{at(1.9, 1.5, 2.5), 2, false, "missed (interval includes the target)"},
		{at(0.85, 0.8, 0.89), 0.9, true, "met"},
		{at(0.95, 0.91, 1), 0.9, true, "missed"},
		{interval{Median: 0.5}, 0.9, true, "met (too few pairs for an interval)"},
	} {
		if got := verdict(c.ratio, c.bound, c.less); got != c.want {
			t.Errorf("%+v against %v: %q, want %q", c.ratio, c.bound, got, c.want)
		}
	}
}

// The best of a goal's peers is that with the best median, whichever direction
// is good, and peers that the goal does not mean do not count.
func TestRecordNamesTheBestPeer(t *testing.T) {
	fast, slow := &variant{tool: &tool{name: "iperf3", version: "3"}, flags: "-Z"}, &variant{tool: &tool{name: "iperf3", version: "3"}}
	tests := []test{{name: "tcp-1", title: "TCP", variants: []*variant{slow, fast},
		metrics: []metric{rate(goal{2, "iperf3's default", the("iperf3")}, goal{1.4, "the fastest", anyPeer}), processor()}}}
	pairs := func(own, peer float64) (out []pair) {
		for range 6 {
			out = append(out, pair{Own: values{goodput: own, cpuPerByte: 1 / own}, Peer: values{goodput: peer, cpuPerByte: 1 / peer}})
		}
		return out
	}
	r := record{Machine: map[string]string{}, Results: []result{
		{Test: "tcp-1", Peer: slow.label(), variant: slow, Pairs: pairs(40e9, 10e9)},
		{Test: "tcp-1", Peer: fast.label(), variant: fast, Pairs: pairs(40e9, 32e9), Errors: []string{"it broke"}},
	}}
	var out strings.Builder
	r.print(&out, tests, true)
	for _, line := range []string{
		"| TCP | goodput | 40 Gbit/s | iperf3 3 | 10 Gbit/s | 4 [4, 4] | ≥ 2 × iperf3's default | met |\n",
		"| TCP | goodput | 40 Gbit/s | iperf3 3 -Z | 32 Gbit/s | 1.25 [1.25, 1.25] | ≥ 1.4 × the fastest | missed |\n",
		"iperf3 3 -Z | 31.3 ns/kB | 0.8 [0.8, 0.8] | ≤ 0.9 × the best peer | met |\n",
		"1 pairs failed: it broke",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}
