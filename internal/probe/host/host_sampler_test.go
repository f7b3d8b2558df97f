package host

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestEndOf(t *testing.T) {
	// Two CPUs over four seconds: one is busy throughout, the other in
	// the first two seconds only.
	series := &protocol.HostSeries{
		Host: "vm", HostID: "h", NetworkID: "n", CPUs: 2,
		At: []float64{0, 1, 2, 3, 4}, Busy: []float64{0, 2, 4, 5, 6}, SoftIRQ: []float64{0, 0, 0, .5, 1}, Steal: []float64{0, 0, 0, 1, 1},
		Total: []float64{0, 2, 4, 6, 8}, Busiest: [][]float64{{0, 1, 2, 3, 4}, {0, 1, 2, 2, 2}},
		Switches: []float64{0, 100, 200, 250, 300}, DropsCounted: true, Squeezes: 3,
		Drops: []measurement.Drop{{Place: "a", Packets: 1}, {Place: "b", Packets: 7, HostWide: true}, {Place: "none"}},
	}
	want := measurement.End{
		Host: "vm", HostID: "h", NetworkID: "n", CPUs: 2, CPUBusy: .5, SoftIRQ: .25, Steal: .25, BusiestCPU: 1,
		CPUTime: 2, ContextSwitches: 100, DropsCounted: true, SoftnetSqueezes: 3, ReceivedTTL: 63,
		Drops: []measurement.Drop{{Place: "b", Packets: 7, HostWide: true}, {Place: "a", Packets: 1}},
	}
	got := EndOf(series, 2, 4, 63)
	// A sample was due every 50 ms.
	if want.Standstill = got.Standstill; math.Abs(got.Standstill-.95) > 1e-9 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	half := EndOf(series, 1.5, 2.5, 0)
	if half.CPUTime != 1.5 || half.CPUBusy != .75 || half.ContextSwitches != 75 {
		t.Errorf("between samples: %+v", half)
	}
}

// An end that did not run is told from one whose CPUs were full, by the gaps between its
// samples.
func TestStandstill(t *testing.T) {
	// series are samples every 50 ms of one CPU, but for a gap, over which it was busy and
	// robbed for so much of the time.
	series := func(gap, busy, stolen float64) *protocol.HostSeries {
		h := &protocol.HostSeries{CPUs: 1}
		at, spent, lost := 0.0, 0.0, 0.0
		add := func(step, busy, stolen float64) {
			at, spent, lost = at+step, spent+busy*step, lost+stolen*step
			h.At, h.Total = append(h.At, at), append(h.Total, at)
			h.Busy, h.Steal, h.SoftIRQ = append(h.Busy, spent), append(h.Steal, lost), append(h.SoftIRQ, 0)
		}
		add(0, 0, 0)
		for i := range 120 {
			if i == 10 {
				add(gap, busy, stolen)
			}
			add(0.05, 0.3, 0)
		}
		return h
	}
	// regular are samples at one distance, as of a container that is stopped in each period
	// of its CPU limit.
	regular := func(step, busy float64) *protocol.HostSeries {
		h := &protocol.HostSeries{CPUs: 1}
		for i := range 20 {
			at := step * float64(i)
			h.At, h.Total = append(h.At, at), append(h.Total, at)
			h.Busy, h.SoftIRQ = append(h.Busy, busy*at), append(h.SoftIRQ, 0)
		}
		return h
	}
	for _, test := range []struct {
		name         string
		series       *protocol.HostSeries
		from, to     float64
		atLeast, not float64
	}{
		{"nothing", series(0.05, 0.3, 0), 0.3, 1.3, 0, 0.001},
		{"a late sample", series(0.09, 0.3, 0), 0.3, 1.3, 0, 0.001},
		{"stopped for 200 ms", series(0.2, 0.1, 0), 0.3, 1.3, 0.149, 0.151},
		{"stopped half before the window", series(0.2, 0.1, 0), 0.6, 1.6, 0.099, 0.101},
		{"stopped before the window", series(0.2, 0.1, 0), 0.8, 1.8, 0, 0.001},
		{"processors that others use, too", series(0.2, 0.8, 0), 0.3, 1.3, 0, 0.001},
		{"full processors", series(0.2, 1, 0), 0.3, 1.3, 0, 0.001},
		{"full processors, some of it stolen", series(0.2, 1, 0.3), 0.3, 1.3, 0, 0.001},
		{"the machine stopped", series(0.2, 1, 0.9), 0.3, 1.3, 0.149, 0.151},
		{"no window", series(0.2, 0, 0), 1, 1, 0, 0.001},
		{"stopped in each period of 120 ms", regular(0.12, 0.3), 0.3, 1.3, 0.599, 0.601},
		{"full processors all the time", regular(0.12, 1), 0.3, 1.3, 0, 0.001},
		{"a few samples", &protocol.HostSeries{CPUs: 1, At: []float64{0, 0.05, 0.25}, Busy: []float64{0, 0, 0}, SoftIRQ: []float64{0, 0, 0}, Total: []float64{0, 0.05, 0.25}}, 0, 0.2, 0.49, 0.51},
	} {
		if got := EndOf(test.series, test.from, test.to, 0).Standstill; got < test.atLeast || got > test.not {
			t.Errorf("%s: %v of the time, want %v to %v", test.name, got, test.atLeast, test.not)
		}
	}
	// Of a long test every fourth sample is left: 200 ms between two is usual.
	long := series(0.5, 0.1, 0)
	for i := range long.At {
		for _, of := range [][]float64{long.At, long.Total} {
			of[i] *= 4
		}
	}
	if got := EndOf(long, 0, 10, 0).Standstill; got < 0.17 || got > 0.19 {
		t.Errorf("a long test: %v of the time, want 1.8 s of 10 s", got)
	}
}

