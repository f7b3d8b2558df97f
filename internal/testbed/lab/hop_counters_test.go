package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/measurement"
)

func watchedPath() lab.Path {
	return lab.Path{Name: "p", HopNodes: []lab.HopNode{
		{Hop: "edge", Node: "p/edge", Interface: "to-destination", Bypasses: []string{"bypass-0-1"}},
		{Hop: "firewall", Instance: 1, Node: "p/firewall.1", Interface: "to-destination"},
		{Hop: "firewall", Instance: 2, Node: "p/firewall.2", Interface: "to-destination"},
	}}
}

// counted is a lab whose hops have counted n of everything, and ten times as
// much on their other interface.
func counted(n uint64, nodes []string) lab.Counters {
	var all lab.Counters
	for _, node := range nodes {
		tracked := float64(7 + n)
		all.Nodes = append(all.Nodes, lab.NodeCounters{Node: node, Read: time.Now(), Functions: measurement.HopSample{Connections: &tracked, DroppedPackets: float64(2 * n)}, Interfaces: []lab.InterfaceCounters{
			{Name: "to-source", SentBytes: 10 * n, SentDropped: n},
			{Name: "to-destination", SentBytes: 1000 * n, SentPackets: n, ReceivedBytes: 100 * n, ReceivedPackets: 2 * n, ReceivedDropped: n, EgressDropped: n},
		}})
		if node == "p/edge" {
			more := &all.Nodes[len(all.Nodes)-1].Interfaces
			*more = append(*more, lab.InterfaceCounters{Name: "bypass-0-1", SentBytes: 500 * n})
		}
	}
	all.Links = []lab.LinkCounters{
		{A: lab.End{Node: "p/edge", Interface: "to-source"}, CPU: time.Hour},
		{A: lab.End{Node: "p/edge", Interface: "bypass-0-1"}, CPU: 2 * time.Duration(n) * time.Second},
		{A: lab.End{Node: "p/firewall.2", Interface: "to-destination"}, CPU: time.Duration(n) * time.Second,
			Counters: linkem.Counters{Forward: linkem.DirectionCounters{LostFrames: n, OverrunFrames: n}, Backward: linkem.DirectionCounters{QueueDroppedFrames: n, RefusedFrames: n}}},
	}
	return all
}

// idleCPU is a machine that cannot say what its CPUs do.
func idleCPU() (hostinfo.CPUTimes, error) { return hostinfo.CPUTimes{}, hostinfo.ErrUnsupported }

func TestWatchHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := uint64(5) // counted before the trial
		read := func(_ context.Context, nodes ...string) (lab.Counters, error) {
			defer func() { n++ }()
			return counted(n, nodes), nil
		}
		// One of two CPUs is busy, a quarter of that time in softirq.
		began := time.Now().Add(-time.Hour)
		cpu := func() (hostinfo.CPUTimes, error) {
			at := time.Since(began)
			return hostinfo.CPUTimes{CPUs: 2, Total: 2 * at, Busy: at, SoftIRQ: at / 4}, nil
		}
		w := watchHops(t.Context(), read, cpu, watchedPath(), 100*time.Millisecond)
		time.Sleep(30 * time.Millisecond)
		o := measurement.Outcome{Started: time.Now()}
		if now := w.now(); now != nil {
			t.Errorf("after one reading it is known what was counted since: %+v", now)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if now := w.now(); len(now) != 3 || len(now[2].Samples) != 1 || now[2].Samples[0].ForwardBytes != 2000 {
			t.Errorf("while it goes on, the hops have counted %+v", now)
		}
		w.end(t.Context(), &o)
		time.Sleep(time.Second) // nothing is read any more
		if n != 5+4 {
			t.Errorf("read %d times, want at the start, after 100 and 200 ms, and at the end", n-5)
		}
		if len(o.HopSeries) != 3 || len(o.Facts) != 0 {
			t.Fatalf("series %+v, facts %q", o.HopSeries, o.Facts)
		}
		if s := o.HopSeries[2]; s.Name != "firewall" || s.Instance != 2 {
			t.Errorf("the last series is of %s, instance %d", s.Name, s.Instance)
		}
		want := []measurement.HopSample{
			{At: -0.03},
			{At: 0.07, ForwardBytes: 1000, ForwardPackets: 1, BackwardBytes: 100, BackwardPackets: 2, DroppedPackets: 9, QueueDroppedPackets: 2, LostPackets: 1, CPU: 1},
			{At: 0.17, ForwardBytes: 2000, ForwardPackets: 2, BackwardBytes: 200, BackwardPackets: 4, DroppedPackets: 18, QueueDroppedPackets: 4, LostPackets: 2, CPU: 2},
			{At: 0.25, ForwardBytes: 3000, ForwardPackets: 3, BackwardBytes: 300, BackwardPackets: 6, DroppedPackets: 27, QueueDroppedPackets: 6, LostPackets: 3, CPU: 3},
		}
		for i, got := range o.HopSeries[2].Samples {
			if *got.Connections != float64(12+i) { // of the table now, not since the trial began
				t.Errorf("sample %d has %v connections", i, *got.Connections)
			}
			got.Connections = nil
			if got != want[i] {
				t.Errorf("sample %d\ngot  %+v\nwant %+v", i, got, want[i])
			}
		}
		spent := []measurement.CPUSample{{At: -0.03}, {At: 0.07, Busy: 0.1, SoftIRQ: 0.025}, {At: 0.17, Busy: 0.2, SoftIRQ: 0.05}, {At: 0.25, Busy: 0.28, SoftIRQ: 0.07}}
		if !slices.Equal(o.LabCPU, spent) {
			t.Errorf("processors\ngot  %+v\nwant %+v", o.LabCPU, spent)
		}
		if s := o.HopSeries[0].Samples[3]; s.DroppedPackets != 15 || s.CPU != 6 || s.ForwardBytes != 4500 {
			t.Errorf("the edge has a second way to the destination: %+v", s)
		}
	})
}

