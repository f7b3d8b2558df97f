// Package ftp measures the transfer of one file over FTP, from or to this project's server, or
// from a stock one.
package ftp

import (
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// SegmentBytes is what each segment of a file takes of the server's memory.
const SegmentBytes = 512 << 10

// Kind is the transfer of one file over FTP.
func Kind() session.Kind {
	return session.Kind{
		Run:     Run,
		Planned: func(measurement.Spec) time.Duration { return kind.MaxDuration }, OpenEnded: true,
		Files: func(spec measurement.Spec) int { return 2 * spec.Flows }, // a control connection with each
		NewServer: func(env session.ServerEnv) session.Server {
			return &server{env: env, content: sync.OnceValue(ftp.NewContent)}
		},
		Demand: func(spec measurement.Spec, d *admission.Cost) {
			// Its own connection, a listener, and for each segment a session, a listener
			// and a connection of data.
			n := int64(kind.Connections(spec))
			d[admission.Descriptors] = 2 + 3*n
			d[admission.Bytes] += n * SegmentBytes
		},
		AtOnce: func(measurement.Spec) int { return 1 },
	}
}
