package inventory

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/strict"
)

// against checks that the file says where everything of an experiment is. It may have
// more: one file serves several experiments.
func (l *loader) against(e *experiment.Experiment) {
	var endpoints, paths []string
	for i := range l.file.Endpoints {
		endpoints = append(endpoints, string(l.file.Endpoints[i].Key))
	}
	for i := range l.file.Paths {
		paths = append(paths, string(l.file.Paths[i].Key))
	}
	var ends []string
	for _, end := range e.Endpoints {
		ends = append(ends, end.Name)
	}
	var of []string
	for _, p := range e.Paths {
		of = append(of, p.Name)
	}
	l.has(&l.file.Endpoints, "endpoint", "{reach: ssh://HOST}", endpoints, ends, e)
	l.has(&l.file.Paths, "path", "{to: ADDRESS}", paths, of, e)
	if end := l.serves(); end != nil && string(end.Key) == e.Source {
		l.Wrong(&end.Value.Reach, "have it reached by local, ssh:// or tls://", "endpoint %q is the source of experiment %s, and hopbench serve is only ever a destination", end.Key, e.Name)
	}
	if e.Pairs > 1 {
		l.Wrong(&l.file.Endpoints, "give the experiment pairs: 1", "experiment %s has %d pairs of a source and a destination, and a testbed of hosts has one", e.Name, e.Pairs)
	}
}

// has checks that a mapping has all the names of an experiment.
func (l *loader) has(field any, what, example string, have, want []string, e *experiment.Experiment) {
	if len(have) == 0 {
		return // reported where it was read
	}
	var spare []string // names that the experiment does not know
	for _, name := range have {
		if name != "" && !slices.Contains(want, name) {
			spare = append(spare, name)
		}
	}
	for _, name := range want {
		if slices.Contains(have, name) {
			continue
		}
		remedy := fmt.Sprintf("add %s: %s", name, example)
		if close := strict.Nearest(name, spare); close != "" {
			remedy = fmt.Sprintf("%q is there: rename it if that is meant", close)
		}
		l.Misplaced(field, remedy, "the file has no %s %q, which experiment %s has", what, name, e.Name)
	}
}