// A series comes from the other end, and may be anything that JSON can say.
func FuzzEndOf(f *testing.F) {
	f.Add([]byte(`{"cpus":2,"at_seconds":[0,1],"busy_seconds":[0,1],"softirq_seconds":[0,0],"total_seconds":[0,2],
		"busiest_seconds":[[0,1],[0]],"context_switches":[1],"drops":[{"place":"x","packets":-1}]}`), 0.0, 1.0)
	f.Add([]byte(`{"cpus":-9,"at_seconds":[1,0,0],"busy_seconds":[1e308,-1e308,0],"softirq_seconds":[0,0,0],"total_seconds":[-1e308,1e308,0]}`), 0.0, 1.0)
	f.Fuzz(func(t *testing.T, text []byte, from, to float64) {
		var series protocol.HostSeries
		if json.Unmarshal(text, &series) != nil || math.IsNaN(from) || math.IsNaN(to) {
			return
		}
		end := EndOf(&series, from, to, 0)
		if _, err := json.Marshal(end); err != nil {
			t.Errorf("%+v: %v", end, err)
		}
		for _, fraction := range []float64{end.CPUBusy, end.SoftIRQ, end.Steal, end.Standstill, end.BusiestCPU} {
			if fraction < 0 || fraction > 1 {
				t.Errorf("a fraction of %v in %+v", fraction, end)
			}
		}
		if len(end.Drops) > maxDrops || end.CPUTime < 0 || end.ContextSwitches < 0 {
			t.Errorf("%+v", end)
		}
	})
}

