package fleet

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// Where most clients reach nobody, the one that does is asked about all of their servers, of no
// more at the same time than it does: that it refuses the others would put the blame on them.
func TestOneWitnessOfMany(t *testing.T) {
	const pairs = 150
	y := newYard(t, time.Minute)
	var asked atomic.Int32
	tooMany := make(chan struct{})
	witness := func(probe.Request) error {
		if asked.Add(1) == 64 { // what an agent does at the same time
			close(tooMany)
		}
		defer asked.Add(-1)
		select {
		case <-tooMany:
		case <-time.After(10 * time.Millisecond): // as of a server far away
		}
		return nil
	}
	var names []string
	for _, role := range []string{"client", "server"} {
		for i := range pairs {
			name := fmt.Sprintf("%s-%03d", role, i)
			y.arrives(t, name, "role="+role, y.simulated(name, byte(i), witness))
			names = append(names, name)
		}
	}
	y.joined(t, names...)
	clients, _ := y.with("role=client")
	servers, _ := y.with("role=server")
	b := &Bed{fleet: y.Fleet, ways: y.Inventory.Paths}
	for i := range pairs {
		b.pairs = append(b.pairs, &pair{
			place: &place{client: clients[i], server: servers[i]}, proven: i == 0, why: errors.New("no route to host"), on: make([]testbed.Pair, len(b.ways)),
		})
	}
	unfit := b.blame(t.Context())
	for _, s := range servers {
		if why := unfit[s]; why != nil {
			t.Fatalf("%s is to blame: %v", s.Name, why)
		}
	}
	if len(unfit) != pairs-1 {
		t.Errorf("%d machines are to blame, not %d", len(unfit), pairs-1)
	}
}
