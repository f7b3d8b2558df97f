package tcp

import (
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// The server's end of a flow takes no more memory than its kind says of the whole test.
func FuzzMemory(f *testing.F) {
	near, _ := probetest.AttachedConns(f)
	near.Guard = &session.Guard{}
	f.Add(uint16(1), 1.0, 0.3, false, false)
	f.Add(uint16(64), 3600.0, 0.0, true, false)
	f.Add(uint16(65), 1.0, 0.0, true, true)
	f.Add(uint16(kind.MaxFlows), 86400.0, 86400.0, false, true)
	f.Fuzz(func(t *testing.T, flows uint16, duration, warmup float64, both, copied bool) {
		spec := measurement.Spec{
			Kind: measurement.TCP, Direction: measurement.Send, Flows: min(int(flows), kind.MaxFlows), CopyPayload: copied,
			Duration: measurement.Seconds(duration), MaxWarmup: measurement.Seconds(warmup),
		}
		if both {
			spec.Direction = measurement.Both
		}
		if limit := kind.MaxDuration.Seconds(); flows == 0 || !(duration >= session.MinBinWidth.Seconds() && duration <= limit && warmup >= 0 && warmup <= limit) {
			return
		}
		shared := newBulk()
		makeOne := func() { newReceiver(near, spec, shared.buffer(near.Conn, spec, 1), true) }
		makeOne() // makes what all flows share
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		makeOne()
		runtime.ReadMemStats(&after)
		// What the other flows take is the same; the host's own garbage is the slack.
		n, cost := int64(kind.Connections(spec)), Kind().Cost(spec)
		if made := int64(after.TotalAlloc-before.TotalAlloc) * n; made > cost[admission.Bytes]+n*(64<<10) {
			t.Fatalf("%d bytes are made for a test that is to take %d: %+v", made, cost[admission.Bytes], spec)
		}
	})
}
