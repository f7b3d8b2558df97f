package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// maxNamed bounds how many trials or comparisons a note lists by name.
const maxNamed = 5

// exclusionNotes says how many trials the gates excluded, and why.
func exclusionNotes(excluded []measurement.Trial, all int) []string {
	if len(excluded) == 0 {
		return nil
	}
	byCheck := map[string]int{}
	var named []string
	for _, t := range excluded {
		name, reason := "unnamed gate", "no reason was recorded"
		for _, check := range t.Gate.Checks {
			if check.Fatal {
				name, reason = check.Name, check.Reason
				break
			}
		}
		byCheck[name]++
		if len(named) < maxNamed {
			named = append(named, t.ID+": "+reason)
		}
	}
	names := slices.Collect(maps.Keys(byCheck))
	slices.SortFunc(names, func(a, b string) int {
		if byCheck[a] != byCheck[b] {
			return byCheck[b] - byCheck[a]
		}
		return strings.Compare(a, b)
	})
	counts := make([]string, len(names))
	for i, name := range names {
		counts[i] = fmt.Sprintf("%s %d", name, byCheck[name])
	}
	if more := len(excluded) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return []string{fmt.Sprintf("%d of %s excluded by a gate and counted nowhere (%s). %s.",
		len(excluded), quantity.Count(all, "trial"), strings.Join(counts, ", "), strings.Join(named, "; "))}
}

// pairNotes says where blocks dropped out for want of a partner.
func pairNotes(set *dataset, all []*comparison) []string {
	var out []string
	for _, c := range all {
		if missing := set.blocks - c.cost.N; c.cost.Primary && missing > 0 {
			out = append(out, fmt.Sprintf("%s, %s: %d of %s lack %s of %s or of %s and do not count.",
				c.path, c.test, missing, quantity.Count(set.blocks, "block"), c.metric.Label, c.path, c.baseline))
		}
	}
	if len(out) > maxNamed {
		more := len(out) - maxNamed
		out = append(out[:maxNamed], fmt.Sprintf("%s lost blocks in the same way.", quantity.Count(more, "more comparison")))
	}
	return out
}

// powerNotes warns when no effect whatever could be claimed: the signed-rank p
// of n pairs is at least 2^(1−n).
func powerNotes(all []*comparison) []string {
	worst, need, family := 0, 0, 0
	for _, c := range all {
		if fewest := c.fewestBlocks(); c.cost.Primary && c.cost.N < fewest {
			worst++
			need, family = max(need, fewest), c.familySize
		}
	}
	if worst == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s too few blocks for any effect, however large, to be beyond chance: with %s in the report at least %d blocks are needed.",
		haveHas(worst), quantity.Count(family, "primary comparison"), need)}
}

func haveHas(n int) string {
	if n == 1 {
		return "1 primary comparison has"
	}
	return fmt.Sprintf("%d primary comparisons have", n)
}

// driftNotes names the comparisons whose effect changed during the run.
func driftNotes(all []*comparison) []string {
	var out []string
	tested := 0
	for _, c := range all {
		if c.cost.N < c.minBlocks {
			continue
		}
		tested++
		var why []string
		if d := c.cost.Drift; d != nil && d.P < driftAlpha {
			why = append(why, fmt.Sprintf("Spearman's ρ with the block's index is %s, %s", quantity.Signed(d.Rho, 2), formatP(d.P)))
		}
		if c.halvesP < driftAlpha {
			why = append(why, fmt.Sprintf("the two halves differ, %s", formatP(c.halvesP)))
		}
		if len(why) == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("Drift: the effect of %s on %s changed during the run, from %s in the first half of the blocks to %s in the second (%s). One figure for the whole run hides that.",
			c.path, c.metric.Label+", "+c.test, c.effectText(c.halves[0]), c.effectText(c.halves[1]), strings.Join(why, "; ")))
	}
	if len(out) > maxNamed {
		more := len(out) - maxNamed
		out = append(out[:maxNamed], fmt.Sprintf("Drift: and %s more.", quantity.Count(more, "comparison")))
	}
	if len(out) > 0 {
		out = append(out, fmt.Sprintf("Drift was tested on %s at the %g %% level by two tests each.", quantity.Count(tested, "comparison"), 100*driftAlpha))
	}
	return out
}
