package hostinfo

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// processorPerformance is SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION.
type processorPerformance struct {
	Idle, Kernel, User int64
	Reserved1          [2]int64
	Reserved2, _       uint32
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	testutil.OK(t, err)
	return b
}

func TestWindowsProcessors(t *testing.T) {
	const second = int64(time.Second / (100 * time.Nanosecond))
	b := encode(t, []processorPerformance{
		{Idle: 6 * second, Kernel: 7 * second, User: 3 * second},
		{Idle: 9 * second, Kernel: 9 * second, User: 1 * second},
	})
	got, err := windowsProcessors(b)
	if err != nil || got.CPUs != 2 || got.Total != 20*time.Second || got.Busy != 5*time.Second ||
		got.Each[0] != 4*time.Second || got.Each[1] != time.Second {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := windowsProcessors(b[:windowsProcessorBytes-1]); err == nil {
		t.Error("a short answer was understood")
	}
}

func FuzzWindowsProcessors(f *testing.F) {
	f.Add(encode(f, []processorPerformance{{1, 2, 3, [2]int64{}, 0, 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := windowsProcessors(b); err == nil && p.CPUs != len(b)/windowsProcessorBytes {
			t.Errorf("%d processors in %d bytes", p.CPUs, len(b))
		}
	})
}
