package words

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// Effect is the readable verdict, with what a reader must know with it: trials
// that collapsed, and assumptions that do not hold.
func (n Names) Effect(e result.Effect) string {
	return n.effect(e, n.collapse, n.violation)
}

// BriefEffect is Effect with what is beside the verdict in few words.
func (n Names) BriefEffect(e result.Effect) string {
	return n.effect(e, collapsed, func(e result.Effect, v result.Violation) string {
		switch v.Assumption {
		case result.NoDrift:
			return "the effect changed during the run"
		case result.IndependentBlocks:
			if v.P == nil {
				return "rests on independent blocks"
			}
			return fmt.Sprintf("blocks depend on the one before: the %s count as %s", quantity.Count(e.Counted(), "block"), quantity.Number(v.EffectiveBlocks, 0))
		case result.SymmetricEffects:
			return "rests on symmetric noise"
		}
		return n.violation(e, v)
	})
}

func (n Names) effect(e result.Effect, collapse func(result.Effect) string, violation func(result.Effect, result.Violation) string) string {
	say := n.judged
	if e.FewestBlocks > 0 && e.Metric != measurement.BrokenTrials {
		say = n.fewBlocks
	}
	text := say(e)
	if e.Collapse != nil && !slices.Contains(e.Withheld, result.WithheldCollapsed) {
		text += "; " + collapse(e)
	}
	for _, v := range e.Violations {
		text += "; " + violation(e, v)
	}
	return text
}

// fewBlocks is the sentence of an effect that has fewer blocks than a claim takes.
func (n Names) fewBlocks(e result.Effect) string {
	estimate, _ := Size(e)
	blocks := fmt.Sprintf("%d of %s", e.Counted(), quantity.Count(e.FewestBlocks, "block"))
	if e.Verdict == result.Indicated && e.Indication != nil {
		return fmt.Sprintf("%s: %s on %s, is indicated by %s, but not claimed: %s if noise is normal and equal on all paths and tests; needs %s",
			n.Subject(e), estimate, n.measured(e), blocks, P(e.Indication.P), quantity.Count(e.FewestBlocks, "block"))
	}
	text := fmt.Sprintf("%s: too few blocks on %s: %s; %s so far; needs ", n.Subject(e), n.measured(e), blocks, estimate)
	if e.Counted() == 1 {
		return text + "at least " + quantity.Count(e.FewestBlocks, "block") + "; the spread of trials is unknown"
	}
	return text + repetitions(e, "")
}

// tooFew is how many blocks there are of how many a claim takes: ": 3 of 6".
func tooFew(e result.Effect) string {
	if e.FewestBlocks == 0 {
		return ""
	}
	return fmt.Sprintf(": %d of %d", e.Counted(), e.FewestBlocks)
}

// collapsed says in how many trials an effect's path fell far below the others.
func collapsed(e result.Effect) string {
	return fmt.Sprintf("it collapsed in %d of %s", e.Collapse.Trials, quantity.Count(e.Counted(), "trial"))
}

// collapse says which part of the trials fell far below the others.
func (n Names) collapse(e result.Effect) string {
	c := e.Collapse
	if c == nil { // in a file that is not whole
		return "it collapsed in some trials"
	}
	worst := "to " + Share(c.Worst)
	if c.Worst >= 1 {
		worst = "at worst to " + Ratio(c.Worst)
	}
	text := fmt.Sprintf("%s, %s of %s in the same blocks, ", collapsed(e), worst, n.Path(e.Baseline))
	switch {
	case e.ReferenceRun != "":
		return text + fmt.Sprintf("and in %s in %s of %d", e.ReferenceRun, none(c.ReferenceTrials), e.ReferenceN)
	case c.ReferenceTrials == 0:
		return text + "which never did"
	}
	return text + fmt.Sprintf("which did in %d", c.ReferenceTrials)
}

// violation says which assumption the trials contradict.
func (n Names) violation(e result.Effect, v result.Violation) string {
	switch v.Assumption {
	case result.NoDrift:
		return "the effect changed during the run" + tested(v)
	case result.IndependentBlocks:
		text := fmt.Sprintf("blocks depend on the one before: with an autocorrelation of %s the %s count as %s", quantity.Signed(v.Autocorrelation, 1),
			quantity.Count(e.Counted(), "block"), quantity.Number(v.EffectiveBlocks, 0))
		if v.P == nil {
			text = fmt.Sprintf("rests on independent blocks: with an autocorrelation of %s, which the trials do not exclude, the %s count as %s and show nothing",
				quantity.Signed(v.Autocorrelation, 1), quantity.Count(e.Counted(), "block"), quantity.Number(v.EffectiveBlocks, 0))
		}
		return text + tested(v)
	case result.SymmetricEffects:
		return fmt.Sprintf("rests on symmetric noise: that %d of %s agree in sign could be chance", v.AgreeingBlocks, quantity.Count(e.Counted(), "block"))
	case result.NoCarryOver:
		change := changeOf(v.Ratio, v.Difference, measurement.MetricOf(e.Metric).Unit)
		return fmt.Sprintf("trials depend on the one before: %s after %s", change, n.Path(v.After)) + tested(v)
	}
	return string(v.Assumption) // of a newer hopbench
}

// tested is the p of a violation.
func tested(v result.Violation) string {
	if v.P == nil {
		return ""
	}
	return " (" + P(*v.P) + ")"
}

// Detectable writes the smallest effect that the blocks of a comparison show with
// a chance of 80 %, or nothing where they show none.
func Detectable(e result.Effect) string {
	if e.Detectable <= 0 {
		return ""
	}
	return amount(e, e.Detectable, false)
}
