package pathtest

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/linkem/linktest"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Between two ends whose clocks are seconds apart (time_namespaces(7)), on a path that
// takes five times as long back as there, the one-way delay of each direction is what was
// planted, within the bound that is stated, which is half of the way there and back.
func TestOneWayDelayOfUnlikeDirections(t *testing.T) {
	testutil.Need(t, testutil.Entered(), "a user namespace or root")
	const there, back = time.Millisecond, 5 * time.Millisecond
	config := linkem.Config{Forward: linkem.Direction{Delay: there}, Backward: linkem.Direction{Delay: back}}
	pair, err := linktest.NewPair(linkem.Packet, config)
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, pair.Close()) })
	emulator, err := linkem.New(pair.Ports[0], pair.Ports[1], config)
	testutil.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- emulator.Run(ctx) }()
	t.Cleanup(func() { stop(); testutil.OK(t, <-ended) })
	in := func(end int) func(func()) {
		return func(f func()) { testutil.OK(t, pair.Do(end, func() error { f(); return nil })) }
	}
	target := serveIn(t, in(1), netip.AddrPortFrom(pair.Address4(1), 0))

	for _, c := range []struct {
		ahead     string // the client's clock, in seconds
		direction measurement.Direction
		want      time.Duration
	}{
		{"10", measurement.Send, there}, {"10", measurement.Receive, back},
		{"-10", measurement.Send, there}, {"-10", measurement.Receive, back},
	} {
		elsewhere := []string{"unshare", "--time", "--monotonic", c.ahead, "--fork"}
		out, err := exec.Command(elsewhere[0], append(elsewhere[1:], "true")...).CombinedOutput()
		testutil.Need(t, err == nil, "time namespaces (unshare --time, CONFIG_TIME_NS): "+string(out))
		spec := measurement.Spec{
			Kind: measurement.UDP, Direction: c.direction, PacketBytes: 200, RateBitsPerSecond: 1e6, Duration: 0.3, MaxWarmup: 0.05,
		}
		a := runIn(t, in(0), probe.Request{ID: "clocks", Spec: spec, Target: target}, elsewhere...)
		min, bound := a.Metrics["one_way_delay_min_seconds"], a.Metrics["one_way_delay_bound_seconds"]
		if a.Error != "" || a.OneWay == nil || !strings.Contains(strings.Join(a.Facts, "; "), "exchanges of stamps") {
			t.Fatalf("%+v: %s, facts %q", c, a.Error, a.Facts)
		}
		// No packet is faster than was planted; a busy machine makes the fastest slower.
		if off := c.want.Seconds() - min; off > bound {
			t.Errorf("%+v: %v s ± %v s, want no less than %v", c, min, bound, c.want)
		}
		if half := (there + back).Seconds() / 2; bound < half {
			t.Errorf("%+v: ± %v s, and half of the way there and back is %v s", c, bound, half)
		}
		t.Logf("%s, the client's clock %s s ahead: %.3f ms ± %.3f ms, planted %v", c.direction, c.ahead, min*1e3, bound*1e3, c.want)
	}
}
