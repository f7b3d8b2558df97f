package session

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/thread"
)

func TestPlace(t *testing.T) {
	const separate, same, none = measurement.PlacementSeparate, measurement.PlacementSame, measurement.PlacementNone
	for _, c := range []struct {
		name                string
		colocate            bool
		source, destination []int // that the ends may use
		want                Placement
	}{
		{"two CPUs", false, []int{0, 1}, []int{0, 1}, Placement{separate, []int{0}, []int{1}}},
		{"three CPUs", false, []int{2, 3, 4}, []int{2, 3, 4}, Placement{separate, []int{2}, []int{3, 4}}},
		{"one CPU", false, []int{5}, []int{5}, Placement{same, []int{5}, []int{5}}},
		{"told to differ", false, []int{0}, []int{1}, Placement{separate, nil, nil}},
		{"the destination may use more", false, []int{0}, []int{0, 1}, Placement{separate, []int{0}, []int{1}}},
		{"the source may use more", false, []int{0, 1, 2}, []int{1}, Placement{separate, []int{0, 2}, []int{1}}},
		{"they overlap", false, []int{0, 1}, []int{1, 2}, Placement{separate, []int{0, 1}, []int{2}}},
		{"colocated", true, []int{0, 1}, []int{1, 2}, Placement{same, []int{1}, []int{1}}},
		{"cannot be colocated", true, []int{0}, []int{1}, Placement{separate, nil, nil}},
		{"unknown", false, nil, []int{0, 1}, Placement{none, nil, nil}},
		{"unknown", true, []int{0, 1}, nil, Placement{none, nil, nil}},
	} {
		got := place(c.colocate, c.source, c.destination)
		if got.Name != c.want.Name || !slices.Equal(got.Source, c.want.Source) || !slices.Equal(got.Destination, c.want.Destination) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Ends that are separate have no CPU in common, each has one, and none gets one
// that it may not use.
func TestPlaceNeverShares(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draw := func() (cpus []int) {
		for cpu := range 6 {
			if random.IntN(2) == 0 {
				cpus = append(cpus, cpu)
			}
		}
		return cpus
	}
	within := func(cpus, of []int) bool {
		return !slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(of, cpu) })
	}
	for range 2000 {
		source, destination := draw(), draw()
		p := place(false, source, destination)
		if !within(p.Source, source) || !within(p.Destination, destination) {
			t.Fatalf("from %v and %v: %+v", source, destination, p)
		}
		if p.Name != measurement.PlacementSeparate {
			continue
		}
		if len(p.Source) > 0 {
			source, destination = p.Source, p.Destination
		}
		if len(source) == 0 || len(destination) == 0 || slices.ContainsFunc(source, func(cpu int) bool { return slices.Contains(destination, cpu) }) {
			t.Fatalf("the ends are separate on %v and %v", source, destination)
		}
	}
}

func TestPlacementOfOtherHosts(t *testing.T) {
	own := protocol.Open{Spec: measurement.Spec{Kind: measurement.RR}.Defaults(), HostID: hostinfo.HostID(), CPUs: thread.AllowedCPUs()}
	for name, change := range map[string]func(*protocol.Open){
		"another host":       func(o *protocol.Open) { o.HostID = "other" },
		"an unknown host":    func(o *protocol.Open) { o.HostID = "" },
		"an end that polls":  func(o *protocol.Open) { o.Spec.Spin = true },
		"an older client":    func(o *protocol.Open) { o.CPUs = nil },
		"a test without one": func(o *protocol.Open) { o.Spec.Kind = measurement.TCP },
	} {
		open := own
		change(&open)
		if p, err := PlaceEnds(open); err != nil || p.Name != measurement.PlacementNone || p.Source != nil || p.Destination != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if open.Spec.Colocate = true; open.Spec.Placed() {
			if _, err := PlaceEnds(open); ReasonOf(err) != Unsupported {
				t.Errorf("%s, colocated: %v", name, err)
			}
		}
	}
	own.CPUs = []int{0, -1}
	if _, err := PlaceEnds(own); err == nil {
		t.Error("a CPU with the number -1 is taken")
	}
}

// An older server says nothing of where the ends run.
func TestPlacedByAnOlderServer(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.RR}
	if p, err := PlacedBy(spec, protocol.Ready{}); err != nil || p.Name != measurement.PlacementNone {
		t.Errorf("%+v, %v", p, err)
	}
	spec.Colocate = true
	if _, err := PlacedBy(spec, protocol.Ready{}); ReasonOf(err) != Unsupported {
		t.Errorf("colocated: %v", err)
	}
}

// That a thread cannot be kept to CPUs is its host's doing, with whatever errno it is refused.
func TestPinnedRefused(t *testing.T) {
	err := Pinned([]int{maxCPU - 1}, func() error { return nil })
	if testutil.Need(t, !slices.Contains(thread.AllowedCPUs(), maxCPU-1), "a host of fewer CPUs"); err == nil {
		t.Fatal("pinned to a CPU that is not there")
	}
	if reason := ReasonOf(Wrap("exchange", err)); runtime.GOOS == "linux" && reason != Local {
		t.Errorf("%s: %v", reason, err)
	}
}
