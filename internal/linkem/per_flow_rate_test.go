package linkem

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shapeArrival is a frame that comes to a shaper in a test.
type shapeArrival struct {
	at   time.Duration
	flow flowKey
	wire int
}

// shape lets frames, numbered from 0, pass a shaper under a clock that a perfect
// sleeper would see.
func shape(s *shaper, arrivals []shapeArrival) (left []departure, dropped []uint32) {
	leave := func(until int64) {
		for {
			at, ok := s.next()
			if !ok || at > until {
				return
			}
			if f, ok := s.release(at); ok {
				left = append(left, departure{handle: f.handle, at: time.Duration(at)})
			}
		}
	}
	for i, a := range arrivals {
		leave(int64(a.at))
		if !s.offer(int64(a.at), a.flow, uint32(i), a.wire) {
			dropped = append(dropped, uint32(i))
		}
	}
	leave(math.MaxInt64)
	return left, dropped
}

func TestShaper(t *testing.T) {
	const rate = 8e6 // 1000 bytes take 1 ms; the queue is 128 KiB
	for name, c := range map[string]struct {
		arrivals []shapeArrival
		left     []departure
		dropped  []uint32
	}{
		"one flow, one after the other": {
			[]shapeArrival{{0, 1, 1000}, {0, 1, 500}, {10 * ms, 1, 1000}},
			[]departure{{0, 1 * ms, false}, {1, 1500 * us, false}, {2, 11 * ms, false}}, nil,
		},
		"two flows do not delay each other": {
			[]shapeArrival{{0, 1, 3000}, {0, 2, 1000}, {1 * ms, 2, 1000}},
			[]departure{{1, 1 * ms, false}, {2, 2 * ms, false}, {0, 3 * ms, false}}, nil,
		},
		"equals leave in the order in which they came": {
			[]shapeArrival{{0, 3, 1000}, {0, 1, 1000}, {0, 2, 1000}},
			[]departure{{0, 1 * ms, false}, {1, 1 * ms, false}, {2, 1 * ms, false}}, nil,
		},
		"what is of no flow does not wait": {
			[]shapeArrival{{0, 1, 1000}, {500 * us, 0, 60}, {500 * us, 0, 60}},
			[]departure{{1, 500 * us, false}, {2, 500 * us, false}, {0, 1 * ms, false}}, nil,
		},
		"each flow has its own queue": {
			[]shapeArrival{{0, 1, 131_072}, {0, 1, 1}, {0, 2, 1000}, {1 * ms, 1, 1000}, {1 * ms, 1, 1}},
			[]departure{{2, 1 * ms, false}, {0, 131_072 * us, false}, {3, 132_072 * us, false}}, []uint32{1, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			left, dropped := shape(newShaper(Direction{PerFlowRateBitsPerSecond: rate}, 16), c.arrivals)
			if !reflect.DeepEqual(left, c.left) {
				t.Errorf("left\n%v\nwant\n%v", left, c.left)
			}
			if !reflect.DeepEqual(dropped, c.dropped) {
				t.Errorf("dropped %v, want %v", dropped, c.dropped)
			}
		})
	}
}

func drawShapeArrivals(t *rapid.T) []shapeArrival {
	arrivals := make([]shapeArrival, rapid.IntRange(1, 300).Draw(t, "frames"))
	at := time.Duration(0)
	for i := range arrivals {
		at += time.Duration(rapid.IntRange(0, 500_000).Draw(t, "gap"))
		arrivals[i] = shapeArrival{at, flowKey(rapid.Uint64Range(0, 6).Draw(t, "flow")) * 0x10001, rapid.IntRange(14, 70_000).Draw(t, "bytes")}
	}
	return arrivals
}

