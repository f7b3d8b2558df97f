// Package neighbour makes the runs that measure on one machine at the same time
// known to each other: they share its CPUs, and a report that does not say
// so is read wrongly. It never keeps a run from measuring.
//
// Every run listens on a socket in one folder for temporary files, which all
// users share, and calls the others there when it begins; either end says who it
// is. So both know at once, however short a run is, and when a run is killed the
// kernel ends its listening. Runs with a folder of their own for temporary files
// (a container, another TMPDIR) are not seen.
package neighbour

import "time"

// Run is what a run says of itself. A neighbour may say anything.
type Run struct {
	Experiment string    `json:"experiment"`
	Started    time.Time `json:"started"`
}
