package words

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Fingerprint is what a trial saw of its path, in a line.
func Fingerprint(f *measurement.Fingerprint) string {
	var parts []string
	if len(f.Hops) > 0 {
		parts = append(parts, traced(f.Hops))
		if f.TracedBack {
			parts[0] += " on the reverse path"
		}
	}
	if len(f.OuterHops) > 0 {
		if len(parts) > 0 {
			parts[0] += " inside the tunnel"
		}
		parts = append(parts, traced(f.OuterHops)+" below the tunnel")
	}
	for _, x := range []struct {
		format string
		value  int64
	}{{"TTL %d on arrival", int64(f.ReceivedTTL)}, {"path MTU %d" + NBSP + "B", f.PathMTU}, {"MSS %d" + NBSP + "B", f.MSS}} {
		if x.value > 0 {
			parts = append(parts, fmt.Sprintf(x.format, x.value))
		}
	}
	if f.Switched {
		parts = append(parts, "switched in place, "+Time(f.Settle)+" to settle")
	}
	if w := f.Switch; w != nil {
		parts = append(parts, Settings(w.Set, " at ")...)
		parts = append(parts, "proof "+w.Proof+" in "+Time(w.Took))
	}
	if !f.Matches && f.Why != nil {
		parts = append(parts, "not the planned path: "+difference(*f.Why))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// traced is what a trace saw, hop by hop; * is a silent one.
func traced(hops []measurement.TraceHop) string {
	addresses := make([]string, len(hops))
	for i, h := range hops {
		addresses[i] = cmp.Or(h.Address, "*")
	}
	return strings.Join(addresses, " → ")
}
