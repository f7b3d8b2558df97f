package message

import "net/netip"

// Death is why a lab broke when one of its processes ended.
type Death struct {
	// Process is what ended, as in "link emulator a:x--b:y" or "node a", and Status how,
	// as in "was killed by signal 9 (killed)".
	Process string `json:"process"`
	Status  string `json:"status"`
	// Node is where the process was, or where the link begins whose link emulator it
	// was; Interface and Address are then those of that end.
	Node      string     `json:"node"`
	Interface string     `json:"interface,omitempty"`
	Address   netip.Addr `json:"address,omitzero"`
}

// Error is one clause without the lab's name for the hop.
func (d *Death) Error() string { return d.Process + " " + d.Status }
