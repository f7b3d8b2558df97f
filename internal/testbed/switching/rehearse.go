package switching

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// noAnswer is what a path shows that has no end while another one is in force.
const noAnswer = "no way to its end"

// Rehearse brings every path into force once, before anything is measured: it finds out
// how long a switch takes and what a trace shows of each path, and refuses switches that
// a trace cannot tell apart. The values in force at first are kept to be restored. A
// second call only repeats what the first found, unless that was stopped.
func (s *Switcher) Rehearse(ctx context.Context) ([]Visit, error) {
	if s.found == nil {
		if err := s.begin(ctx); err != nil {
			return nil, err
		}
	}
	if s.visits != nil || s.refused != nil {
		return s.visits, s.refused
	}
	visits, err := s.rehearseAll(ctx)
	if err != nil {
		// Of what was commanded nothing is known. What a second rehearsal would learn of a
		// device that has gone wrong once could be the device's mistake.
		clear(s.state)
		if ctx.Err() == nil {
			s.refused = err
		}
		return nil, err
	}
	s.visits = visits
	return visits, nil
}

func (s *Switcher) rehearseAll(ctx context.Context) (visits []Visit, err error) {
	paths := s.inOrder()
	for _, path := range paths {
		v, err := s.rehearse(ctx, path)
		if err != nil {
			return nil, err
		}
		visits = append(visits, v)
	}
	if len(visits) > 1 && visits[0].Changed {
		// No path was known from before the first command. A device that always carries out
		// the command before the last one is found out by coming round again.
		needs := s.needs(paths[0])
		for _, n := range needs {
			if err := s.command(ctx, n); err != nil {
				return nil, err
			}
		}
		_, err := s.proven(ctx, paths[0], needs)
		s.settle(err == nil, needs...)
		if err != nil {
			return nil, err
		}
	}
	return visits, s.apart()
}

// inOrder are the paths that are switched, the one in force first: what it shows is known
// before any command was run.
func (s *Switcher) inOrder() (paths []string) {
	for _, p := range s.o.Paths {
		needs := s.needs(p.Name)
		switch {
		case len(needs) == 0:
		case s.at(needs):
			paths = slices.Insert(paths, 0, p.Name)
		default:
			paths = append(paths, p.Name)
		}
	}
	return paths
}

// rehearse brings a path into force, value by value. Each value that a trace is to prove
// must change what the trace shows, or its command does nothing.
func (s *Switcher) rehearse(ctx context.Context, path string) (Visit, error) {
	began := time.Now()
	needs := s.needs(path)
	v := Visit{Path: path, Proof: proofs(needs)}
	s.inForce = ""
	shows := ""
	traces := slices.IndexFunc(needs, byTrace)
	if traces >= 0 {
		var err error
		if shows, err = s.glance(ctx, path); err != nil {
			return v, err
		}
	}
	var seen []string
	for _, n := range needs {
		before, changes := s.state[n.Name], s.state[n.Name] != n.value
		if changes {
			v.Changed = true
			v.Settle = max(v.Settle, n.Settle)
			if err := s.command(ctx, n); err != nil {
				return v, err
			}
		}
		var err error
		e := ""
		switch {
		case n.Proof != inventory.ProofTrace:
			e, err = s.provenOne(ctx, n, func(ctx context.Context) (string, error) { return s.check(ctx, path, n) })
		case changes:
			// What it was at may be the value of no path, and look like another.
			used := s.usedValues(n.Name)
			was, differs := shows, len(used) == 1 || slices.Contains(used, before)
			shows, err = s.steady(ctx, path, n, func(now string) error {
				if differs && mayBe(now, was) {
					return fmt.Errorf("a trace shows %s, as it did at %s; a switch that does nothing would look like a hop that costs nothing. If a trace cannot tell them apart, give the switch proof: canary or proof: command", now, before)
				}
				return nil
			})
		}
		if changes {
			s.settle(err == nil, n)
		}
		if err != nil {
			return v, err
		}
		seen = append(seen, e)
	}
	v.Took = time.Since(began)
	if traces >= 0 {
		if err := s.learn(ctx, path, needs[traces], shows, v.Settle); err != nil {
			return v, err
		}
		seen = append(seen, shows)
	}
	v.Evidence = joined(seen)
	return v, ctx.Err()
}

