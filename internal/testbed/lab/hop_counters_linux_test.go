package lab

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

const wires = `
  - name: delayed
    hops:
      - {type: link, name: peering, delay: 1ms}
  - name: behind
    hops:
      - {type: link, name: access, delay: 1ms}
      - {type: router, name: hop}
  - name: accounted
    hops:
      - {type: router, name: hop, measure_kernel_cpu: true}
`

// A path of link emulators alone has counters, too: those of its link, and the time of
// the process that the link is, if it does anything to frames.
func TestLinksCount(t *testing.T) {
	l := labOf(t, wires)
	spec := measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.3, MaxWarmup: 0.05}
	type processor struct{ process, kernel bool } // whose time is known
	for path, hops := range map[string]map[string]processor{
		"direct":    {"link": {}},
		"delayed":   {"peering": {process: true}},
		"behind":    {"access": {process: true}, "hop": {}},
		"accounted": {"hop": {kernel: true}},
	} {
		out := l.measure(t, path, spec)
		if len(out.HopSeries) != len(hops) {
			t.Errorf("%s: series %+v", path, out.HopSeries)
		}
		var received float64
		for _, n := range out.Throughput.Bytes {
			received += n
		}
		for _, s := range out.HopSeries {
			last := s.Samples[len(s.Samples)-1]
			want, known := hops[s.Name]
			if !known || want != (processor{last.CPU > 0, last.KernelCPU > 0}) {
				t.Errorf("%s: %s took %v s of a processor, the kernel in it %v s", path, s.Name, last.CPU, last.KernelCPU)
			}
			if all := out.LabCPU[len(out.LabCPU)-1].Busy; last.KernelCPU > all {
				t.Errorf("%s: the kernel took %v s in %s, all processors %v s", path, last.KernelCPU, s.Name, all)
			}
			// Every packet has 66 bytes of headers at least; what the receiver
			// confirmed has passed before the last reading.
			if payload := last.ForwardBytes - 66*last.ForwardPackets; payload < received || last.BackwardPackets == 0 {
				t.Errorf("%s: %s counted %.0f bytes of payload and %.0f packets back, %.0f bytes were received", path, s.Name, payload, last.BackwardPackets, received)
			}
			if last.Connections != nil {
				t.Errorf("%s: %s has a connection table", path, s.Name)
			}
		}
	}
}

const ruleSets = `
  - name: few-rules
    hops:
      - {type: firewall, name: fw, rules: 1, measure_kernel_cpu: true}
  - name: many-rules
    hops:
      - {type: firewall, name: fw, rules: 20000, measure_kernel_cpu: true}
`

// A firewall compares every packet of a flow that nobody has answered yet with all
// its rules, and that is what its CPU time shows.
func TestRulesCostProcessorTime(t *testing.T) {
	l := labOf(t, ruleSets)
	spec := measurement.Spec{Kind: measurement.UDP, Flows: 1, Duration: 1, MaxWarmup: 0.05, RateBitsPerSecond: 20e6, PacketBytes: 200}
	each := make(map[string]float64) // seconds a packet
	for _, path := range []string{"few-rules", "many-rules"} {
		out := l.measure(t, path, spec)
		samples := out.HopSeries[0].Samples
		last := samples[len(samples)-1]
		each[path] = float64(last.KernelCPU) / (last.ForwardPackets + last.BackwardPackets)
	}
	if few, many := each["few-rules"], each["many-rules"]; few <= 0 || many < 5*few {
		t.Errorf("with one rule a packet takes %.3g s, with 20000 %.3g s", few, many)
	}
}
