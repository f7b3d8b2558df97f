package tcpinfo

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// What a system does not tell of a connection is a fact of the result.
func TestInfoSamplerSaysWhatIsUnknown(t *testing.T) {
	unknown := Sampler{err: sockets.ErrUnsupported}
	if facts := unknown.Facts(); len(facts) != 1 || !strings.Contains(facts[0], sockets.ErrUnsupported.Error()) {
		t.Errorf("%q", facts)
	}
	ended := Sampler{err: sockets.ErrUnsupported, Final: &measurement.TCPInfo{}}
	if facts := ended.Facts(); facts != nil {
		t.Errorf("%q after a connection that was sampled", facts)
	}
}
