package gate

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
)

// localDropsOfStreams warns of packets that the hosts lost themselves, where they are
// a notable share of the segments that TCP sent again.
func (j *judge) localDropsOfStreams() {
	var again float64
	for _, flow := range j.outcome.Flows {
		if flow.Final != nil {
			again += float64(flow.Final.Retransmits)
		}
	}
	if f := j.dropped(); f.Dropped > 0 && again > 0 && f.Dropped >= localDropsMatter*again {
		f.Code, f.Lost = measurement.FoundDrops, again
		j.warn("local-drops", f)
	}
}

// localDrops warns of packets that the hosts lost themselves, where they are a
// notable share of all that were lost: then the hosts were measured and not the
// path. A search overloads on purpose; there those count that were lost at the rate that
// was found and at the one that ended the search, which may have been a host.
func (j *judge) localDrops(loss, received float64) {
	f := j.dropped()
	lost := received * loss / (1 - loss)
	switch {
	case f.Dropped == 0:
		return
	case j.spec.LossBound > 0 && f.Dropped < localDropsMatter*j.lostAtTheEnd():
		return
	case j.spec.LossBound > 0:
		f.Code = measurement.FoundDropsOfSearch
	case loss >= 1:
		f.Code = measurement.FoundDropsOfAll
	case loss > 0 && f.Dropped >= localDropsMatter*lost:
		f.Code, f.Lost = measurement.FoundDrops, lost
	default:
		return
	}
	j.warn("local-drops", f)
}

// lostAtTheEnd is how many packets were lost at the rate that ended a search, the lowest
// that failed; 0 where none did.
func (j *judge) lostAtTheEnd() float64 {
	var lowest measurement.LossStep
	for _, s := range j.outcome.LossSearch {
		if s.Loss > j.spec.LossBound && (lowest.OfferedBitsPerSecond == 0 || s.OfferedBitsPerSecond < lowest.OfferedBitsPerSecond) {
			lowest = s
		}
	}
	return lowest.Loss * float64(lowest.Packets)
}

// dropped is how many packets the ends lost themselves, and where. What two ends
// on one host both report is one counter of that host, seen twice: not at the same
// moments, so that the two may differ, and the larger one counts.
func (j *judge) dropped() (f measurement.Finding) {
	source, destination := j.outcome.Source, j.outcome.Destination
	add := func(end string, d measurement.Drop) {
		f.Dropped += d.Packets
		f.Drops = append(f.Drops, measurement.EndDrop{End: end, Place: d.Place, Packets: d.Packets})
	}
	shared := func(d measurement.Drop) bool {
		return source.SameNetwork(destination) || d.HostWide && source.SameHost(destination)
	}
	for _, d := range source.Drops {
		end := "source"
		if shared(d) {
			end = "both"
		}
		add(end, d)
	}
	for _, d := range destination.Drops {
		at := slices.IndexFunc(source.Drops, func(s measurement.Drop) bool { return s.Place == d.Place && s.HostWide == d.HostWide })
		if !shared(d) || at < 0 {
			add("destination", d)
		} else if more := d.Packets - source.Drops[at].Packets; more > 0 {
			f.Dropped += more
			f.Drops[at].Packets = d.Packets
		}
	}
	if f.Dropped == 0 {
		return measurement.Finding{Dropped: j.outcome.Metrics["dropped_packets_count"]}
	}
	return f
}
