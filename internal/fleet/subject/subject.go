// Package subject says what the fleets, agents, runs and seats may be called, and on which
// subjects of NATS each agent speaks with its coordinator: no two agents share one.
package subject

import (
	"fmt"
	"strings"
)

// maxName is the length of the longest name, in bytes.
const maxName = 63

// keyLength is that of the public half of an nkey: a prefix, 32 bytes and a checksum in
// base 32.
const keyLength = 56

// Agent is who an agent proved to be.
type Agent struct {
	Fleet string
	Name  string // of the machine, as it says itself
	Key   string // public half of the nkey that it drew, which it proved to have
}

// CheckName says why something cannot have a name: a name is one word of a subject or an
// address and never a wildcard.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, notInNames) {
		return fmt.Errorf("%q is no name: write 1 to %d letters, digits, hyphens and underscores", clip(name), maxName)
	}
	return nil
}

func notInNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// clip bounds what a message repeats of somebody else's.
func clip(text string) string {
	if len(text) > maxName {
		return text[:maxName] + "…"
	}
	return text
}

// Check says why nobody can be that agent.
func (a Agent) Check() error {
	if err := CheckName(a.Fleet); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if err := CheckName(a.Name); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if len(a.Key) != keyLength || a.Key[0] != 'U' || strings.ContainsFunc(a.Key, notInKeys) {
		return fmt.Errorf("%q is no public nkey of a user", clip(a.Key))
	}
	return nil
}

func notInKeys(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }

// What a subject of an agent is for.
const (
	join    = "join"
	command = "command"
	event   = "event"
)

// Join is where the agent says that it is there, Event where it says all else: nobody but it
// may write there. Command is what it reads, and nobody but it.
func (a Agent) Join() string    { return a.on(join) }
func (a Agent) Event() string   { return a.on(event) }
func (a Agent) Command() string { return a.on(command) }

// on is a subject of two words: the broker keeps some 0.4 KiB of each word of what an agent may
// read or write.
func (a Agent) on(what string) string { return fleetWord(a.Fleet, what) + "." + a.Name + "-" + a.Key }

// fleetWord is the first word of the subjects of all agents of a fleet. No two fleets share
// one: what a subject is for has no hyphen.
func fleetWord(fleet, what string) string { return "hopbench-" + fleet + "-" + what }

// Coordinator is where a fleet's coordinator at a cluster says that it is there.
func Coordinator(fleet string) string { return "hopbench." + fleet + ".coordinator" }

// Joins is what the coordinator of a fleet reads: Join of every agent.
func Joins(fleet string) string { return fleetWord(fleet, join) + ".*" }

// Events is what the coordinator of a fleet reads besides: Event of every agent.
func Events(fleet string) string { return fleetWord(fleet, event) + ".*" }

// WhoJoins is the agent of a subject of Joins.
func WhoJoins(subject string) (Agent, error) { return who(subject, join) }

// WhoReads is the agent whose Command a subject is.
func WhoReads(subject string) (Agent, error) { return who(subject, command) }

// who is the agent of a subject that is for that.
func who(subject, what string) (Agent, error) {
	first, machine, _ := strings.Cut(subject, ".")
	fleet, ours := strings.CutPrefix(first, "hopbench-")
	fleet, isFor := strings.CutSuffix(fleet, "-"+what)
	at := len(machine) - keyLength
	if !ours || !isFor || at < 1 || machine[at-1] != '-' {
		return Agent{}, fmt.Errorf("%q is no %s subject of an agent", clip(subject), what)
	}
	a := Agent{fleet, machine[:at-1], machine[at:]}
	if err := a.Check(); err != nil {
		return Agent{}, fmt.Errorf("%q is no %s subject of an agent: %w", clip(subject), what, err)
	}
	return a, nil
}
