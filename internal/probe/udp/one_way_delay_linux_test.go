package udp

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/protocol"
)

// oneClock has packets arrive so long after they were sent, the receiver having begun
// later, at two ends that have one clock, and tells what is made of that.
func oneClock(delays []time.Duration, later time.Duration, stamped bool) measurement.Metrics {
	began := time.Now()
	r := receiverOf(began.Add(later), stamped)
	times := make([]packetTime, len(delays))
	for i, d := range delays {
		at := time.Duration(i) * time.Millisecond
		times[i] = packetTime{at, at + d - later}
		if stamped {
			times[i].arrived += time.Duration(r.start.UnixNano())
		}
	}
	sent := protocol.Sent{MeasuredPackets: int64(len(delays)), Clock: clockAt(began, 0)}
	return metricsOf(&test{flows: []*flow{{Link: probetest.HonestLink(), sent: sent, received: r.takeAll(times, sent)}}})
}

// The one-way delay is the truth within the bound that is stated, whichever end began
// first, and by whichever of its clocks the receiver takes the times.
func TestOneWayDelayIsWithinItsBound(t *testing.T) {
	if clockAt(time.Now(), 0).ID == "" {
		t.Fatal("the clock that the processes of this machine share is not known")
	}
	r := rand.New(rand.NewPCG(16, 5))
	for i := range 400 {
		least := time.Duration((0.001 + 0.1*r.Float64()) * float64(time.Second))
		delays := make([]time.Duration, 101)
		for i := range delays {
			delays[i] = least
		}
		for i := range 30 { // of 101, so that the median stays
			delays[1+i] += time.Duration(r.Float64() * float64(50*time.Millisecond))
		}
		later := time.Duration((r.Float64() - 0.5) * float64(time.Second))
		m := oneClock(delays, later, i%2 == 0)
		for _, name := range []string{"one_way_delay_min_seconds", "one_way_delay_p50_seconds"} {
			bound := m["one_way_delay_bound_seconds"]
			if got, ok := m[name]; !ok || !(bound > 0) || math.Abs(got-least.Seconds()) > bound {
				t.Errorf("%s is %v s ± %v s, in truth %v", name, got, bound, least)
			}
		}
	}
}

// What the clocks do not tell is not said.
func TestOneWayDelayIsNotShown(t *testing.T) {
	at := func(id string, start int64, uncertainty measurement.Seconds) *protocol.Clock {
		return &protocol.Clock{ID: id, Start: start, Uncertainty: uncertainty}
	}
	packets := protocol.Packets{Received: 1, LeastDelay: 0.01}
	stepped := packets
	stepped.ClockStepped = true
	for name, c := range map[string]struct {
		from, to *protocol.Clock
		packets  protocol.Packets
		want     bool
	}{
		"one clock":                {at("a", 5, 0), at("a", 5, 0), packets, true},
		"two machines":             {at("a", 5, 0), at("b", 5, 0), packets, false},
		"a clock without a name":   {at("", 5, 0), at("", 5, 0), packets, false},
		"the sender says nothing":  {nil, at("a", 5, 0), packets, false},
		"the receiver neither":     {at("a", 5, 0), nil, packets, false},
		"before it was sent":       {at("a", 5e9, 0), at("a", 5, 0), packets, false},
		"a wide bound":             {at("a", 5, 0.3), at("a", 5, 0.3), packets, true},
		"a clock that was stepped": {at("a", 5, 0), at("a", 5, 0), stepped, false},
		"nothing came":             {at("a", 5, 0), at("a", 5, 0), protocol.Packets{}, false},
	} {
		m := metricsOf(&test{flows: []*flow{{
			Link: probetest.HonestLink(), sent: protocol.Sent{Clock: c.from}, received: protocol.Received{Clock: c.to, Packets: &c.packets},
		}}})
		if _, got := m["one_way_delay_p50_seconds"]; got != c.want {
			t.Errorf("%s: %v", name, m)
		}
	}
}