// The link emulators that a path begins with are at the source, of which only the
// interfaces that lead onto them are theirs.
func TestWatchLeadingLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := lab.Path{Name: "p", SourceNode: "vm", Leading: &lab.HopNode{Hop: "peering", Node: "vm", Interface: "p", Bypasses: []string{"bypass-0-1"}}}
		n := uint64(0)
		read := func(_ context.Context, asked ...string) (lab.Counters, error) {
			if got := strings.Join(asked, " "); got != "vm:p vm:bypass-0-1" {
				t.Errorf("asked for %s", got)
			}
			n++
			tracked := float64(n)
			return lab.Counters{
				Nodes: []lab.NodeCounters{{Node: "vm", Read: time.Now(), Functions: measurement.HopSample{Connections: &tracked, DroppedPackets: float64(n)}, Interfaces: []lab.InterfaceCounters{
					{Name: "other", SentBytes: 1e6 * n, SentDropped: n},
					{Name: "p", SentBytes: 1000 * n, SentPackets: n, ReceivedBytes: 100 * n, ReceivedPackets: 2 * n, SentDropped: 3 * n, EgressDropped: n},
					{Name: "bypass-0-1", SentBytes: 10 * n},
				}}},
				Links: []lab.LinkCounters{{A: lab.End{Node: "vm", Interface: "p"}, CPU: time.Duration(n) * time.Second,
					Counters: linkem.Counters{Forward: linkem.DirectionCounters{QueueDroppedFrames: n}}}},
			}, nil
		}
		o := measurement.Outcome{Started: time.Now()}
		w := watchHops(t.Context(), read, idleCPU, path, 100*time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		w.end(t.Context(), &o)
		if len(o.HopSeries) != 1 || o.HopSeries[0].Name != "peering" || len(o.HopSeries[0].Samples) != 2 {
			t.Fatalf("%+v", o.HopSeries)
		}
		want := measurement.HopSample{At: 0.05, ForwardBytes: 1010, ForwardPackets: 1, BackwardBytes: 100, BackwardPackets: 2, DroppedPackets: 4, QueueDroppedPackets: 1, CPU: 1}
		if got := o.HopSeries[0].Samples[1]; got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

// What a link's process is too slow for is dropped by the device by which the link leaves, which
// may be that of a software switch or of a shared egress.
func TestWatchLeadingDevice(t *testing.T) {
	at := func(node, name string, sent, dropped uint64) lab.NodeCounters {
		return lab.NodeCounters{Node: node, Interfaces: []lab.InterfaceCounters{{Name: "other", SentDropped: 99}, {Name: name, SentPackets: sent, SentDropped: dropped, EgressDropped: 7}}}
	}
	h := lab.HopNode{Hop: "peering", Node: "vm", Interface: "p", Bypasses: []string{"bypass-0-1"}, Devices: map[string]lab.Device{"p": {Node: "vm.switch", Interface: "link0"}, "bypass-0-1": {Node: "vm.switch", Interface: "gone"}}}
	if got := strings.Join(h.At("vm"), " "); got != "vm:p vm.switch:link0 vm:bypass-0-1 vm.switch:gone" {
		t.Errorf("read are %s", got)
	}
	reading := lab.Counters{Nodes: []lab.NodeCounters{at("vm", "p", 100, 1), at("vm.switch", "link0", 60, 40)}}
	want := measurement.HopSample{ForwardPackets: 60, DroppedPackets: 40}
	if got, ok := hopSample(h, true, reading, time.Time{}); got != want || !ok {
		t.Errorf("%v: got %+v, want %+v", ok, got, want)
	}
	reading.Nodes[1].Interfaces = nil // of a machine that has no such device
	want = measurement.HopSample{ForwardPackets: 100, DroppedPackets: 1}
	if got, _ := hopSample(h, true, reading, time.Time{}); got != want {
		t.Errorf("without its device: got %+v, want %+v", got, want)
	}
}

// A rate that the kernel meters at both ends of a hop's link is the hop's: what the meter at
// the next node drops is not that node's.
func TestWatchMeters(t *testing.T) {
	path := lab.Path{Name: "p", SourceNode: "vm", HopNodes: []lab.HopNode{
		{Hop: "slow", Node: "p/slow", Interface: "to-destination", Returns: []lab.ReturnMeter{{Node: "p/fast", Interface: "to-source"}}},
		{Hop: "fast", Node: "p/fast", Interface: "to-destination"},
	}}
	if got := strings.Join(path.HopNodes[0].At("vm"), " "); got != "p/fast:to-source p/slow" {
		t.Errorf("read are %s", got)
	}
	reading := lab.Counters{Nodes: []lab.NodeCounters{
		{Node: "p/slow", Interfaces: []lab.InterfaceCounters{{Name: "to-destination", EgressDropped: 2, EgressBusy: 3 * time.Second}}},
		{Node: "p/fast", Interfaces: []lab.InterfaceCounters{{Name: "to-source", SentDropped: 1, EgressDropped: 40, EgressBusy: 5 * time.Second}}},
	}}
	path.HopNodes[1].Ends = []lab.Device{{Node: "vm2.switch", Interface: "link1"}}
	reading.Nodes = append(reading.Nodes, lab.NodeCounters{Node: "vm2.switch", Interfaces: []lab.InterfaceCounters{{Name: "link0", SentDropped: 9}, {Name: "link1", SentDropped: 6}}})
	if got := strings.Join(path.HopNodes[1].At("vm"), " "); got != "vm2.switch:link1 p/fast" {
		t.Errorf("read are %s", got)
	}
	want := []measurement.HopSample{
		{DroppedPackets: 42, QueueDroppedPackets: 42, ForwardBusy: 3, BackwardBusy: 5},
		{DroppedPackets: 7},
	}
	for i, h := range path.HopNodes {
		if got, ok := hopSample(h, false, reading, time.Time{}); got != want[i] || !ok {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", h.Hop, ok, got, want[i])
		}
	}
}

// The links to back ends begin at one node, whose drops and connections count once.
func TestWatchBackends(t *testing.T) {
	tracked := 8.0
	node := lab.NodeCounters{
		Node: "p/fw", Functions: measurement.HopSample{Connections: &tracked, DroppedPackets: 5, KernelCPU: 1},
		Interfaces: []lab.InterfaceCounters{
			{Name: "to-source", ReceivedDropped: 10},
			{Name: "to-backend-1", SentBytes: 100, SentDropped: 20},
			{Name: "to-backend-2", SentBytes: 200, SentDropped: 40},
		},
	}
	w := &hopWatch{hops: []lab.HopNode{
		{Hop: "fw", Instance: 1, Node: "p/fw", Interface: "to-backend-1"},
		{Hop: "fw", Instance: 2, Node: "p/fw", Interface: "to-backend-2"},
	}}
	lossy := lab.LinkCounters{A: lab.End{Node: "p/fw", Interface: "to-backend-2"}, Counters: linkem.Counters{Forward: linkem.DirectionCounters{LostFrames: 3}}}
	got := w.series([]lab.Counters{{Nodes: []lab.NodeCounters{{Node: "p/fw"}}}, {Nodes: []lab.NodeCounters{node}, Links: []lab.LinkCounters{lossy}}}, time.Time{})
	if c := got[0].Samples[1].Connections; c == nil || *c != 8 || got[1].Samples[1].Connections != nil {
		t.Errorf("of 8 connections the links have %v and %v", c, got[1].Samples[1].Connections)
	}
	got[0].Samples[1].Connections = nil
	for i, want := range []measurement.HopSample{{ForwardBytes: 100, DroppedPackets: 75, KernelCPU: 1}, {ForwardBytes: 200, DroppedPackets: 3, LostPackets: 3}} {
		if s := got[i].Samples[1]; s != want {
			t.Errorf("link %d\ngot  %+v\nwant %+v", i+1, s, want)
		}
	}
	if node.Functions.DroppedPackets != 5 || node.Interfaces[1].SentDropped != 20 {
		t.Errorf("the reading itself has changed: %+v", node)
	}
}

// What ends a watch early leaves what was read, and says so.
func TestWatchHopsFails(t *testing.T) {
	gone := errors.New("the lab is closed")
	for _, c := range []struct {
		name             string
		good             int // readings
		started          bool
		series, mentions bool
	}{
		{"at once", 0, true, false, true},
		{"after the first", 1, true, false, true},
		{"later", 3, true, true, true},
		{"never started", 3, false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			readings := 0
			read := func(_ context.Context, nodes ...string) (lab.Counters, error) {
				if readings++; readings > c.good {
					return lab.Counters{}, gone
				}
				return counted(uint64(readings), nodes), nil
			}
			w := watchHops(t.Context(), read, idleCPU, watchedPath(), 100*time.Millisecond)
			o := measurement.Outcome{}
			if c.started {
				o.Started = time.Now()
			}
			time.Sleep(time.Second)
			w.end(t.Context(), &o)
			if readings > c.good+1 {
				t.Errorf("%s: read %d times, though reading %d failed", c.name, readings, c.good+1)
			}
			if (len(o.HopSeries) > 0) != c.series || (len(o.Facts) > 0) != c.mentions {
				t.Errorf("%s: series %v, facts %q", c.name, o.HopSeries, o.Facts)
			}
			if c.mentions && !strings.Contains(o.Facts[0], gone.Error()) {
				t.Errorf("%s: the fact %q does not say why", c.name, o.Facts[0])
			}
		})
	}
}

