package probe

import "github.com/hopbench/hopbench/internal/measurement"

// addCost fills in what a test over so many seconds, received bytes and, where
// packets were counted (not 0), packets cost the two hosts, from the ends in
// out. Ends that share a host are counted once.
func addCost(out *measurement.Outcome, seconds, bytes, packets float64) {
	ends := []measurement.End{out.Source, out.Destination}
	if out.Source.Host != "" && out.Source.Host == out.Destination.Host {
		ends = ends[:1]
	}
	var cpu, switches, drops float64
	known := true
	for _, e := range ends {
		known = known && e.CPUTime > 0
		cpu += float64(e.CPUTime)
		switches += e.ContextSwitches
		for _, d := range e.Drops {
			drops += d.Packets
		}
	}
	if !known || seconds <= 0 {
		return
	}
	if bytes > 0 {
		out.Metrics["cpu_seconds_per_byte"] = cpu / bytes
	}
	if packets > 0 {
		out.Metrics["cpu_seconds_per_packet"] = cpu / packets
	}
	out.Metrics["context_switches_per_second"] = switches / seconds
	out.Metrics["dropped_packets_count"] = drops
}
