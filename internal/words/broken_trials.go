package words

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// withheld says why a verdict is not given.
var withheld = map[result.Withheld]func(n Names, e result.Effect) string{
	result.WithheldBroken: Names.broke,
	result.WithheldMissingDiffer: func(n Names, e result.Effect) string {
		return "one of the two paths lacks more trials than the other (" + n.lacking(e) + "), and the missing ones may be the bad ones"
	},
	result.WithheldCollapsed: Names.collapse,
	result.WithheldMean: func(Names, result.Effect) string {
		return "the mean of all trials is beyond what matters: a few trials cause most of it"
	},
	result.WithheldRunLevel: func(Names, result.Effect) string {
		return "the levels of runs differ by themselves, and one run on each side does not show by how much: compare three or more with --reference, or runs with a baseline"
	},
	result.WithheldBothBroken: func(_ Names, e result.Effect) string {
		if e.ReferenceRun != "" {
			return "too many blocks have no cost that is a number (a trial that broke, or a percentile that falls on requests without an answer), and those show no change"
		}
		if min(e.Broken, e.ReferenceBroken) == 0 || e.Against != nil {
			return "in too many blocks both sides have no value (a trial that broke, or a percentile that falls on requests without an answer), and those show no cost"
		}
		return fmt.Sprintf("both paths broke more trials (%d and %d of %d) than can be left aside, and those show no cost", e.ReferenceBroken, e.Broken, e.N)
	},
	result.WithheldMissingMany: func(n Names, e result.Effect) string {
		if e.ReferenceRun != "" {
			return fmt.Sprintf("too many blocks do not count: %d of %d do, and %d of %d of %s", e.N, e.N+e.Missing, e.ReferenceN, e.ReferenceN+e.ReferenceMissing, e.ReferenceRun)
		}
		if e.Against != nil {
			return fmt.Sprintf("only %d of %s have a trial on all paths that are compared", e.N, quantity.Count(e.Blocks, "block"))
		}
		return fmt.Sprintf("only %d of %s have a trial on both (%s)", e.N, quantity.Count(e.Blocks, "block"), n.lacking(e))
	},
}

// withheld says why a verdict is not given.
func (n Names) withheld(e result.Effect) string {
	var why []string
	for _, w := range e.Withheld {
		if say := withheld[w]; say != nil {
			why = append(why, say(n, e))
		}
	}
	return List(why)
}

// lacking says how many trials of each side are missing.
func (n Names) lacking(e result.Effect) string {
	return fmt.Sprintf("%s lacks %d, %s %d", n.Path(e.Path), e.Missing, n.Path(e.Baseline), e.ReferenceMissing)
}

// incomplete says so where blocks do not count.
func (n Names) incomplete(e result.Effect) string {
	var lack []string
	for _, side := range []struct {
		path    string
		missing int
	}{{e.Path, e.Missing}, {e.Baseline, e.ReferenceMissing}} {
		if side.missing > 0 {
			lack = append(lack, fmt.Sprintf("%s lacks %d", n.Path(side.path), side.missing))
		}
	}
	if len(lack) == 0 || e.Against != nil {
		return ""
	}
	return "; of " + quantity.Count(e.Blocks, "block") + " " + List(lack)
}

// broke says how many trials each side broke.
func (n Names) broke(e result.Effect) string {
	if e.ReferenceRun != "" {
		text := fmt.Sprintf("it broke %s of %s, and in %s %s of %d", none(e.Broken), quantity.Count(e.N, "trial"), e.ReferenceRun, none(e.ReferenceBroken), e.ReferenceN)
		if e.BrokenAlone+e.ReferenceBrokenAlone > 0 {
			text += fmt.Sprintf(", and %s (in %s %s) where another path has none", none(e.BrokenAlone), e.ReferenceRun, none(e.ReferenceBrokenAlone))
		}
		if e.BaselineBroken+e.ReferenceBaselineBroken > 0 {
			text += fmt.Sprintf("; %s broke %s, and in %s %s", n.Path(e.Baseline), none(e.BaselineBroken), e.ReferenceRun, none(e.ReferenceBaselineBroken))
		}
		return text
	}
	return fmt.Sprintf("it broke %s of %s, %s %s", none(e.Broken), quantity.Count(e.N, "trial"), n.Path(e.Baseline), none(e.ReferenceBroken)) + n.brokenAlone(e)
}

// brokenAlone tells of broken trials without a partner, empty where there are none.
func (n Names) brokenAlone(e result.Effect) (text string) {
	base, path := n.Path(e.Baseline), n.Path(e.Path)
	if e.Against != nil { // of four paths, whichever it is
		base, path = "another path", "another path"
	}
	if e.BrokenAlone > 0 {
		text = fmt.Sprintf(", and %d where %s has none", e.BrokenAlone, base)
	}
	if e.ReferenceBrokenAlone > 0 {
		text += fmt.Sprintf(", and %s %d where %s has none", n.Path(e.Baseline), e.ReferenceBrokenAlone, path)
	}
	return text
}

func none(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// breaking is the sentence of how often a path breaks trials.
func (n Names) breaking(e result.Effect, subject string) string {
	trials := fmt.Sprintf("%s of %s of %s", none(e.Broken), quantity.Count(e.N, "trial"), n.Test(e.Test))
	reference := n.Path(e.Baseline) + " " + none(e.ReferenceBroken) + n.brokenAlone(e)
	switch {
	case len(e.Withheld) > 0:
		return fmt.Sprintf("%s: broke %s, %s: not resolved. The verdict is withheld: %s", subject, trials, reference, n.withheld(e))
	case unresolved(e.Verdict):
		return fmt.Sprintf("%s: broke %s, %s: %s%s", subject, trials, reference, Verdict(e), needs(e))
	}
	return fmt.Sprintf("%s: breaks %s, %s", subject, trials, reference)
}