// A path that is a plain link is not watched, and a trial that was stopped
// has nothing to complain of.
func TestWatchNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(ctx context.Context, _ ...string) (lab.Counters, error) { return lab.Counters{}, ctx.Err() }
		o := measurement.Outcome{Started: time.Now()}
		w := watchHops(t.Context(), func(context.Context, ...string) (lab.Counters, error) {
			t.Error("it was read")
			return lab.Counters{}, nil
		}, idleCPU, lab.Path{}, time.Millisecond)
		time.Sleep(time.Second)
		w.end(t.Context(), &o)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w = watchHops(ctx, read, idleCPU, watchedPath(), time.Millisecond)
		w.end(ctx, &o)
		if len(o.HopSeries) > 0 || len(o.Facts) > 0 {
			t.Errorf("series %v, facts %q", o.HopSeries, o.Facts)
		}
	})
}

func TestHopInterval(t *testing.T) {
	for _, c := range []struct {
		kind     measurement.Kind
		duration measurement.Seconds
		want     time.Duration
	}{
		{measurement.TCP, 0.1, 100 * time.Millisecond},
		{measurement.TCP, 5, 100 * time.Millisecond},
		{measurement.TCP, 100, time.Second},
		{measurement.Load, 5, 100 * time.Millisecond},
		{measurement.RR, 0.1, time.Second},
		{measurement.CRR, 5, time.Second},
		{measurement.CRR, 200, 2 * time.Second},
		{measurement.Ping, 5, time.Second},
	} {
		spec := measurement.Spec{Kind: c.kind, Duration: c.duration, Flows: 1, Direction: measurement.Send}
		if got := hopInterval(spec); got < c.want || got > c.want+c.want/10 {
			t.Errorf("%s of %v s: every %v, want about %v", c.kind, c.duration, got, c.want)
		}
	}
}
