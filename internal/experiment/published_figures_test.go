package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/result"
)

// numbersOf are the values of a row that match.
func numbersOf(data *result.PublishedData, id, metric, end string) []float64 {
	var out []float64
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			for _, f := range s.Figures {
				if s.ID == id && f.Metric == metric && f.End == end && f.Second == 0 {
					out = append(out, f.Value)
				}
			}
		}
	}
	return out
}

// mean is the arithmetic mean.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// publishedFact is one quantity of one row of a study, of each of its runs.
type publishedFact struct {
	id, path string // path is how that of the setting begins
	flows    int
	seconds  float64
	metric   string
	end      string
	want     []float64
}

// publishedFacts are all figures that the studies print, copied from them by
// hand and apart from the file.
func publishedFacts() []publishedFact {
	const goodput, retransmits, sent = "goodput_bits_per_second", "retransmitted_segments", "transferred_bytes"
	const sender, receiver = result.PublishedSender, result.PublishedReceiver
	var out []publishedFact
	add := func(id, path string, flows int, seconds float64, metric, end string, want ...float64) {
		out = append(out, publishedFact{id, path, flows, seconds, metric, end, want})
	}
	// iperf3 of 10 s: what either end printed, in Gbit/s, and the retransmits.
	iperf := func(id, path string, flows int, sent, received, again []float64) {
		for end, rates := range map[string][]float64{sender: sent, receiver: received} {
			if len(rates) > 0 {
				add(id, path, flows, 10, goodput, end, scaled(1e9, rates)...)
			}
		}
		add(id, path, flows, 10, retransmits, sender, again...)
	}
	const mib = 1 << 20
	of := func(v ...float64) []float64 { return v }
	const through, past = "spoke to spoke through the firewall", "spoke to hub, past the firewall"
	iperf("E1.1", through, 1, of(1.98), of(1.97), of(385))
	iperf("E1.2", through, 64, of(5.58), of(5.53), of(6))
	iperf("E1.3", past, 1, of(5.72), of(5.72), of(0))
	iperf("E1.4", past, 64, of(5.78), of(5.72), of(0))
	iperf("E1.5", through, 64, of(2.48), of(2.38), of(214))
	iperf("E1.6", through, 128, of(2.51), of(2.39), of(1144))
	iperf("E1.7", through, 64, of(1.87, 1.94), of(1.74, 1.83), of(500, 1814))
	iperf("E1.8", through, 64, of(5.21, 4.90, 4.63), of(5.10, 4.81, 4.55), of(2868, 496, 38))
	iperf("E1.9", through, 64, of(4.90, 5.71, 5.71), of(4.81, 5.68, 5.68), of(496, 4840, 4840))
	iperf("E1.10", past, 64, of(5.60), of(5.53), of(0))
	iperf("E1.11", through, 1, nil, nil, of(1208, 621))
	add("E1.11", through, 1, 10, goodput, "", 9.33e9, 9.42e9)
	iperf("E1.12", through, 64, of(13.9, 9.55, 9.53), of(13.8, 9.46, 9.47), of(6198, 10512, 17613))
	iperf("E1.13", through, 1, nil, nil, of(62, 90))
	add("E1.13", through, 1, 10, goodput, "", 1.08e9, 1.33e9)
	iperf("E1.14", through, 64, of(9.38, 7.08, 11.6), of(9.35, 7.08, 11.4), of(5267, 1747, 4488))
	// NcFTP's MB are of 2^20 bytes: it prints 10^10 of them as 9.31 GB.
	add("E1.15", through, 1, 0, "file_bytes", "", 1e10)
	add("E1.15", through, 1, 0, goodput, "", 103.35*8*mib, 310.38*8*mib)
	add("E1.16", through, 64, 0, "file_bytes", "", 1e10)
	add("E1.16", through, 64, 0, "transfer_seconds", "", 31)
	add("E1.16", through, 64, 0, goodput, "", 305.19*8*mib)
	iperf("E1.17", through, 1, of(9.30, 9.42), of(9.29, 9.41), of(2487, 1410))
	iperf("E1.18", through, 64, of(10.9, 10.9), of(10.9, 10.9), of(13621, 6427))
	add("E1.18", through, 64, 10, sent, sender, math.Round(12.7*1024*mib), math.Round(12.7*1024*mib))
	add("E1.18", through, 64, 10, sent, receiver, math.Round(12.6*1024*mib), math.Round(12.7*1024*mib))
	iperf("E1.19", through, 1, nil, nil, of(84))
	add("E1.19", through, 1, 10, goodput, "", 1.37e9)
	iperf("E1.20", through, 64, of(10.7), of(10.6), of(17549))
	add("E1.21", "30 clients to 30 servers", 0, 30, goodput, "", 180e9)
	add("E1.22", "30 clients to 30 servers", 64, 280, goodput, "", 180e9)
	add("E1.23", "30 clients to 30 servers", 64, 1740, goodput, "", 180e9)
	add("E1.24", "through the firewall, intrusion detection off", 64, 0, goodput, "", 92.1e9)
	add("E1.25", "through the firewall, intrusion detection: alert and deny", 64, 0, goodput, "", 8.6e9)

	for _, r := range []struct {
		id, path           string
		rate, window, half float64
	}{
		{"E2.1", "VM to VM", 3.65e9, 3.27e6, 146e-6},
		{"E2.2", "VM to VM, accelerated networking", 3.82e9, 1.36e6, 40e-6},
		{"E2.3", "VM to a load balancer", 3.28e9, 1.61e6, 53e-6},
	} {
		add(r.id, r.path, 1, 30, goodput, "", r.rate)
		add(r.id, r.path, 1, 30, "congestion_window_bytes", "", r.window)
		add(r.id, r.path, 0, 0, "half_rtt_seconds", "", r.half)
	}

	add("E3.1", "site to spoke VM, fast path on", 0, 0, "added_hops_count", "", 0)
	add("E3.2", "site to spoke VM, fast path off", 0, 0, "added_hops_count", "", 1)
	add("E3.2", "site to spoke VM, fast path off", 0, 0, "added_silent_hops_count", "", 1)
	for _, r := range []struct {
		id, path                      string
		rates, bytes, connect, cycles []float64
	}{
		{"E3.4", "site to spoke VM, fast path on", of(367.00e3, 384.48e3), of(2752512, 2883584), of(125099e-6, 126500e-6), of(796.36, 1428.94)},
		{"E3.5", "site to spoke VM, fast path off", of(367.00e3, 349.52e3), of(2752512, 2621440), of(128719e-6, 128105e-6), of(4836.74, 1501.52)},
	} {
		add(r.id, r.path, 2, 60, goodput, sender, r.rates...)
		add(r.id, r.path, 2, 60, sent, sender, r.bytes...)
		add(r.id, r.path, 2, 60, retransmits, sender, 0)
		add(r.id, r.path, 2, 60, "connect_seconds", "", r.connect...)
		add(r.id, r.path, 2, 60, "cpu_cycles_per_byte", "", r.cycles...)
	}

	add("E4.1", "public", 0, 0, "hops_count", "", 8)
	add("E4.1", "public", 0, 0, "silent_hops_count", "", 7)
	add("E4.1", "peered", 0, 0, "hops_count", "", 1)
	add("E4.3", "public", 4, 30, goodput, "", 2480e6)
	add("E4.3", "peered", 4, 30, goodput, "", 2630e6)
	add("E4.4", "public", 4, 30, goodput, "", 3230e6)
	add("E4.4", "peered", 4, 30, goodput, "", 2710e6)

	for _, r := range []struct {
		id, path string
		ping     [4]float64 // min, avg, max, mdev in ms
	}{
		{"E5.1", "directly peered", [4]float64{0.738, 2.783, 12.846, 3.557}},
		{"E5.2", "one appliance", [4]float64{2.994, 4.516, 13.487, 3.104}},
		{"E5.3", "two appliances", [4]float64{3.057, 4.218, 18.704, 3.358}},
	} {
		for i, metric := range []string{"rtt_min_seconds", "rtt_mean_seconds", "rtt_max_seconds", "rtt_standard_deviation_seconds"} {
			add(r.id, r.path, 0, 0, metric, "", r.ping[i]/1e3)
		}
		add(r.id, r.path, 0, 0, "loss_fraction", "", 0)
	}
	iperf("E5.1", "directly peered", 1, of(12.1), of(12.0), of(2694))
	iperf("E5.2", "one appliance", 1, of(3.57), of(3.56), of(1574))
	iperf("E5.2", "one appliance", 10, of(11.5), of(11.5), of(10268))
	iperf("E5.3", "two appliances", 1, of(3.63), of(3.63), of(925))
	iperf("E5.3", "two appliances", 10, of(11.3), of(11.3), of(9770))
	return out
}

