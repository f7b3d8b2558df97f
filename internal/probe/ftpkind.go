package probe

import (
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
)

// segmentBytes is what each segment of a file takes of the server's memory.
const segmentBytes = 512 << 10

// ftpKind is the transfer of one file over FTP.
func ftpKind() kind {
	return kind{
		run:     runFTP,
		planned: func(measurement.Spec) time.Duration { return MaxDuration }, openEnded: true,
		files: func(spec measurement.Spec) int { return 2 * spec.Flows }, // a control connection beside each
		serve: func(env serverEnv) testServer {
			return &ftpTestServer{env: env, content: sync.OnceValue(ftp.NewContent)}
		},
		demand: func(spec measurement.Spec, d *admission.Cost) {
			// Its own connection, a listener, and for each segment a session, a listener
			// and a connection of data.
			n := int64(connections(spec))
			d[admission.Descriptors] = 2 + 3*n
			d[admission.Bytes] += n * segmentBytes
		},
		atOnce: func(measurement.Spec) int { return 1 },
	}
}
