package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Role is how many machines of an end there are.
type Role struct {
	Endpoint string // of the experiment
	Label    string // of its machines
	Wanted   int
	// Joined are the names of those that are there.
	Joined []string
}

// ready says that there are enough.
func (r Role) ready() bool { return len(r.Joined) >= r.Wanted }

// String is a role in a sentence.
func (r Role) String() string {
	text := fmt.Sprintf("%s (%s): %d of %d machines", r.Endpoint, r.Label, len(r.Joined), r.Wanted)
	if n := len(r.Joined); n > 0 && n < r.Wanted {
		text += fmt.Sprintf(", %s", names(r.Joined))
	}
	return text
}

// mostNames bounds how many machines are named in a sentence.
const mostNames = 8

func names(all []string) string {
	if len(all) > mostNames {
		return strings.Join(all[:mostNames], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

// gatherEvery is how often it is told at most who has joined.
const gatherEvery = 500 * time.Millisecond

// rests is how much longer than it looked for machines a gathering rests before it looks
// again: thousands join in seconds, each is a change, and all that they need is a processor.
const rests = 9

// gather waits until there are enough machines of both ends, and returns all, by their names.
// Tell, which may be nil, hears how it stands.
func (f *Fleet) gather(ctx context.Context, e *experiment.Experiment, tell func([]Role)) (sources, destinations []*member, err error) {
	wait := f.Inventory.Broker.Wait
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not all machines have joined in %v (wait: in the testbed file)", wait))
	defer cancel()
	var told time.Time
	for {
		began := time.Now()
		var roles []Role
		var changed <-chan struct{}
		sources, destinations, changed = f.ends(e)
		for _, end := range []struct {
			name string
			has  []*member
		}{{e.Source, sources}, {e.Destination, destinations}} {
			r := Role{Endpoint: end.name, Label: f.label(end.name), Wanted: e.Pairs}
			for _, m := range end.has {
				r.Joined = append(r.Joined, m.Name)
			}
			roles = append(roles, r)
		}
		enough := !slices.ContainsFunc(roles, func(r Role) bool { return !r.ready() })
		if now := time.Now(); tell != nil && (enough || now.Sub(told) >= gatherEvery) {
			tell(roles)
			told = now
		}
		if enough {
			return sources, destinations, nil
		}
		select {
		case <-time.After(rests * time.Since(began)):
		case <-ctx.Done():
		}
		select {
		case <-changed:
		case <-time.After(gatherEvery): // what was not told at once is told now
		case <-ctx.Done():
			var lacking []string
			for _, r := range roles {
				if !r.ready() {
					lacking = append(lacking, r.String())
				}
			}
			if others := f.others(e); len(others) > 0 {
				lacking = append(lacking, "joined with another --label: "+names(others))
			}
			return nil, nil, fmt.Errorf("%w; %s; start hopbench agent --join there, as hopbench testbed join FILE says", context.Cause(ctx), strings.Join(lacking, "; "))
		}
	}
}

// ends are the machines of both ends of an experiment, and what is closed once they may be
// others.
func (f *Fleet) ends(e *experiment.Experiment) (sources, destinations []*member, changed <-chan struct{}) {
	sources, changed = f.with(f.label(e.Source))
	destinations, _ = f.with(f.label(e.Destination))
	// One that has both labels is a source: a machine must never be a pair with itself.
	destinations = slices.DeleteFunc(destinations, func(m *member) bool { return slices.Contains(m.labels, f.label(e.Source)) })
	return sources, destinations, changed
}

// others are the machines of neither end of an experiment, by their names and labels: a label
// may be misspelled.
func (f *Fleet) others(e *experiment.Experiment) (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, m := range f.members {
		if !slices.Contains(m.labels, f.label(e.Source)) && !slices.Contains(m.labels, f.label(e.Destination)) {
			found = append(found, fmt.Sprintf("%s (%s)", name, cmp.Or(strings.Join(m.labels, ", "), "none")))
		}
	}
	slices.Sort(found)
	return found
}

// label is that of the machines of an endpoint.
func (f *Fleet) label(endpoint string) string { return f.endpoint(endpoint).Reach.Label }

// endpoint is one of the testbed file, which has all of the experiment.
func (f *Fleet) endpoint(name string) inventory.Endpoint {
	i := slices.IndexFunc(f.Inventory.Endpoints, func(e inventory.Endpoint) bool { return e.Name == name })
	return f.Inventory.Endpoints[i]
}
