package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/idps"
)

// IDPS makes the cable of a link inspect what it carries.
type IDPS struct {
	Mode idps.Mode `json:"mode"` // at first
	// Rules names one of Topology.RuleFiles, empty for the built-in rules.
	Rules string `json:"rules,omitempty"`
}

// idps adds a node whose link towards the destination inspects.
func (w *walk) idps(hop experiment.Hop) error {
	rules, err := w.ruleFile(hop)
	if err != nil {
		return err
	}
	if err := w.router(hop); err != nil {
		return err
	}
	w.inspectRate = hop.InspectRateBitsPerSecond
	w.inspect = &IDPS{Mode: idps.Mode(hop.Mode), Rules: rules}
	return nil
}

// ruleFile reads and checks the rule file of a hop and enters it in the
// topology. It returns its name there, empty for the built-in rules.
func (l *layout) ruleFile(hop experiment.Hop) (string, error) {
	if hop.RuleFile == "" {
		return "", nil
	}
	if _, known := l.topology.RuleFiles[hop.RuleFile]; known {
		return hop.RuleFile, nil
	}
	set, text, err := loadRules(l.e, hop)
	if err != nil {
		return "", err
	}
	if len(set.Unsupported) > 0 {
		l.topology.Notes = append(l.topology.Notes, set.String())
	}
	if l.topology.RuleFiles == nil {
		l.topology.RuleFiles = make(map[string]string)
	}
	l.topology.RuleFiles[hop.RuleFile] = string(text)
	return hop.RuleFile, nil
}

// RuleDigests are the SHA-256 digests, in hexadecimal, of the rule files of the
// topology, by the names that the experiment gives them.
func (t Topology) RuleDigests() map[string]string {
	digests := make(map[string]string)
	for name, text := range t.RuleFiles {
		digests[name] = digest([]byte(text))
	}
	return digests
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ruleFilePath takes a rule file as relative to the experiment file.
func ruleFilePath(e *experiment.Experiment, hop experiment.Hop) string {
	if filepath.IsAbs(hop.RuleFile) {
		return hop.RuleFile
	}
	return filepath.Join(filepath.Dir(e.File), hop.RuleFile)
}

// RuleFileError is what is wrong with a rule file that an experiment names.
type RuleFileError struct {
	File string // of the experiment
	Line int    // of File, where it names the rule file
	Hop  string
	// Path of the rule file, and what is wrong with it: its mistakes have lines
	// of their own.
	Path  string
	Wrong error
}

func (e *RuleFileError) Error() string {
	text := fmt.Sprintf("%s:%d: the rule file of hop %q cannot be used", e.File, e.Line, e.Hop)
	var mistake idps.Mistake
	if errors.As(e.Wrong, &mistake) {
		return fmt.Sprintf("%s; mend its mistakes:\n%v", text, e.Wrong)
	}
	return fmt.Sprintf("%s: %v; name another, relative to the experiment file, or leave rule_file out for the built-in rules", text, e.Wrong)
}

func (e *RuleFileError) Unwrap() error { return e.Wrong }

// loadRules reads the rule file of a hop. A file without a single rule that can
// be loaded is refused: the hop would inspect nothing.
func loadRules(e *experiment.Experiment, hop experiment.Hop) (*idps.RuleSet, []byte, error) {
	path := ruleFilePath(e, hop)
	set, text, err := idps.Load(path)
	if err == nil && len(set.Rules) == 0 {
		err = errors.New(set.String())
	}
	if err != nil {
		return nil, nil, &RuleFileError{File: e.File, Line: hop.RuleFileLine, Hop: hop.Name, Path: path, Wrong: err}
	}
	return set, text, nil
}

// Rules are the rule files that an experiment names, once each.
type Rules struct {
	Sets    []*idps.RuleSet
	Digests map[string]string // as of Topology.RuleDigests
}

// RuleFiles reads and checks every rule file that e names. The error joins a
// *RuleFileError for each that cannot be used.
func RuleFiles(e *experiment.Experiment) (Rules, error) {
	rules := Rules{Digests: make(map[string]string)}
	var wrong []error
	seen := make(map[string]bool)
	for _, p := range e.Paths {
		for _, hop := range p.Hops {
			if hop.RuleFile == "" || seen[hop.RuleFile] {
				continue
			}
			seen[hop.RuleFile] = true
			set, text, err := loadRules(e, hop)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			rules.Sets = append(rules.Sets, set)
			rules.Digests[hop.RuleFile] = digest(text)
		}
	}
	return rules, errors.Join(wrong...)
}

// inspected gives the link that follows an idps its inspection, and the cable
// that does it.
func (w *walk) inspected(l *Link) {
	if w.inspect == nil {
		return
	}
	l.IDPS, w.inspect = w.inspect, nil
	if l.Cable == nil {
		l.Cable = &cable.Config{}
	}
	l.Cable.Forward.InspectRateBitsPerSecond = w.inspectRate
	l.Cable.Backward.InspectRateBitsPerSecond = w.inspectRate
}

// idps checks the inspection of a link.
func (f *faults) idps(t Topology, l Link) {
	if l.IDPS == nil {
		return
	}
	if l.Cable == nil {
		f.add("link %s inspects, which only a cable can", l.name())
	}
	if !slices.Contains(idps.Modes(), l.IDPS.Mode) {
		f.add("link %s: no mode of inspection is called %q; there are %q", l.name(), l.IDPS.Mode, idps.Modes())
	}
	if _, known := t.RuleFiles[l.IDPS.Rules]; l.IDPS.Rules != "" && !known {
		f.add("link %s: the topology lacks the rule file %s", l.name(), l.IDPS.Rules)
	}
}

// text is the inspection as a part of a plan's line.
func (i *IDPS) text() string {
	switch {
	case i == nil:
		return ""
	case i.Rules == "":
		return fmt.Sprintf(", idps %s", i.Mode)
	}
	return fmt.Sprintf(", idps %s by %s", i.Mode, i.Rules)
}
