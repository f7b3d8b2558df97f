package words

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// Where says where the endpoints and paths of a run on hosts were, and how it was proven
// that its trials took them; nothing of a run in a lab.
func Where(r *result.Result) []string {
	out := ends(r.Testbed)
	for _, p := range r.Testbed.Paths {
		out = append(out, p.Name+": "+place(p)+switches(r, p))
	}
	return out
}

const (
	// fewEnds have a line each.
	fewEnds = 8
	// mostKinds bounds how many kinds of machine have a line, and mostDiffering how many
	// say in what they differ.
	mostKinds     = 8
	mostDiffering = 3
	// namedEnds is how many machines of a kind are named.
	namedEnds = 3
)

// ends says what the ends are. Of many those that are alike have one line, and those are
// compared that stand for the rest of their kind, with the most frequent one.
func ends(t result.Testbed) (out []string) {
	if len(t.Endpoints) <= fewEnds {
		for _, e := range t.Endpoints {
			out = append(out, e.Name+": "+endpoint(e))
		}
		return append(out, endsDiffer(t.Endpoints)...)
	}
	type alike struct {
		ends []result.TestbedEndpoint
		text string
	}
	var kinds []alike
	index := map[string]int{}
	for _, e := range t.Endpoints {
		unnamed := e
		unnamed.Host = ""
		key := fmt.Sprint(endpoint(unnamed), settings(e.Environment))
		i, known := index[key]
		if !known {
			i = len(kinds)
			index[key] = i
			kinds = append(kinds, alike{text: endpoint(unnamed)})
		}
		kinds[i].ends = append(kinds[i].ends, e)
	}
	slices.SortStableFunc(kinds, func(a, b alike) int { return len(b.ends) - len(a.ends) })
	for _, k := range kinds[:min(len(kinds), mostKinds)] {
		var names []string
		for _, e := range k.ends[:min(len(k.ends), namedEnds)] {
			names = append(names, e.Name)
		}
		text := strings.Join(names, ", ")
		if more := len(k.ends) - len(names); more > 0 {
			text = fmt.Sprintf("%s, %s and %d more", quantity.Count(len(k.ends), "machine"), text, more)
		}
		out = append(out, text+": "+k.text)
	}
	if more := len(kinds) - mostKinds; more > 0 {
		machines := 0
		for _, k := range kinds[mostKinds:] {
			machines += len(k.ends)
		}
		out = append(out, fmt.Sprintf("%s of %s more: result.json has them", quantity.Count(machines, "machine"), quantity.Count(more, "kind")))
	}
	if t.MoreEndpoints > 0 {
		out = append(out, fmt.Sprintf("%s more, without further details in the result", quantity.Count(t.MoreEndpoints, "machine")))
	}
	for _, k := range kinds[1:min(len(kinds), mostDiffering+1)] {
		out = append(out, endsDiffer([]result.TestbedEndpoint{kinds[0].ends[0], k.ends[0]})...)
	}
	return out
}

// reaches say how an endpoint was reached.
var reaches = map[string]string{
	"local": "in the process of the run",
	"tls":   "an agent reached over TLS",
	"ssh":   "an agent started over ssh",
	"serve": "a server that was there, which reports little about itself",
	"fleet": "joined the fleet",
}

func endpoint(e result.TestbedEndpoint) string {
	var parts []string
	if e.Host != "" {
		parts = append(parts, "host "+e.Host)
	}
	for _, key := range []string{"machine", "cloud", "platform", "kernel", "cpu_model", "cpus"} {
		switch v := e.Environment[key]; {
		case v == "":
		case key == "cpus":
			parts = append(parts, v+" CPUs")
		case key == "kernel":
			parts = append(parts, "kernel "+v)
		default:
			parts = append(parts, v)
		}
	}
	if e.Version != "" {
		parts = append(parts, "hopbench "+e.Version)
	}
	if e.EgressBitsPerSecond > 0 {
		parts = append(parts, "egress "+quantity.Format(e.EgressBitsPerSecond, measurement.BitsPerSecond))
	}
	if how := reaches[e.Reach]; how != "" {
		parts = append(parts, how)
	}
	return strings.Join(parts, ", ")
}

