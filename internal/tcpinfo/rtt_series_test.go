package tcpinfo

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestRTTMeter(t *testing.T) {
	m := NewRTTMeter(time.Second, mostRTTSlots)
	var group sync.WaitGroup
	for range 4 { // flows are sampled by different goroutines
		group.Go(func() {
			for i := range 100 {
				m.add(&measurement.TCPInfo{At: measurement.Seconds(i) * 0.01, RTT: measurement.Seconds(i/10+1) * 1e-3})
			}
		})
	}
	group.Wait()
	m.add(&measurement.TCPInfo{At: 99, RTT: 1}) // long after the end
	m.add(&measurement.TCPInfo{At: -1, RTT: 1})
	m.add(&measurement.TCPInfo{At: 0.1})
	series := m.Series(nil)
	if len(series) != 10 {
		t.Fatalf("%d slots: %v", len(series), series)
	}
	for i, s := range series {
		if math.Abs(float64(s.At)-(float64(i)*0.1+0.05)) > 1e-9 || math.Abs(float64(s.RTT)-float64(i+1)*1e-3) > 1e-4 {
			t.Errorf("slot %d is %+v", i, s)
		}
	}
}

// A day's test has as few slots as a minute's; what only the other end sampled
// is taken from the flows.
func TestRTTMeterOfLongTests(t *testing.T) {
	m := NewRTTMeter(24*time.Hour, mostRTTSlots)
	if len(m.slots) > mostRTTSlots+1 || m.width < time.Minute {
		t.Errorf("%d slots of %v", len(m.slots), m.width)
	}
	series := m.Series([]measurement.Flow{{Info: []measurement.TCPInfo{{At: 1, RTT: 0.5}}}, {Info: []measurement.TCPInfo{{At: 2, RTT: 1.5}}}})
	if len(series) != 1 || series[0].RTT != 1 {
		t.Errorf("series %v", series)
	}
}
