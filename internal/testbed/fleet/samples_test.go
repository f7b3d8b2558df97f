package fleet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What the flows of a fleet's tests count is on the coordinator's disk, by seat and attempt,
// through the broker.
func TestSamples(t *testing.T) {
	st, err := store.Create(t.TempDir(), store.Head{Name: "fw"})
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, st.Close()) })
	taken := collect.Open(collect.Options{Keeper: st, Run: "fw", Every: 10 * time.Millisecond})
	defer taken.Close()
	y := yardWith(t, time.Minute, taken, st)
	y.traces = func(string, netip.AddrPort) []measurement.TraceHop { return nil }
	y.machines(t, "c1", "c2", "s1", "s2")
	bed, err := y.Build(t.Context(), pairsOf(t, 2), nil)
	testutil.OK(t, err)
	defer func() { testutil.OK(t, bed.Close()) }()
	for attempt := 1; attempt <= 2; attempt++ {
		testutil.OK(t, testbed.Attempter(bed).Begin(t.Context(), "b01-firewall-bulk"))
		for _, pair := range bed.Paths()[1].Pairs {
			source, err := bed.Agent(pair.Source)
			testutil.OK(t, err)
			r := pair.Request
			r.ID, r.Spec.Kind = "b01-firewall-bulk", measurement.TCP
			if _, err := source.Run(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
			r.ID, r.Spec = "b01-firewall-bulk-fingerprint", testbed.TraceSpec()
			if _, err := source.Run(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		testutil.OK(t, taken.Drain(t.Context()))
		got := map[int]int64{}
		for b, err := range st.Samples(t.Context(), "b01-firewall-bulk") {
			testutil.OK(t, err)
			if b.Attempt != attempt {
				t.Errorf("a block of attempt %d, want %d", b.Attempt, attempt)
			}
			got[b.Seat] += b.Bytes
		}
		if len(got) != 2 || got[1] != 1000 || got[2] != 1000 {
			t.Errorf("attempt %d: bytes by seat %v", attempt, got)
		}
	}
	if n := taken.Dropped(); len(n) != 0 {
		t.Errorf("dropped %v", n)
	}
}
