package ftp

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// checkTransfers compares the server's view of the segments of a file that it sent
// with what came of each.
func checkTransfers(r protocol.Report, segments []ftp.Segment, size int64) error {
	arrived := map[int64]int64{}
	for _, s := range segments {
		arrived[s.Offset] = s.Bytes
	}
	for _, x := range r.Transfers {
		came, known := arrived[x.Offset]
		if !known || x.Bytes < came || x.Bytes > size-x.Offset {
			return fmt.Errorf("%w: %d bytes were sent of a file of %d from byte %d on, of which %d came", protocol.ErrMalformed, x.Bytes, size, x.Offset, came)
		}
	}
	return nil
}

// checkStored compares the server's view of the file that it received, in less than
// took, with itself.
func checkStored(r protocol.Report, took time.Duration) error {
	if len(r.Transfers) != 1 {
		return fmt.Errorf("%w: %d files were stored, want 1", protocol.ErrMalformed, len(r.Transfers))
	}
	x := r.Transfers[0]
	if x.Offset != 0 || x.Bins == nil || !(x.Took > 0 && x.Took <= measurement.SecondsOf(took)) {
		return fmt.Errorf("%w: a file was stored from byte %d on in %v s of %v", protocol.ErrMalformed, x.Offset, x.Took, took)
	}
	if sum := session.Sum(x.Bins.Bytes); !(x.Bins.Width > 0) || sum != float64(x.Bytes) {
		return fmt.Errorf("%w: a file of %d bytes in bins of %v s with %.0f bytes", protocol.ErrMalformed, x.Bytes, x.Bins.Width, sum)
	}
	return nil
}
