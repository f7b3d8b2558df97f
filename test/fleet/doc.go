// Package fleet has the parts of a fleet fail while it measures: agents, their connections and
// networks, the coordinator with its broker, nodes of a NATS cluster, and the disk, in labs in
// which each machine has a namespace. `make test-kill-fleet SEEDS=1000` does so at length.
package fleet
