package switching

import (
	"context"
	"errors"
	"fmt"

	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// errNotShown is why a proof does not hold, as opposed to one that could not be tried.
var errNotShown = errors.New("it is another path")

// check tries the proof of a value once, on the path that needs it; what was seen, or why
// it does not hold.
func (s *Switcher) check(ctx context.Context, path string, n need) (evidence string, err error) {
	switch n.Proof {
	case inventory.ProofCanary:
		return s.canary(ctx, path, n)
	case inventory.ProofCommand:
		return s.command(ctx, n)
	case inventory.ProofNone:
		return "not proven", nil
	}
	shows, err := s.o.Trace(ctx, path)
	if err != nil {
		return "", fmt.Errorf("trace path %s: %w", path, err)
	}
	if own := s.shows[traced{path, path}]; shows != own {
		return "", fmt.Errorf("the trace of path %s shows %s, and showed %s in the rehearsal%s: %w", path, shows, own, s.alike(path, shows), errNotShown)
	}
	return shows, nil
}

// alike names the path that was in force when a path showed this.
func (s *Switcher) alike(path, shows string) string {
	for _, q := range s.o.Paths {
		if q.Name != path && s.shows[s.tracedAs(path, q.Name)] == shows {
			return ", as with path " + q.Name + " in force"
		}
	}
	return ""
}

func (s *Switcher) canary(ctx context.Context, path string, n need) (string, error) {
	answer, err := s.o.Canary(ctx, path, n.Switch)
	if err != nil {
		return "", fmt.Errorf("send a canary request over path %s: %w", path, err)
	}
	if want := n.Canary[n.value]; answer != want {
		return "", fmt.Errorf("the canary request over path %s was %s, and with %s it is %s: %w", path, answer, n.value, want, errNotShown)
	}
	return "canary request " + string(answer), nil
}

func (s *Switcher) command(ctx context.Context, n need) (string, error) {
	if _, err := s.run(ctx, n.Switch, n.value, verify(n)); err != nil {
		return "", err
	}
	return shown(verify(n)), nil
}

// proven polls the proof of each value that a path needs until it holds inARow times.
func (s *Switcher) proven(ctx context.Context, path string, needs []need) (evidence string, err error) {
	var seen []string
	for _, n := range toProve(needs) {
		e, err := s.provenOne(ctx, n, func(ctx context.Context) (string, error) { return s.check(ctx, path, n) })
		if err != nil {
			return "", err
		}
		seen = append(seen, e)
	}
	return joined(seen), nil
}

func (s *Switcher) provenOne(ctx context.Context, n need, check func(context.Context) (string, error)) (evidence string, err error) {
	limited, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	if n.Proof == inventory.ProofNone {
		return check(limited)
	}
	var why error
	if poll(limited, func() bool {
		for k := range inARow {
			if k > 0 && !sleep(limited, betweenProofs) {
				return false
			}
			e, err := check(limited)
			if err != nil {
				if limited.Err() == nil || why == nil {
					why = err
				}
				return false
			}
			evidence = e
		}
		return true
	}) {
		return evidence, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if why == nil {
		why = errors.New("it did not hold three times in a row")
	}
	return "", fmt.Errorf("switch %s reads %s, and for %v nothing proved it (%s): %w; the command says what it did not do, or acts later than that: run %s by hand and look, or give the switch a longer timeout",
		n.Name, n.value, n.Timeout, n.Proof, why, shown(n.Values[n.value]))
}