// The shaper does to each flow what a line of that rate does that the flow has
// to itself: the same frames leave at the same times, and the same are dropped.
func TestShaperIsALinePerFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1e6, 1e11).Draw(t, "rate")
		arrivals := drawShapeArrivals(t)
		left, dropped := shape(newShaper(Direction{PerFlowRateBitsPerSecond: rate}, len(arrivals)), arrivals)
		if len(left)+len(dropped) != len(arrivals) {
			t.Fatalf("%d left and %d were dropped of %d", len(left), len(dropped), len(arrivals))
		}
		if !slices.IsSortedFunc(left, func(a, b departure) int { return int(a.at - b.at) }) {
			t.Fatalf("frames left out of their time: %v", left)
		}
		byFlow := make(map[flowKey][]int)
		for i, a := range arrivals {
			byFlow[a.flow] = append(byFlow[a.flow], i)
		}
		for flow, own := range byFlow {
			direction := Direction{RateBitsPerSecond: rate}
			if flow == 0 {
				direction = Direction{}
			}
			var alone []arrival
			for _, i := range own {
				alone = append(alone, arrival{arrivals[i].at, arrivals[i].wire})
			}
			wantLeft, wantDropped := carry(newLine(direction, 1, 0, len(own)), alone)
			var gotLeft []departure
			for _, d := range left {
				if arrivals[d.handle].flow == flow {
					gotLeft = append(gotLeft, departure{handle: uint32(slices.Index(own, int(d.handle))), at: d.at})
				}
			}
			if !slices.Equal(gotLeft, wantLeft) {
				t.Fatalf("flow %x left\n%v\nalone on a line\n%v", flow, gotLeft, wantLeft)
			}
			var gotDropped []uint32
			for _, i := range dropped {
				if arrivals[i].flow == flow {
					gotDropped = append(gotDropped, uint32(slices.Index(own, int(i))))
				}
			}
			if !slices.Equal(gotDropped, wantDropped) {
				t.Fatalf("flow %x lost %v, alone on a line %v", flow, gotDropped, wantDropped)
			}
		}
	})
}

// A thread that wakes up late is told when each frame had been sent.
func TestShaperReleasedLate(t *testing.T) {
	s := newShaper(Direction{PerFlowRateBitsPerSecond: 8e6}, 4)
	for i, flow := range []flowKey{1, 2, 1} {
		if !s.offer(0, flow, uint32(i), 1000*(i+1)) {
			t.Fatalf("frame %d was refused", i)
		}
	}
	var got []departure
	for {
		f, ok := s.release(int64(time.Hour))
		if !ok {
			break
		}
		got = append(got, departure{handle: f.handle, at: time.Duration(f.due)})
	}
	if want := []departure{{0, 1 * ms, false}, {1, 2 * ms, false}, {2, 4 * ms, false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

// What a shaper remembers is bounded: flows with a backlog keep their places,
// a flow that finds none is refused, and a place is free again in time.
func TestShaperBounds(t *testing.T) {
	s := newShaper(Direction{PerFlowRateBitsPerSecond: 8e6}, flowWays+2)
	for i := range flowWays {
		if !s.offer(0, flowKey(1+i*flowSets), uint32(i), 1000*(i+1)) {
			t.Fatalf("flow %d was refused", i)
		}
	}
	if s.offer(0, flowKey(1+flowWays*flowSets), 99, 1000) {
		t.Error("a flow was admitted that there is no place for")
	}
	if !s.offer(0, flowKey(1+3*flowSets), 98, 1000) {
		t.Error("a flow that has a place was refused")
	}
	if !s.offer(int64(ms), flowKey(1+flowWays*flowSets), 97, 1000) {
		t.Error("the place of a flow without a backlog was not given on")
	}
	if s.offer(int64(ms), 0, 96, 60) {
		t.Error("the shaper took more frames than it has room for")
	}
}

func TestShaperAllocatesNothing(t *testing.T) {
	s := newShaper(Direction{PerFlowRateBitsPerSecond: 1e9}, 4096)
	packet := packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(1, 2))
	now, n := int64(0), 0
	allocations := testing.AllocsPerRun(10_000, func() {
		now += 1000
		n++
		packet[14+20] = byte(n)
		s.offer(now, flowOf(packet, 1), 1, 1514)
		for {
			if _, ok := s.release(now); !ok {
				break
			}
		}
		s.next()
	})
	if allocations != 0 {
		t.Errorf("%v allocations per frame, want none", allocations)
	}
}
