package result

import "github.com/hopbench/hopbench/internal/measurement"

// Sampled is what the flows of a fleet's clients counted while a trial went on, all flows of
// a client together.
type Sampled struct {
	// Error is why they cannot be read; the rest is empty then.
	Error string
	// Step is how long each step is.
	Step    measurement.Seconds
	Samples int64 // of which it was made
	// Clients are those of the trial's pairs, in their order.
	Clients []SampledClient
}

// SampledClient is what one machine counted.
type SampledClient struct {
	Name string
	// Parts are what is known, in the order of time: none of a client that sent nothing.
	Parts []SampledPart
	// Damaged are the blocks of samples that cannot be read, and are left out.
	Damaged int
}

// SampledPart is a time without a hole in it.
type SampledPart struct {
	First int     // of its steps, counted from 0 at the trial's start
	Bytes []int64 // of each step
}
