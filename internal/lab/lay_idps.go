package lab

import (
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
		return fmt.Errorf("hop %s: %w", hop.Name, err)
	}
	if err := w.router(hop); err != nil {
		return err
	}
	w.inspect = &IDPS{Mode: idps.Mode(hop.Mode), Rules: rules}
	return nil
}

// ruleFile reads and checks the rule file of a hop and enters it in the
// topology. It returns its name there, empty for the built-in rules.
func (l *layout) ruleFile(hop experiment.Hop) (string, error) {
	if hop.RuleFile == "" {
		return "", nil
	}
	path := ruleFilePath(l.e, hop)
	if _, known := l.topology.RuleFiles[path]; known {
		return path, nil
	}
	set, text, err := idps.Load(path)
	if err != nil {
		return "", err
	}
	if len(set.Unsupported) > 0 {
		l.topology.Notes = append(l.topology.Notes, set.String())
	}
	if l.topology.RuleFiles == nil {
		l.topology.RuleFiles = make(map[string]string)
	}
	l.topology.RuleFiles[path] = string(text)
	return path, nil
}

// ruleFilePath takes a rule file as relative to the experiment file.
func ruleFilePath(e *experiment.Experiment, hop experiment.Hop) string {
	if filepath.IsAbs(hop.RuleFile) {
		return hop.RuleFile
	}
	return filepath.Join(filepath.Dir(e.File), hop.RuleFile)
}

// RuleFiles reads and checks every rule file that e names, once each.
func RuleFiles(e *experiment.Experiment) ([]*idps.RuleSet, error) {
	var sets []*idps.RuleSet
	seen := make(map[string]bool)
	for _, p := range e.Paths {
		for _, hop := range p.Hops {
			path := ruleFilePath(e, hop)
			if hop.RuleFile == "" || seen[path] {
				continue
			}
			seen[path] = true
			set, _, err := idps.Load(path)
			if err != nil {
				return nil, err
			}
			sets = append(sets, set)
		}
	}
	return sets, nil
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
