package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/probe"
)

// Severity is what a finding means for a run.
type Severity string

// The severities.
const (
	Wrong   Severity = "error"   // nothing can be measured before it is put right
	Warning Severity = "warning" // it bears on what is measured
	Note    Severity = "note"    // as it should be
)

// Finding is what was found of a testbed.
type Finding struct {
	Severity Severity `json:"severity"`
	// Where is the endpoint or path, What was found there, Remedy what to do; empty
	// where nothing has to be done.
	Where  string `json:"where"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// String is a finding in one line.
func (f Finding) String() string {
	text := f.Where + ": " + f.What
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

// plain is what an error of an agent says, without what it was doing and the sort of error,
// which a finding tells.
func plain(err error) string {
	if known, ok := errors.AsType[*probe.Error](err); ok {
		return known.Err.Error()
	}
	return err.Error()
}

// WrongError is all that keeps a testbed from measuring.
type WrongError struct{ Findings []Finding }

func (e *WrongError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// found keeps a finding, and tells who wants to know at once.
func (h *Hosts) found(s Severity, where, what, remedy string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := Finding{s, where, what, remedy}
	h.findings = append(h.findings, f)
	if h.Found != nil {
		h.Found(f)
	}
}

// wrong is what was found so far that keeps anybody from measuring, nil without any.
func (h *Hosts) wrong() error {
	found := slices.DeleteFunc(slices.Clone(h.findings), func(f Finding) bool { return f.Severity != Wrong })
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("testbed %s: %w", h.inventory.Name, &WrongError{found})
}
