package runner

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// pairsOf is how many pairs of endpoints do a test on the path at the same time.
func pairsOf(p lab.Path) int { return max(len(p.Pairs), 1) }

// nameOf names a pair for people.
func nameOf(p lab.Path) string { return p.SourceNode + " to " + p.DestinationNode }

// mostTraces is how often a path is traced until every hop that answers has.
const mostTraces = 3

// traces has the source of every pair trace its path, and returns what each saw.
// Queues that a trial before has left can be longer than a trace waits: one that
// lacks an answer is done again. One that has a wrong answer is not.
func (l *Lab) traces(ctx context.Context, path lab.Path, trial experiment.PlannedTrial) ([][]measurement.TraceHop, error) {
	seen := make([][]measurement.TraceHop, pairsOf(path))
	group, ctx := errgroup.WithContext(ctx)
	for k := range seen {
		one := path.Of(k)
		request := l.request(one, trial)
		request.ID += "-fingerprint"
		request.Spec = fingerprintTrace()
		group.Go(func() error {
			for range mostTraces {
				outcome, err := l.agents[one.SourceNode].Run(ctx, request, nil)
				if err != nil && len(seen) > 1 {
					err = fmt.Errorf("%s: %w", nameOf(one), err)
				}
				seen[k] = outcome.Hops
				if err != nil || !lacksAnswers(one, outcome.Hops) {
					return err
				}
			}
			return nil
		})
	}
	return seen, group.Wait()
}

// lacksAnswers says that a hop of the path that answers did not, and that nothing
// else speaks against the path.
func lacksAnswers(path lab.Path, seen []measurement.TraceHop) bool {
	lacks := false
	for i, hop := range path.Hops {
		switch {
		case i >= len(seen) || seen[i].Address == "":
			lacks = lacks || hop.IsValid()
		case !slices.ContainsFunc(path.Answers(i), func(a netip.Addr) bool { return a.IsValid() && a.String() == seen[i].Address }):
			return false
		}
	}
	return lacks
}

// fingerprints holds what every pair saw against the path that was built for
// it, below a tunnel, too: the result is the first that does not match, or else
// the first.
func fingerprints(path lab.Path, seen, outer [][]measurement.TraceHop, each []measurement.Outcome) measurement.Fingerprint {
	var first measurement.Fingerprint
	for k := range seen {
		one := path.Of(k)
		f := fingerprint(one, seen[k], each[k])
		if outer != nil {
			f = withTunnel(one, outer[k], f)
		}
		if !f.Matches {
			if len(seen) > 1 {
				f.Why = nameOf(one) + ": " + f.Why
			}
			return f
		}
		if k == 0 {
			first = f
		}
	}
	return first
}

// test does the trial's test: by the only pair, or by all at the same time. The
// outcome is all of them together, each what every single one brought back. An
// error is that of the only pair, or of all.
func (l *Lab) test(ctx context.Context, path lab.Path, trial experiment.PlannedTrial, progress func(measurement.Progress)) (measurement.Outcome, []measurement.Outcome, error) {
	if len(path.Pairs) == 0 {
		outcome, err := l.agents[path.SourceNode].Run(ctx, l.request(path, trial), progress)
		return outcome, []measurement.Outcome{outcome}, err
	}
	sum := &progressSum{last: make([]measurement.Progress, len(path.Pairs)), report: progress}
	common := newCommonStart(len(path.Pairs))
	brought := make([]brought, len(path.Pairs))
	var group sync.WaitGroup
	for k := range path.Pairs {
		one := path.Of(k)
		request := l.request(one, trial)
		request.Pairs = len(path.Pairs)
		if kind := request.Spec.Kind; kind == measurement.TCP || kind == measurement.Load {
			request.Spec.ShareThreads = true // with a thread per flow, 1920 flows are 3840 threads
		}
		group.Go(func() {
			arrive := sync.OnceFunc(common.arrived.Done)
			defer arrive() // nobody waits for one that failed before its start
			b := &brought[k]
			b.source, b.destination = one.SourceNode, one.DestinationNode
			b.outcome, b.err = l.agents[one.SourceNode].RunHeld(ctx, request, arrive, common.start, func(p measurement.Progress) { sum.add(k, p) })
		})
	}
	common.open()
	group.Wait()
	return together(trial.Spec, brought)
}

// commonStart lets pairs start when all are prepared or have failed.
type commonStart struct {
	arrived sync.WaitGroup
	start   chan struct{}
}

func newCommonStart(pairs int) *commonStart {
	c := &commonStart{start: make(chan struct{})}
	c.arrived.Add(pairs)
	return c
}

// open waits for every pair and starts those that are there.
func (c *commonStart) open() {
	c.arrived.Wait()
	close(c.start)
}

// brought is what one pair came back with.
type brought struct {
	source, destination string
	outcome             measurement.Outcome
	err                 error
}

// progressSum adds up the signs of life of several pairs.
type progressSum struct {
	report func(measurement.Progress)

	mu       sync.Mutex
	last     []measurement.Progress
	reported time.Time
}

// sumInterval is how often the sum is reported: as often as each pair reports.
const sumInterval = 200 * time.Millisecond

func (s *progressSum) add(k int, p measurement.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[k] = p
	if now := time.Now(); s.report != nil && now.Sub(s.reported) >= sumInterval {
		s.reported = now
		all := measurement.Progress{Elapsed: p.Elapsed}
		for _, one := range s.last {
			all.Throughput += one.Throughput
			all.RTT = max(all.RTT, one.RTT)
		}
		s.report(all)
	}
}

// together puts what the pairs brought back into one outcome.
func together(spec measurement.Spec, all []brought) (measurement.Outcome, []measurement.Outcome, error) {
	each := make([]measurement.Outcome, len(all))
	failed := 0
	for k, b := range all {
		each[k] = b.outcome
		if b.err != nil {
			failed++
		}
	}
	out := combine(spec, all)
	if failed == len(all) {
		return out, each, fmt.Errorf("none of %d pairs brought back a result, %s to %s because of: %w", len(all), all[0].source, all[0].destination, all[0].err)
	}
	return out, each, nil
}
