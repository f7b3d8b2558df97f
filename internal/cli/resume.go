package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
)

func resumeRun(ctx context.Context, s base.Streams, f runFlags) error {
	r, err := reopen(ctx, s, f, f.resume)
	if err != nil {
		return base.Usage(err)
	}
	return r.carryOut(ctx)
}

// reopen opens a run to go on with it. It refuses one whose further trials would
// not be of what the stored ones are; what else is different is noted later.
func reopen(ctx context.Context, s base.Streams, f runFlags, dir string) (_ *session, err error) {
	st, err := store.Resume(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	r := &session{Streams: s, flags: f, store: st, reopened: true}
	if r.head, err = st.Head(); err != nil {
		return nil, err
	}
	r.head.Explain = r.head.Explain || f.explain
	if r.e, r.plan, err = runner.Prepare(r.head); err != nil {
		return nil, err
	}
	if err = r.findPaths(); err != nil {
		return nil, err
	}
	stored, err := st.Trials(ctx)
	if errors.Is(err, store.ErrDamaged) {
		return nil, fmt.Errorf("%w; hopbench report %s reports what can be read", err, printable.ShellWord(dir))
	}
	if err != nil {
		return nil, err
	}
	if err := runner.Fits(r.plan, stored); err != nil {
		return nil, fmt.Errorf("resume %s: %w", dir, err)
	}
	rules, err := lab.RuleFiles(r.e)
	if err != nil {
		return nil, fmt.Errorf("resume %s: its rule files must be the same as when it began: %w", dir, err)
	}
	if r.head.RuleFiles == nil {
		if len(rules.Digests) > 0 {
			r.note("The run was begun by a hopbench that did not record the texts of its rule files: whether they have changed until it was resumed is not known.")
		}
		r.head.RuleFiles = rules.Digests
	}
	if err := sameRules(r.head.RuleFiles, rules.Digests); err != nil {
		return nil, fmt.Errorf("resume %s: %w", dir, err)
	}
	return r, nil
}

// sameRules says which rule file is not as it was when the run began.
func sameRules(began, now map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if began[name] != now[name] {
			return fmt.Errorf("the rule file %s has changed since the run began (SHA-256 %.12s…, now %.12s…), and trials by other rules are of another hop; put it back as it was, or start a new run",
				name, began[name], now[name])
		}
	}
	return nil
}

// interrupted says why a run ended early, what is kept of it, and how to go on. Left are the
// trials that were still to come, also those that explain the run.
func interrupted(ctx context.Context, st *store.Store, planned, left int, f runFlags, why error) error {
	if f.unkept {
		return why
	}
	kept, _, err := st.Count(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	resume := resumeCommand(st.Dir(), f)
	switch stopped := errors.Is(why, context.Canceled); {
	case !st.InPlace(): // nothing can be gone on with there
		return errors.Join(fmt.Errorf("stopped after %d of %d trials", kept, planned), besidesStop(why))
	case kept == planned && left == 0:
		return fmt.Errorf("%w; all %d trials are kept", why, kept)
	case kept == planned && stopped:
		return errors.Join(fmt.Errorf("stopped before the run was explained; all %d trials are kept, continue with: %s", kept, resume), besidesStop(why))
	case stopped:
		return errors.Join(fmt.Errorf("stopped after %d of %d trials; continue with: %s", kept, planned, resume), besidesStop(why))
	}
	return fmt.Errorf("%w; %d of %d trials are stored, continue with: %s", why, kept, planned, resume)
}

// besidesStop is what went wrong while a run was stopped, such as a switch of a testbed that
// could not be put back.
func besidesStop(err error) (rest error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			rest = errors.Join(rest, besidesStop(one))
		}
		return rest
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// resumeCommand is the command line that continues a run, with the flags that the run folder
// does not keep.
func resumeCommand(dir string, f runFlags) string {
	text := "hopbench run --resume " + printable.ShellWord(dir)
	if f.nats != "" {
		text += " --" + natsFlag + " " + printable.ShellWord(f.nats)
	}
	return text + f.sink.words()
}
