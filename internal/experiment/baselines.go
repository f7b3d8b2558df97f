package experiment

import (
	"cmp"
	"fmt"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// Comparisons are the comparisons of a report: those that the file asks for, or
// every other path with the baseline.
func (e *Experiment) Comparisons() []result.Contrast {
	if len(e.Contrasts) > 0 {
		return e.Contrasts
	}
	var all []result.Contrast
	for _, p := range e.Paths {
		if p.Name != e.Baseline {
			all = append(all, result.Contrast{Path: p.Name, Baseline: e.Baseline})
		}
	}
	return all
}

// contrasts reads which path is compared with which.
func (l *loader) contrasts(files []FileContrast) []result.Contrast {
	var out []result.Contrast
	first := map[string]int{} // to the line
	for i := range files {
		f, what := &files[i], fmt.Sprintf("contrast %d", i+1)
		c := result.Contrast{Path: string(f.Path), Baseline: l.pair(&f.Path, &f.Baseline, what)}
		key := inEitherOrder(c.Path, c.Baseline)
		if f.Against != nil {
			against := result.Contrast{Path: string(f.Against.Path), Baseline: l.pair(&f.Against.Path, &f.Against.Baseline, "against of "+what)}
			other := inEitherOrder(against.Path, against.Baseline)
			if key == other && against.Path != "" {
				l.Wrong(f.Against, "name another pair of paths", "%s is against itself", what)
			}
			c.Against, key = &against, inEitherOrder(key, other)
		}
		if line := first[key]; line > 0 && c.Path != "" {
			l.Wrong(f, fmt.Sprintf("leave it out; the first is at line %d", line), "%s compares what another one does", what)
		} else if line := l.Line(f); line > 0 {
			first[key] = line
		}
		out = append(out, c)
	}
	return out
}

// pair checks the two paths of a comparison and gives the second.
func (l *loader) pair(path, baseline *strict.NameText, what string) string {
	names := l.pathNames()
	l.Refers(path, "path of "+what, "path", names)
	l.Refers(baseline, "baseline of "+what, "path", names)
	reference := cmp.Or(*baseline, l.file.Baseline)
	if *path != "" && *path == reference {
		l.Wrong(path, "name another path", "%s compares path %q with itself", what, *path)
	}
	return string(reference)
}

// inEitherOrder is the same for (a, b) and (b, a).
func inEitherOrder(a, b string) string { return min(a, b) + " " + max(a, b) }