// learn keeps what a path shows now that it is in force and has settled, and what the
// others show meanwhile that have other ends.
func (s *Switcher) learn(ctx context.Context, path string, n need, shows string, settle time.Duration) error {
	if settle > 0 && !sleep(ctx, settle) {
		return ctx.Err()
	}
	now, err := s.steady(ctx, path, n, func(string) error { return nil })
	if err != nil {
		return err
	}
	if !mayBe(now, shows) {
		return fmt.Errorf("switch %s reads %s, and the trace of path %s showed %s, and after %v to settle %s: it acts late; give it a longer settle time than that", n.Name, n.value, path, shows, settle, now)
	}
	s.shows[traced{path, path}] = both(shows, now)
	for _, q := range s.o.Paths {
		if key := s.tracedAs(q.Name, path); key.path == q.Name && q.Name != path && slices.ContainsFunc(s.needs(q.Name), byTrace) {
			if s.shows[key], err = s.glance(ctx, q.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// byTrace says that a trace is to prove a value.
func byTrace(n need) bool { return n.Proof == inventory.ProofTrace }

// glance is what a path shows that may not be in force, and so may lead nowhere.
func (s *Switcher) glance(ctx context.Context, path string) (shows string, err error) {
	for range inARow {
		if shows, err = s.see(ctx, path, ""); err == nil {
			return shows, nil
		}
		if !sleep(ctx, betweenProofs) {
			return "", ctx.Err()
		}
	}
	return noAnswer, nil
}

// tracedAs is under what it is kept what a path shows while another one is in force.
// Paths with the same ends show the same.
func (s *Switcher) tracedAs(path, inForce string) traced {
	if s.path(path).SameAddresses(s.path(inForce)) {
		return traced{inForce, inForce}
	}
	return traced{path, inForce}
}

func (s *Switcher) path(name string) inventory.Path {
	i := slices.IndexFunc(s.o.Paths, func(p inventory.Path) bool { return p.Name == name })
	if i < 0 {
		return inventory.Path{}
	}
	return s.o.Paths[i]
}

// steady polls what a trace of a path shows until it is right and the same inARow times.
func (s *Switcher) steady(ctx context.Context, path string, n need, right func(shows string) error) (string, error) {
	first := ""
	return s.provenOne(ctx, n, func(ctx context.Context) (string, error) {
		was := first
		first = ""
		shows, err := s.see(ctx, path, was)
		switch {
		case err != nil:
			return "", fmt.Errorf("trace path %s: %w", path, err)
		case was != "" && !mayBe(shows, was):
			return "", fmt.Errorf("traces of path %s show now %s, now %s; where packets take several ways, give the switch proof: canary or proof: command", path, was, shows)
		}
		if err := right(shows); err != nil {
			return "", err
		}
		if was != "" {
			shows = both(was, shows)
		}
		first = shows
		return shows, nil
	})
}

// usedValues are the values of a switch that paths need.
func (s *Switcher) usedValues(name string) (used []string) {
	for _, p := range s.o.Paths {
		if v, sets := p.Set[name]; sets && !slices.Contains(used, v) {
			used = append(used, v)
		}
	}
	return used
}

// apart says which paths a trace does not tell apart although it is to prove them.
func (s *Switcher) apart() error {
	for _, p := range s.o.Paths {
		for _, q := range s.o.Paths {
			for _, n := range s.needs(p.Name) {
				other, both := q.Set[n.Name]
				if n.Proof != inventory.ProofTrace || !both || other == n.value {
					continue
				}
				if shows := s.shows[traced{p.Name, p.Name}]; mayBe(shows, s.shows[s.tracedAs(p.Name, q.Name)]) {
					return fmt.Errorf("switch %s: a trace of path %s shows %s at %s and at %s (path %s), so it proves neither; a switch that does nothing would look like a hop that costs nothing: give it proof: canary or proof: command",
						n.Name, p.Name, shows, n.value, other, q.Name)
				}
			}
		}
	}
	return nil
}
