package inventory

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/spelling"
	"github.com/hopbench/hopbench/internal/strict"
)

// against checks that the file says where everything of an experiment is. It may have
// more: one file serves several experiments.
func (l *loader) against(e *experiment.Experiment) {
	var endpoints, paths []string
	for _, end := range e.Endpoints {
		endpoints = append(endpoints, end.Name)
	}
	for _, p := range e.Paths {
		paths = append(paths, p.Name)
	}
	l.has(&l.file.Endpoints, "endpoint", "{reach: ssh://HOST}", strict.Keys(l.file.Endpoints), endpoints, e)
	l.has(&l.file.Paths, "path", "{to: ADDRESS}", strict.Keys(l.file.Paths), paths, e)
	for i := range l.file.Endpoints {
		if end := &l.file.Endpoints[i]; string(end.Key) == e.Source && serves(end.Value) {
			l.Wrong(&end.Value.Reach, "have it reached by local, ssh:// or tls://", "endpoint %q is the source of experiment %s, and hopbench serve is only ever a destination", end.Key, e.Name)
		}
	}
	l.carried(e)
	if match := kindRowOf(string(l.file.Kind)).match; match != nil {
		match(l, e)
	}
}

// carried checks that every test of an experiment takes what makes a path: otherwise it
// would measure another.
func (l *loader) carried(e *experiment.Experiment) {
	for i := range l.file.Paths {
		p := &l.file.Paths[i]
		if !slices.ContainsFunc(e.Paths, func(of experiment.Path) bool { return of.Name == string(p.Key) }) {
			continue
		}
		for _, t := range e.Tests {
			for _, o := range []struct {
				option string
				has    bool
				field  any
			}{{"device", p.Value.Device != "", &p.Value.Device}, {"dscp", p.Value.DSCP != 0, &p.Value.DSCP}} {
				if _, takes := kind.Find(t.Spec.Kind, o.option); o.has && !takes {
					l.Wrong(o.field, "leave it out, or the test", "path %q has a %s of its own, and test %q of experiment %s (%s) takes none", p.Key, o.option, t.Name, e.Name, t.Spec.Kind)
				}
			}
			// In a spec, 0 is the code point of who has none of its own.
			if l.Written(&p.Value.DSCP) && p.Value.DSCP == 0 && t.Spec.DSCP != 0 {
				l.Wrong(&p.Value.DSCP, "leave it out of one of them", "path %q has dscp 0, and test %q of experiment %s has %d", p.Key, t.Name, e.Name, t.Spec.DSCP)
			}
		}
	}
}

// has checks that a mapping has all the names of an experiment.
func (l *loader) has(field any, what, example string, have []*strict.NameText, want []string, e *experiment.Experiment) {
	if len(have) == 0 {
		return // reported where it was read
	}
	var spare []string // names that the experiment does not know
	for _, name := range have {
		if *name != "" && !slices.Contains(want, string(*name)) {
			spare = append(spare, string(*name))
		}
	}
	for _, name := range want {
		if slices.ContainsFunc(have, func(own *strict.NameText) bool { return string(*own) == name }) {
			continue
		}
		remedy := fmt.Sprintf("add %s: %s", name, example)
		if close := spelling.Nearest(name, spare); close != "" {
			remedy = fmt.Sprintf("%q is there: rename it if that is meant", close)
		}
		l.Misplaced(field, remedy, "the file has no %s %q, which experiment %s has", what, name, e.Name)
	}
}