func scaled(by float64, values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}

// The file has every figure of the studies, and no other.
func TestPublishedFigures(t *testing.T) {
	data := published(t)
	numbers := 0
	for _, f := range publishedFacts() {
		var got []float64
		for _, s := range settingsOf(data, f) {
			for _, n := range s.Figures {
				if n.Metric == f.metric && n.End == f.end && n.Second == 0 {
					got = append(got, n.Value)
				}
			}
		}
		if !slices.EqualFunc(got, f.want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }) {
			t.Errorf("%s, %s, %d flows, %v s: %s %s is %v, want %v", f.id, f.path, f.flows, f.seconds, f.metric, f.end, got, f.want)
		}
		numbers += len(f.want)
	}
	all := 0
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			for _, n := range s.Figures {
				if n.Label == "" || n.Unit == "" || n.Printed == "" {
					t.Errorf("%s: %+v lacks a label, a unit or what was printed", s.ID, n)
				}
				if n.Second == 0 {
					all++
				}
			}
		}
	}
	if all != numbers {
		t.Errorf("the file has %d numbers, the studies have %d", all, numbers)
	}
}

// settingsOf are the settings of the file that a fact is of.
func settingsOf(data *result.PublishedData, f publishedFact) []result.PublishedSetting {
	var out []result.PublishedSetting
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			duration := time.Duration(f.seconds * float64(time.Second))
			// E2.1's path is how that of E2.2 begins, but not its row.
			if s.ID == f.id && strings.HasPrefix(s.Path, f.path) && s.Flows == f.flows && s.Duration.Duration() == duration {
				out = append(out, s)
			}
		}
	}
	return out
}

