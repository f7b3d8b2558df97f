package statistics

import "math"

// Holm corrects the p values of a family by Holm's step-down method (1979).
// size is the family's size; it may exceed len(p) when members without a p
// belong to the family.
func Holm(p []float64, size int) []float64 {
	out := make([]float64, len(p))
	running := 0.0
	for step, i := range Ascending(p) {
		running = math.Max(running, math.Min(1, float64(size-step)*p[i]))
		out[i] = running
	}
	return out
}
