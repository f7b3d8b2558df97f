package udp

import (
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The server's end of a flow takes no more memory than its kind says of the whole test.
func FuzzMemory(f *testing.F) {
	near, _ := probetest.AttachedConns(f)
	near.Guard = &session.Guard{}
	packets := probetest.UDPSocket(f, probetest.Nobody)
	f.Add(uint16(1), 1.0, uint16(0), 0.0, false)
	f.Add(uint16(1024), 86400.0, uint16(1000), 1e6, false)
	f.Add(uint16(1), 1.0, uint16(65507), 0.0, true)
	f.Add(uint16(4), 1.0, uint16(0), 0.0, true)
	f.Fuzz(func(t *testing.T, flows uint16, duration float64, size uint16, rate float64, sends bool) {
		spec := measurement.Spec{
			Kind: measurement.UDP, Direction: measurement.Send, Flows: int(flows), PacketBytes: int(size),
			Duration: measurement.Seconds(duration), RateBitsPerSecond: rate,
		}
		if sends { // the server
			spec.Direction = measurement.Receive
		}
		if flows == 0 || flows > 1024 || size > 65507 || size > 0 && size < 32 || !(rate >= 0 && rate <= 1e13) ||
			!(duration >= session.MinBinWidth.Seconds() && duration <= kind.MaxDuration.Seconds()) {
			return
		}
		var pages packetPages
		defer func() {
			if err := pages.close(); err != nil {
				t.Error(err)
			}
		}()
		makeOne := func() error {
			cookie := make([]byte, protocol.CookieBytes)
			if sends {
				_, err := newSender(near, packets, spec, cookie, &pages)
				return err
			}
			_, err := newReceiver(near, packets, spec, cookie)
			return err
		}
		if err := makeOne(); err != nil { // makes what all flows share
			if reason := session.ReasonOf(err); reason != session.Unsupported && reason != session.Failed {
				t.Fatalf("%v: %+v", err, spec)
			}
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		testutil.OK(t, makeOne())
		runtime.ReadMemStats(&after)
		// What the other flows take is the same; the host's own garbage is the slack.
		n, cost := int64(flows), Kind().Cost(spec)
		if made := int64(after.TotalAlloc-before.TotalAlloc) * n; made > cost[admission.Bytes]+n*(64<<10) {
			t.Fatalf("%d bytes are made for a test that is to take %d: %+v", made, cost[admission.Bytes], spec)
		}
	})
}
