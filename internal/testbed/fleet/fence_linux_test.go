package fleet

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A client that slept through its lease is refused by its server when it wakes, and its load
// has ended by then: the server listens with the token of the next generation, and no other.
func TestSleeperIsFenced(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, sleeperIsFenced)
}

func sleeperIsFenced(t *testing.T) {
	testutil.OK(t, testutil.LoopbackUp())
	y := newYard(t, time.Minute)
	y.Inventory.Queue.Lease = shortestLease
	for i := range y.Inventory.Paths {
		y.Inventory.Paths[i].Network = netip.MustParsePrefix("127.0.0.0/8")
	}
	s := &sleeper{}
	y.agent(t, "c1", "role=client", s.link, agent.Options{Lease: time.Minute})
	y.agent(t, "s1", "role=server", nil, agent.Options{Lease: time.Minute})
	bed := y.build(t, 1)
	before := bed.Paths()[0].Pairs[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	load := make(chan error, 1)
	go func() {
		r := before.Request
		r.Spec = measurement.Spec{Kind: measurement.UDP, Duration: 3000, RateBitsPerSecond: 1e5}.Defaults()
		_, err := probe.Run(ctx, r, nil)
		load <- err
	}()
	wake := s.sleeps()
	t.Cleanup(wake)
	y.agent(t, "c2", "role=client", nil, agent.Options{Lease: time.Minute})
	for bed.Paths()[0].Pairs[0].Source == "c1" {
		<-bed.Done()
		testutil.OK(t, bed.Close())
		bed = y.build(t, 1)
	}
	if err := <-load; err == nil {
		t.Error("the load of a client that slept through its lease goes on")
	}
	wake()
	y.joined(t, "c1", "c2")
	clients, _ := y.with("role=client")
	after := bed.Paths()[0].Pairs[0]
	if after.Request.Target != before.Request.Target {
		t.Errorf("the server is at %v, and was at %v", after.Request.Target, before.Request.Target)
	}
	for _, where := range []func(context.Context, probe.Request) (probe.Proof, error){clients[0].client.Prove, probe.Prove} {
		if _, err := where(t.Context(), before.Request); probe.ReasonOf(err) != probe.Unauthorized {
			t.Errorf("with the token of an earlier generation: %v", err)
		}
		_, err := where(t.Context(), after.Request) // so it is the token
		testutil.OK(t, err)
	}
	testutil.OK(t, bed.Close())
}
