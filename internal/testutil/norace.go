//go:build !race

package testutil

// RaceEnabled says whether the race detector watches.
const RaceEnabled = false
