// Package analysis turns trials into cells, costs with verdicts, and
// attributions. It is arithmetic on values in memory: it opens nothing, keeps
// nothing and draws from fixed seeds, so the same trials always give the same
// analysis, in whatever order they are handed over.
//
// The unit of replication is the trial. A path is compared with the baseline
// inside each block, and only the within-block effects are analysed.
// docs/methodology.md states every formula with its source.
package analysis