// endsDiffer says in which settings the ends differ that say theirs.
func endsDiffer(ends []result.TestbedEndpoint) (out []string) {
	for i, a := range ends {
		for _, b := range ends[i+1:] {
			is, other := settings(a.Environment), settings(b.Environment)
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(is)) {
				if v, known := other[name]; known && v != is[name] {
					parts = append(parts, fmt.Sprintf("%s (%s, and %s)", name, is[name], v))
				}
			}
			if len(parts) > 0 {
				out = append(out, fmt.Sprintf("%s and %s differ in %s", a.Name, b.Name, strings.Join(parts, ", ")))
			}
		}
	}
	return out
}

// settings are those of an environment that bear on what an end measures, and of its
// network interface where it has only one.
func settings(environment map[string]string) map[string]string {
	out, nics := map[string]string{}, 0
	for key, v := range environment {
		name, nic := strings.CutPrefix(key, "nic_")
		switch _, of, attribute := strings.Cut(name, "_"); {
		case nic && attribute:
			out["NIC "+of] = v
		case nic:
			nics++
			out["NIC"] = v
		case strings.HasPrefix(key, "net."), key == "clock_source":
			out[key] = v
		}
	}
	if nics > 1 {
		maps.DeleteFunc(out, func(name, _ string) bool { return strings.HasPrefix(name, "NIC") })
	}
	return out
}

// proofs say what proves of a trial that it took its path.
var proofs = map[result.PathProof]string{
	result.ProofTrace: "a trace before each trial had to show what the first did",
	result.ProofTraceBack: "the source did not trace it: before each trial a trace back from the destination had to show what the first did, which proves only the reverse path; " +
		"for the forward path, packets had to arrive with the same TTL",
	result.ProofTTL: "packets of each trial had to arrive with the TTL of the first",
}

func place(p result.TestbedPath) string {
	text := "to " + p.To
	if p.Listen != "" {
		text += ", which is " + p.Listen + " at the destination"
	}
	if p.From != "" {
		text += ", from " + p.From
	}
	if p.Device != "" {
		text += ", by interface " + p.Device
	}
	if p.DSCP > 0 {
		text += fmt.Sprintf(", with DSCP %d", p.DSCP)
	}
	if proof := proofs[p.Proof]; proof != "" {
		text += "; " + proof
	}
	return text
}

// switches says how a path was brought into force.
func switches(r *result.Result, p result.TestbedPath) string {
	if len(p.Set) == 0 {
		return ""
	}
	text := "; in force with " + strings.Join(Settings(p.Set, " "), ", ")
	var took []float64
	proof := ""
	for i := range r.Trials {
		f := r.Trials[i].Fingerprint
		if r.Trials[i].Path != p.Name || f == nil || f.Switch == nil || !f.Switched {
			continue
		}
		took = append(took, float64(f.Switch.Took))
		proof = f.Switch.Proof
	}
	if len(took) == 0 {
		return text
	}
	slices.Sort(took)
	text += fmt.Sprintf(", switched to %s in %s (median)", quantity.Count(len(took), "time"), quantity.Format(took[len(took)/2], measurement.SecondsUnit))
	if proof == "none" {
		return text + "; NOT PROVEN to be in force: a switch that does nothing would look like a hop that costs nothing"
	}
	return text + ", proven by " + proof
}

// EnvironmentName is what a key of an environment is called: plain words, but for a setting of
// the kernel, which keeps the name under which sysctl(8) knows it.
func EnvironmentName(key string) string {
	if strings.HasPrefix(key, "sysctl ") {
		return key
	}
	return strings.ReplaceAll(key, "_", " ")
}
