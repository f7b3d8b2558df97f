package layout

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
)

// idps adds a node whose link towards the destination inspects.
func (w *pathBuilder) idps(hop experiment.Hop) error {
	rules, err := w.ruleFile(hop)
	if err != nil {
		return err
	}
	if err := w.router(hop); err != nil {
		return err
	}
	w.inspectRate = hop.InspectRateBitsPerSecond
	w.inspect = &topology.IDPS{Mode: idps.Mode(hop.Mode), Rules: rules}
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
		return fmt.Sprintf("%s; correct its mistakes:\n%v", text, e.Wrong)
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
			rules.Digests[hop.RuleFile] = topology.Digest(text)
		}
	}
	return rules, errors.Join(wrong...)
}

// inspected gives the link that follows an idps its inspection.
func (w *pathBuilder) inspected(l *topology.Link) {
	if w.inspect != nil {
		inspect(l, w.inspect, w.inspectRate)
		w.inspect = nil
	}
}

// inspect gives a link an inspection, and the link emulator that does it.
func inspect(l *topology.Link, by *topology.IDPS, bitsPerSecond float64) {
	l.IDPS = by
	if l.Emulation == nil {
		l.Emulation = &linkem.Config{}
	}
	l.Emulation.Forward.InspectRateBitsPerSecond = bitsPerSecond
	l.Emulation.Backward.InspectRateBitsPerSecond = bitsPerSecond
}
