package gate

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

// packets judges a test of datagrams, of which as many arrived a second as a metric says.
func (j *judge) packets(metric string) {
	m := j.outcome.Metrics
	perSecond := m[metric]
	goodput, known := m["goodput_bits_per_second"]
	if !known {
		goodput = perSecond * float64(j.spec.PacketBytes) * 8
	}
	loss := m["loss_fraction"]
	if j.spec.LossBound > 0 {
		j.search()
	}
	switch {
	case loss >= 1:
		j.broken("loss", measurement.Finding{Code: measurement.FoundAllLost})
	case goodput <= 0 && j.spec.LossBound == 0:
		j.either(j.spare(), "receiver-confirmed", measurement.Finding{Code: measurement.FoundNoPackets})
	}
	received := j.outcome.PacketsOf(j.spec)
	j.localDrops(loss, received)
	if goodput <= 0 || loss >= 1 {
		return
	}
	if len(j.outcome.Flows) > 0 {
		j.flows(j.spec.Flows)
	}
	// iperf3 counts bytes at the receiver and need not say how many packets.
	if perSecond > 0 && received < minimumPackets {
		few := measurement.Finding{Code: measurement.FoundFewPackets, Count: int(math.Round(received)), Needed: minimumPackets}
		if sent := received / (1 - loss); sent < minimumPackets {
			j.warn("enough-packets", few) // the rate was too low for the time; it is a rate all the same
		} else {
			few.Of = int(math.Round(sent)) // the path lost the others, perhaps because it carries no more
			if j.limits.FewWarn || j.filled((goodput+perSecond*headersBytes*8)*(received+1)/received) {
				j.warn("enough-packets", few)
			} else {
				j.broken("enough-packets", few)
			}
		}
	}
	if j.spec.LossBound == 0 {
		j.duration(goodput)
	}
	j.oneWay(goodput + perSecond*headersBytes*8)
}

// search judges a search for the highest rate: the step that confirmed it, the last,
// must have kept to the bound. That one before it did says nothing of the rate reported.
func (j *judge) search() {
	if n := len(j.outcome.LossSearch); n > 0 {
		if last := j.outcome.LossSearch[n-1]; last.ReceivedBitsPerSecond > 0 && last.Loss <= j.spec.LossBound {
			return
		}
	}
	j.broken("loss-bound", measurement.Finding{Code: measurement.FoundAboveLossBound, Count: len(j.outcome.LossSearch), LossBound: j.spec.LossBound})
}
