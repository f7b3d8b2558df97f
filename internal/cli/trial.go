package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/trace"
	"github.com/hopbench/hopbench/internal/quantity"
)

// printTrial prints what one test of `hopbench test` brought back, in a form
// that can be pasted into a ticket.
func printTrial(w io.Writer, test measurement.TestInfo, t measurement.Trial) {
	m := t.Metrics
	switch {
	case !t.Gate.Passed:
		fmt.Fprintf(w, "  %-9s does not count\n", test.Title)
	case test.Spec.Kind == measurement.Trace:
		fmt.Fprintf(w, "  %-9s %s, %d of them silent\n%s", test.Title, quantity.Count(int(m["hops_count"]), "hop"), int(m["silent_hops_count"]), indent(trace.Format(t.Hops)))
	case test.Spec.Kind == measurement.TCP:
		fmt.Fprintf(w, "  %-9s %s received   %s   RTT under load %s\n", test.Title,
			formatRate(m["goodput_bits_per_second"]), quantity.Count(int(m["retransmitted_segments"]), "retransmit"), formatTime(measurement.Seconds(m["tcp_rtt_mean_seconds"])))
	case t.Latency != nil:
		fmt.Fprintf(w, "  %-9s RTT min %s   p50 %s   mean %s", test.Title,
			formatTime(t.Latency.Min), formatTime(measurement.Seconds(m["rtt_p50_seconds"])), formatTime(t.Latency.Mean))
		for _, p := range t.Latency.Percentiles {
			if p.Percent == 99 || p.Percent == 99.9 {
				fmt.Fprintf(w, "   p%g %s", p.Percent, formatTime(p.Value))
			}
		}
		fmt.Fprintf(w, "   max %s   (%s)\n", formatTime(t.Latency.Max), quantity.Count(int(t.Latency.Samples), "round trip"))
	}
	for _, c := range t.Gate.Checks {
		fmt.Fprintf(w, "            %s: %s\n", c.Name, c.Reason)
	}
	for _, fact := range t.Facts {
		fmt.Fprintf(w, "            note: %s\n", fact)
	}
}

func formatRate(bitsPerSecond float64) string {
	return quantity.Format(bitsPerSecond, measurement.BitsPerSecond)
}

func formatTime(s measurement.Seconds) string {
	return quantity.Format(float64(s), measurement.SecondsUnit)
}

// indent puts eight spaces before every line.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("        " + line)
	}
	return b.String()
}
