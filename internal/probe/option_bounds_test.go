package probe_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// The table of kinds bounds options as the protocols do that carry them, which
// know nothing of it.
func TestBoundsAreThoseOfTheProtocols(t *testing.T) {
	file := kind.OptionNamed("file").For(measurement.FTP).Most
	segments := kind.OptionNamed("flows").For(measurement.FTP).Most
	if file != ftp.MaxFileBytes || segments != ftp.MaxSegments || kind.MaxIPerf3Streams != iperf3.MaxStreams {
		t.Errorf("files of %v bytes, %v segments, %d streams", file, segments, kind.MaxIPerf3Streams)
	}
	if shortest := kind.OptionNamed("duration").For(measurement.TCP).Least; shortest != session.MinBinWidth.Seconds() {
		t.Errorf("a test may last %v s, a bin %v", shortest, session.MinBinWidth)
	}
}
