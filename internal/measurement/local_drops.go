package measurement

import "slices"

// LocalDrops are the packets that two ends lost themselves, and where. What two ends on one
// host both report is one counter of that host, seen twice: not at the same moments, so that
// the two may differ, and the larger one counts.
func LocalDrops(source, destination End) (out []EndDrop) {
	shared := func(d Drop) bool {
		return source.SameNetwork(destination) || d.HostWide && source.SameHost(destination)
	}
	for _, d := range source.Drops {
		end := "source"
		if shared(d) {
			end = "both"
		}
		out = append(out, EndDrop{End: end, Place: d.Place, Packets: d.Packets})
	}
	for _, d := range destination.Drops {
		at := slices.IndexFunc(source.Drops, func(s Drop) bool { return s.Place == d.Place && s.HostWide == d.HostWide })
		if !shared(d) || at < 0 {
			out = append(out, EndDrop{End: "destination", Place: d.Place, Packets: d.Packets})
		} else {
			out[at].Packets = max(out[at].Packets, d.Packets)
		}
	}
	return out
}
