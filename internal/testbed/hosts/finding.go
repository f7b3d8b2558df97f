package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// plain is what an error of an agent says, without what it was doing and the sort of error,
// which a finding tells.
func plain(err error) string {
	if known, ok := errors.AsType[*probe.Error](err); ok {
		return known.Err.Error()
	}
	return err.Error()
}

// wrongError is all that keeps a testbed from measuring.
type wrongError struct{ Findings []testbed.Finding }

func (e *wrongError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// found keeps a finding, and tells who wants to know at once.
func (h *Hosts) found(s testbed.Severity, where, what, remedy string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := testbed.Finding{Severity: s, Where: where, What: what, Remedy: remedy}
	h.findings = append(h.findings, f)
	if h.Found != nil {
		h.Found(f)
	}
}

// wrong is what was found so far that keeps anybody from measuring, nil without any.
func (h *Hosts) wrong() error {
	found := slices.DeleteFunc(slices.Clone(h.findings), func(f testbed.Finding) bool { return f.Severity != testbed.Wrong })
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("testbed %s: %w", h.inventory.Name, &wrongError{found})
}
