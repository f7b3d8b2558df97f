package gate

import "github.com/hopbench/hopbench/internal/measurement"

// instrument refuses a trial that was measured in another way than the first of its
// test: the difference of the two would be that of the ways as well as of the paths.
func (j *judge) instrument() {
	for _, key := range measurement.Instrument() {
		first, known := j.limits.Instrument[key]
		if now, ok := j.outcome.Effective[key]; known && ok && now != first {
			j.fail("instrument", "%s was %q, and %q in the first trial of this test: what differs is not the path alone; %s", key, now, first, remedy(key))
		}
	}
}

// remedy says what has all trials of a test measured in the same way.
func remedy(key string) string {
	switch key {
	case "placement":
		return "let both ends use the same CPUs for the whole run"
	case "source_wait", "destination_wait":
		return "leave spin out, or leave the CPUs that it needs free for the whole run"
	case "flow_scheduling", "receive_wait":
		return "let both ends have more threads (ulimit -u), or use fewer flows"
	case "send_method":
		return "set send_method: copy for the test, which every path can do"
	case "receive_method":
		return "set copy_payload: true for the test, which every system can do"
	case "gso", "gro":
		return "set " + key + ": off for the test, which every path can do"
	}
	return "run all trials on hosts with the same system"
}
