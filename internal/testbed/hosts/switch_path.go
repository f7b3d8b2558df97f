package hosts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
	"github.com/hopbench/hopbench/internal/words"
)

// rehearse brings every path into force that is switched, once, to learn what a trace of
// it shows and how long that takes.
func (h *Hosts) rehearse(ctx context.Context) {
	o := switching.Options{Switches: h.inventory.Switches, Dir: h.inventory.Dir, Journal: h.Journal, Trace: h.trace, Canary: h.canary}
	switched := false
	for _, p := range h.places {
		o.Paths = append(o.Paths, p.Path)
		switched = switched || len(p.Set) > 0
	}
	if !switched {
		return
	}
	var visits []switching.Visit
	var err error
	if h.switcher, err = switching.New(o); err == nil {
		visits, err = h.switcher.Rehearse(ctx)
	}
	if err != nil {
		h.found(testbed.Wrong, "switches", err.Error(), "")
		return
	}
	h.chooseSwitched(ctx)
	for _, v := range visits {
		text := fmt.Sprintf("in force in %v", v.Took.Round(time.Millisecond))
		if v.Settle > 0 {
			text += fmt.Sprintf(" and %v to settle", v.Settle)
		}
		severity, remedy := testbed.Note, ""
		if strings.Contains(v.Proof, string(inventory.ProofNone)) {
			severity, remedy = testbed.Warning, "a switch that does nothing would look like a hop that costs nothing: have a proof if there can be one"
		}
		h.found(severity, "path "+v.Path, fmt.Sprintf("%s; proof %s: %s", text, v.Proof, v.Evidence), remedy)
	}
}

// length says how long a run takes whose paths are switched, once that is known.
func (h *Hosts) length(context.Context) {
	cost := h.SwitchTime()
	if cost == 0 {
		return
	}
	plan := h.e.Plan(1)
	if stages, err := h.e.With(experiment.Overrides{TwoStage: true}); err == nil && cost > experiment.SlowSwitch {
		plan = stages.Plan(1)
	}
	changes := plan.Switches()
	h.found(testbed.Note, "experiment "+h.e.Name, fmt.Sprintf("takes %s at least: %s, %s of path of about %v each, and a proof before and after each trial",
		words.About(plan.ExpectedDuration(0)+time.Duration(changes)*cost), quantity.Count(len(plan.Trials), "trial"), quantity.Count(changes, "change"), cost.Round(10*time.Millisecond)), "")
}

// Switch brings a path into force by the user's commands, if it needs any.
func (h *Hosts) Switch(ctx context.Context, path string) (testbed.Switched, error) {
	if h.switcher == nil {
		return testbed.Switched{}, nil
	}
	s, err := h.switcher.Switch(ctx, path)
	if err != nil {
		return s, err
	}
	p, err := h.at(path)
	if err == nil && s.Changed { // an agent traces only whom it has proved the token to
		_, err = h.proveToken(ctx, p)
	}
	return s, err
}

// Confirm says whether a path that was brought into force has been so ever since.
func (h *Hosts) Confirm(ctx context.Context, path string) error {
	if h.switcher == nil {
		return nil
	}
	return h.switcher.Confirm(ctx, path)
}

// SwitchTime is about how long it takes to switch to another path, 0 where all are in force.
func (h *Hosts) SwitchTime() time.Duration {
	if h.switcher == nil {
		return 0
	}
	return h.switcher.SwitchTime()
}

// at finds where a path is.
func (h *Hosts) at(path string) (place, error) {
	i := slices.IndexFunc(h.places, func(p place) bool { return p.Name == path })
	if i < 0 {
		return place{}, fmt.Errorf("the testbed has no path %q", path)
	}
	return h.places[i], nil
}

// The canary request is caught by signature 2032081 of the Emerging Threats rules, which
// is what Azure Firewall's own test of its IDPS sends.
const (
	canaryUserAgent = "HaxerMen"
	canaryTimeout   = 3 // seconds
)

// canary sends the canary request over a path.
func (h *Hosts) canary(ctx context.Context, path string, _ inventory.Switch) (inventory.CanaryAnswer, error) {
	p, err := h.at(path)
	if err != nil {
		return "", err
	}
	if _, err := h.proveToken(ctx, p); err != nil {
		return "", err
	}
	c, err := h.source().client.Canary(ctx, agent.CanaryRequest{Target: p.to, Source: p.From, UserAgent: canaryUserAgent, Timeout: canaryTimeout})
	return inventory.CanaryAnswer(c.Answer), err
}
