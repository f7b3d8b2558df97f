package gate

import (
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
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
	if n := j.mostJoined(); n > 1 {
		f.Count = n
	}
	switch {
	case f.Dropped == 0:
		return
	case j.spec.LossBound > 0 && !dropsMatter(f, j.lostAtTheEnd()):
		return
	case j.spec.LossBound > 0:
		f.Code = measurement.FoundDropsOfSearch
	case loss >= 1:
		f.Code = measurement.FoundDropsOfAll
	case loss > 0 && dropsMatter(f, lost):
		f.Code, f.Lost = measurement.FoundDrops, lost
	default:
		return
	}
	j.warn("local-drops", f)
}

// dropsMatter says that what the hosts dropped is a notable share of the lost packets, or would
// be most of them if all were joined.
func dropsMatter(f measurement.Finding, lost float64) bool {
	return f.Dropped >= localDropsMatter*lost || f.Dropped*float64(f.Count) >= joinedExplain*lost
}

// mostJoined is how many packets of a test of datagrams a host may drop and count as one:
// its kernel joins those that it receives (UDP_GRO), and cuts those that it sends as late as it
// can (UDP_SEGMENT).
func (j *judge) mostJoined() int {
	e := j.outcome.Effective
	if e["gro"] != string(measurement.On) && e["gso"] != string(measurement.On) {
		return 1
	}
	smallest, _, _ := strings.Cut(e["packet_bytes"], "..")
	size, err := strconv.Atoi(smallest)
	if err != nil || size <= 0 {
		return 1
	}
	return min(kind.MaxDatagramBytes/size, mostSegments)
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

// dropped is how many packets the ends lost themselves, and where.
func (j *judge) dropped() (f measurement.Finding) {
	f.Drops = measurement.LocalDrops(j.outcome.Source, j.outcome.Destination)
	for _, d := range f.Drops {
		f.Dropped += d.Packets
	}
	if f.Dropped == 0 {
		return measurement.Finding{Dropped: j.outcome.Metrics["dropped_packets_count"]}
	}
	return f
}
