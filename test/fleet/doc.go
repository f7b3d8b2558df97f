// Package fleet kills the parts of a fleet while it measures: agents, their connections and
// the coordinator, in a lab in which each machine has a namespace. `make test-kill-fleet
// SEEDS=100` does so at length.
package fleet