func TestDropsBetween(t *testing.T) {
	first := hostinfo.DropCounts{Places: []hostinfo.DropCount{{Place: "same", Packets: 5}, {Place: "more", Packets: 5}, {Place: "reset", Packets: 9}}}
	last := hostinfo.DropCounts{Places: []hostinfo.DropCount{
		{Place: "same", Packets: 5}, {Place: "more", Packets: 8}, {Place: "reset", Packets: 2}, {Place: "new", Packets: 4, HostWide: true},
	}}
	want := []measurement.Drop{{Place: "new", Packets: 4, HostWide: true}, {Place: "more", Packets: 3}}
	if got := dropsBetween(first, last); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The series of a live host agree with each other.
func TestHostSampler(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux", "Linux, which tells everything")
	series := StartSampler(time.Now()).Result()
	n := len(series.At)
	if n < 2 || !slices.IsSorted(series.At) || len(series.Busy) != n || len(series.Total) != n || len(series.Switches) != n {
		t.Fatalf("%+v", series)
	}
	if want := min(series.CPUs, maxBusiest); len(series.Busiest) != want || len(series.Busiest[0]) != n {
		t.Errorf("%d single CPUs of %d samples, want %d of %d", len(series.Busiest), len(series.Busiest[0]), want, n)
	}
	if !slices.IsSorted(series.Switches) || series.Switches[0] < 0 {
		t.Errorf("context switches %v", series.Switches)
	}
	if !series.DropsCounted || series.HostID == "" || series.NetworkID == "" {
		t.Errorf("%+v", series)
	}
}

func TestAddCost(t *testing.T) {
	drops := func(packets float64, hostWide bool) measurement.Drop {
		return measurement.Drop{Place: "p", Packets: packets, HostWide: hostWide}
	}
	end := func(host, network string, cpu measurement.Seconds, switches float64, d ...measurement.Drop) measurement.End {
		return measurement.End{Host: "same name", HostID: host, NetworkID: network, CPUTime: cpu, ContextSwitches: switches, DropsCounted: true, Drops: d}
	}
	for _, test := range []struct {
		name                    string
		source, destination     measurement.End
		seconds, bytes, packets float64
		want                    measurement.Metrics
	}{
		{"two hosts of one name", end("a", "x", 1, 100, drops(2, false)), end("b", "y", 3, 60, drops(5, true)), 2, 1000, 10, measurement.Metrics{
			"cpu_seconds_per_byte": .004, "cpu_seconds_per_packet": .4, "context_switches_per_second": 80, "dropped_packets_count": 7,
		}},
		{"two namespaces of a host", end("a", "x", 1, 100, drops(2, false), drops(5, true)), end("a", "y", 1, 100, drops(3, false), drops(5, true)), 2, 1000, 0, measurement.Metrics{
			"cpu_seconds_per_byte": .001, "context_switches_per_second": 50, "dropped_packets_count": 10,
		}},
		{"one namespace", end("a", "x", 1, 100, drops(2, false)), end("a", "x", 1, 100, drops(2, false)), 2, 1000, 0, measurement.Metrics{
			"cpu_seconds_per_byte": .001, "context_switches_per_second": 50, "dropped_packets_count": 2,
		}},
		{"round trips", end("a", "x", 1, 100), end("b", "y", 1, 100), 2, 0, 0, measurement.Metrics{"context_switches_per_second": 100}},
		{"an end that does not know", end("a", "x", 1, 100), measurement.End{Host: "windows"}, 2, 1000, 10, measurement.Metrics{}},
		{"no time", end("a", "x", 1, 100), end("b", "y", 1, 100), 0, 1000, 10, measurement.Metrics{}},
	} {
		out := measurement.Outcome{Metrics: measurement.Metrics{}, Source: test.source, Destination: test.destination}
		AddCost(&out, test.seconds, test.bytes, test.packets)
		if !maps.EqualFunc(out.Metrics, test.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%s: %v, want %v", test.name, out.Metrics, test.want)
		}
	}
}

func TestSameHostByNameWhereIdentityIsUnknown(t *testing.T) {
	known, unknown := measurement.End{Host: "vm", HostID: "a"}, measurement.End{Host: "vm"}
	if !known.SameHost(unknown) || !unknown.SameNetwork(known) || (measurement.End{}).SameHost(measurement.End{}) {
		t.Error("names do not count, or no name does")
	}
}