// The readings of E4.2, one a second, in Mbit/s.
func TestPublishedReadings(t *testing.T) {
	data := published(t)
	for path, want := range map[string][]float64{
		"public address": {985, 951, 975, 936, 989, 958, 967, 959, 964, 961, 968, 960, 949, 976, 960, 966, 959, 966, 961, 964, 965, 962, 962, 958, 967, 963, 961, 963, 965, 962},
		"peered network": {996, 947, 976, 956, 962, 965, 962, 926, 985, 948, 953, 980, 957, 966, 949, 972, 954, 975, 969, 963, 962, 933, 993, 961, 958, 958, 956, 970, 962, 963},
	} {
		settings := settingsOf(data, publishedFact{id: "E4.2", path: path, flows: 1, seconds: 30})
		if len(settings) != 1 || !slices.Equal(settings[0].Readings("goodput_bits_per_second"), scaled(1e6, want)) {
			t.Errorf("%s: the readings are of %+v", path, settings)
		}
	}
	for path, want := range map[string]string{"public address": "963.4", "peered network": "962.6"} {
		s := settingsOf(data, publishedFact{id: "E4.2", path: path, flows: 1, seconds: 30})[0]
		if got := fmt.Sprintf("%.1f", mean(s.Readings("goodput_bits_per_second"))/1e6); got != want {
			t.Errorf("%s: the mean of the readings is %s Mbit/s, want %s", path, got, want)
		}
	}
}

// Every row of the five studies is there.
func TestPublishedHasEveryRow(t *testing.T) {
	data := published(t)
	want := []int{26, 3, 5, 4, 3}
	if len(data.Studies) != len(want) {
		t.Fatalf("%d studies", len(data.Studies))
	}
	for i, study := range data.Studies {
		rows := map[string]bool{}
		for _, s := range study.Settings {
			rows[s.ID] = true
		}
		for n := 1; n <= want[i]; n++ {
			if id := fmt.Sprintf("E%d.%d", i+1, n); !rows[id] {
				t.Errorf("%s lacks row %s", study.Name, id)
			}
		}
		if len(rows) != want[i] {
			t.Errorf("%s has %d rows, want %d", study.Name, len(rows), want[i])
		}
	}
}
