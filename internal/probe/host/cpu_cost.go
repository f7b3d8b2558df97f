package host

import "github.com/hopbench/hopbench/internal/measurement"

// AddCost fills in what a test over so many seconds, received bytes and, where
// packets were counted (not 0), packets cost the two hosts, from the ends in
// out. A test that counts neither gets its context switches alone. Ends that
// share a host are counted once, but for what they count in network namespaces
// of their own. A metric that one end cannot account for is absent.
func AddCost(out *measurement.Outcome, seconds, bytes, packets float64) {
	if seconds <= 0 {
		return
	}
	ends := []measurement.End{out.Source, out.Destination}
	if out.Source.SameHost(out.Destination) {
		ends = ends[:1]
	}
	var cpu, switches float64
	cpuKnown, switchesKnown := true, true
	for _, e := range ends {
		// Zero is less than the resolution, and a host always switches.
		cpuKnown = cpuKnown && e.CPUTime > 0
		switchesKnown = switchesKnown && e.ContextSwitches > 0
		cpu += float64(e.CPUTime)
		switches += e.ContextSwitches
	}
	if cpuKnown && bytes > 0 {
		out.Metrics["cpu_seconds_per_byte"] = cpu / bytes
	}
	if cpuKnown && packets > 0 {
		out.Metrics["cpu_seconds_per_packet"] = cpu / packets
	}
	if switchesKnown {
		out.Metrics["context_switches_per_second"] = switches / seconds
	}
	if out.Source.DropsCounted && out.Destination.DropsCounted && bytes+packets > 0 {
		out.Metrics["dropped_packets_count"] = localDrops(out.Source, out.Destination)
	}
}

// localDrops is how many packets two ends lost themselves, each once.
func localDrops(source, destination measurement.End) float64 {
	sum := 0.0
	for _, d := range source.Drops {
		sum += d.Packets
	}
	for _, d := range destination.Drops {
		counted := source.SameNetwork(destination)
		if d.HostWide {
			counted = source.SameHost(destination)
		}
		if !counted {
			sum += d.Packets
		}
	}
	return sum
}
