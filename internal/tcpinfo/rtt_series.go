package tcpinfo

import (
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// RTTMeter averages the round-trip times that the kernel keeps of a test's
// flows in slots of time, whatever becomes of the samples.
type RTTMeter struct {
	width time.Duration

	mu    sync.Mutex
	slots []rttSlot
}

type rttSlot struct {
	sum     measurement.Seconds
	samples int
}

const (
	// leastRTTSlot is the narrowest slot, mostRTTSlots how many there are at most,
	// unless fewer are asked for.
	leastRTTSlot = 100 * time.Millisecond
	mostRTTSlots = 400
)

// NewRTTMeter is for a test that sends for total at most. It has so many slots at most, and
// one for what comes later.
func NewRTTMeter(total time.Duration, slots int) *RTTMeter {
	width := max(total/time.Duration(min(slots, mostRTTSlots)), leastRTTSlot)
	return &RTTMeter{width: width, slots: make([]rttSlot, total/width+1)}
}

// add counts a sample. It may be called on nil.
func (m *RTTMeter) add(info *measurement.TCPInfo) {
	if m == nil || info.RTT <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := int(info.At.Duration() / m.width); i >= 0 && i < len(m.slots) {
		m.slots[i].sum += info.RTT
		m.slots[i].samples++
	}
}

// Series are the means of the slots that have samples, at the slots' middles,
// once nothing samples any more. Where the other end sent, only what it kept of
// the flows' series tells.
func (m *RTTMeter) Series(flows []measurement.Flow) []measurement.PairRTT {
	if !slices.ContainsFunc(m.slots, func(s rttSlot) bool { return s.samples > 0 }) {
		for _, f := range flows {
			for _, info := range f.Info {
				m.add(&info)
			}
		}
	}
	var out []measurement.PairRTT
	for i, s := range m.slots {
		if s.samples > 0 {
			out = append(out, measurement.PairRTT{
				At:  measurement.SecondsOf(m.width*time.Duration(i) + m.width/2),
				RTT: s.sum / measurement.Seconds(s.samples),
			})
		}
	}
	return out
}
