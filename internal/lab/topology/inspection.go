package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/idps"
)

// IDPS makes the link emulator of a link inspect what it carries.
type IDPS struct {
	Mode idps.Mode `json:"mode"` // at first
	// Rules names one of Topology.RuleFiles, empty for the built-in rules.
	Rules string `json:"rules,omitempty"`
}

// RuleDigests are the SHA-256 digests, in hexadecimal, of the rule files of the
// topology, by the names that the experiment gives them.
func (t Topology) RuleDigests() map[string]string {
	digests := make(map[string]string)
	for name, text := range t.RuleFiles {
		digests[name] = Digest([]byte(text))
	}
	return digests
}

// Digest is the SHA-256 digest of a rule file, in hexadecimal.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// idps checks the inspection of a link.
func (f *faults) idps(t Topology, l Link) {
	if l.IDPS == nil {
		return
	}
	if l.Emulation == nil {
		f.add("link %s inspects, which only a link emulator can", l.Name())
	}
	if !slices.Contains(idps.Modes(), l.IDPS.Mode) {
		f.add("link %s: no mode of inspection is called %q; there are %q", l.Name(), l.IDPS.Mode, idps.Modes())
	}
	if _, known := t.RuleFiles[l.IDPS.Rules]; l.IDPS.Rules != "" && !known {
		f.add("link %s: the topology lacks the rule file %s", l.Name(), l.IDPS.Rules)
	}
}

// String is the inspection as a part of a plan's line; nil is empty.
func (i *IDPS) String() string {
	switch {
	case i == nil:
		return ""
	case i.Rules == "":
		return fmt.Sprintf(", idps %s", i.Mode)
	}
	return fmt.Sprintf(", idps %s by %s", i.Mode, i.Rules)
}
