package switching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
		return s.verified(ctx, n)
	case inventory.ProofNone:
		return "not proven", nil
	}
	own := s.shows[traced{path, path}]
	shows, err := s.see(ctx, path, own)
	if err != nil {
		return "", fmt.Errorf("trace path %s: %w", path, err)
	}
	alike := s.alike(path, n, shows)
	switch {
	case !mayBe(shows, own):
		return "", fmt.Errorf("the trace of path %s shows %s, and showed %s in the rehearsal%s: %w", path, shows, own, alike, errNotShown)
	case alike != "":
		return "", fmt.Errorf("the trace of path %s shows %s, which a silent hop leaves%s: %w", path, shows, alike, errNotShown)
	}
	return shows, nil
}

// alike names the path at another value that was in force when a path showed this, or what
// may be this.
func (s *Switcher) alike(path string, n need, shows string) string {
	for _, q := range s.o.Paths {
		// A path that does not set the switch says nothing of its values.
		if v, sets := q.Set[n.Name]; sets && v != n.value && mayBe(s.shows[s.tracedAs(path, q.Name)], shows) {
			return ", as with path " + q.Name + " in force"
		}
	}
	return ""
}

// Silent stands for a hop that did not answer. A router answers few packets a second
// (Linux: net.ipv4.icmp_ratelimit), so the next trace may show it.
const Silent = "*"

// answersAgain is how long it is waited for a hop that was silent; three traces then take
// longer than the second in which Linux answers once more.
const answersAgain = 500 * time.Millisecond

// see traces a path until each hop has answered that did so before, at most inARow times.
// Before is what was seen of it earlier, empty for nothing.
func (s *Switcher) see(ctx context.Context, path, before string) (shows string, err error) {
	for tries := 1; ; tries++ {
		now, err := s.o.Trace(ctx, path)
		if err != nil {
			return "", err
		}
		if shows == "" || !mayBe(shows, now) {
			shows = now
		}
		shows = both(shows, now)
		if tries == inARow || !lacks(shows, before) {
			return shows, nil
		}
		if !sleep(ctx, answersAgain) {
			return "", ctx.Err()
		}
	}
}

// lacks says that a hop was silent that was not before.
func lacks(shows, before string) bool {
	known := strings.Fields(before)
	for i, hop := range strings.Fields(shows) {
		if hop == Silent && (i >= len(known) || known[i] != Silent) {
			return true
		}
	}
	return false
}

// mayBe says whether two traces may have seen the same path: hop by hop they differ in no
// more than that one did not answer.
func mayBe(a, b string) bool {
	if a == noAnswer || b == noAnswer {
		return a == b
	}
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(x, y string) bool { return x == y || x == Silent || y == Silent })
}

// both is what two traces of the same path saw together.
func both(a, b string) string {
	one, other := strings.Fields(a), strings.Fields(b)
	if len(one) != len(other) {
		return b
	}
	for i := range one {
		if one[i] == Silent {
			one[i] = other[i]
		}
	}
	return strings.Join(one, " ")
}

// refuted says that a proof does not hold because of what was seen.
func refuted(n need, err error) bool {
	return errors.Is(err, errNotShown) || n.Proof == inventory.ProofCommand
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

func (s *Switcher) verified(ctx context.Context, n need) (string, error) {
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
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.Timeout)
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
				if ctx.Err() != nil && !refuted(n, err) {
					cancel() // nor will it be: an end is gone
				}
				return false
			}
			evidence = e
		}
		return true
	}) {
		return evidence, nil
	}
	if ctx.Err() != nil && why != nil && !refuted(n, why) {
		return "", ctx.Err()
	}
	if why == nil {
		why = errors.New("it did not hold three times in a row")
	}
	return "", fmt.Errorf("switch %s reads %s, and for %v nothing proved it (%s): %w; the command says what it did not do, or acts later than that: run %s by hand and look, or give the switch a longer timeout",
		n.Name, n.value, n.Timeout, n.Proof, why, shown(n.Values[n.value]))
}
