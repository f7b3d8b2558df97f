package measurement

import "math"

// normal95 is the two-sided 95 % quantile of the standard normal.
const normal95 = 1.959963984540054

// ShareInterval is the 95 % interval of the share that part has of whole, both counts:
// Wilson's score interval (J. Amer. Stat. Assoc. 22, 1927), which is sound for a part of
// 0 as well. It takes each of the whole as independent; losses come in clusters, so that
// the truth may lie further off.
func ShareInterval(part, whole float64) (low, high float64) {
	if !(whole > 0) {
		return 0, 1
	}
	p, z2 := part/whole, normal95*normal95
	middle := p + z2/(2*whole)
	half := normal95 * math.Sqrt(p*(1-p)/whole+z2/(4*whole*whole))
	low, high = (middle-half)/(1+z2/whole), (middle+half)/(1+z2/whole)
	if part == 0 {
		low = 0 // but for rounding
	}
	return max(low, 0), min(high, 1)
}

// LossOf is how many packets or requests were sent in the measured time of a test, of
// which loss_fraction is a share; false where that is not known.
func (o Outcome) LossOf(spec Spec) (whole float64, ok bool) {
	loss, ok := o.Metrics["loss_fraction"]
	if !ok || !(loss >= 0 && loss < 1) {
		return 0, false
	}
	var arrived float64
	switch spec.Kind {
	case UDP, PPS:
		arrived = o.PacketsOf(spec)
	default:
		if o.Latency == nil {
			return 0, false
		}
		arrived = float64(o.Latency.Samples)
	}
	whole = arrived / (1 - loss)
	return whole, whole >= 1
}

// PacketsOf is how many packets arrived of those that were sent in the measured time of a test
// of datagrams. Its rates are over that time, or over that in which packets arrived where a queue
// held them up: as much longer as the goodput is below what was sent, less the loss.
func (o Outcome) PacketsOf(spec Spec) float64 {
	m := o.Metrics
	perSecond := m["received_packets_per_second"] + m["packets_per_second"]
	goodput, known := m["goodput_bits_per_second"]
	if !known {
		goodput = perSecond * float64(spec.PacketBytes) * 8
	}
	longer := 1.0
	if goodput > 0 && spec.Tool == Native { // iperf3 counts each in a time of its own
		longer = max(m["sent_bits_per_second"]*(1-m["loss_fraction"])/goodput, 1)
	}
	return perSecond * float64(spec.Duration) * longer
}
