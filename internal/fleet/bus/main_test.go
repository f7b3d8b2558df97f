package bus_test

import (
	"context"
	"io"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fleet = "fw"

// yard is a broker with its coordinator.
type yard struct {
	broker  *broker.Broker
	secret  join.Secret
	bus     *bus.Coordinator
	arrived chan bus.Arrival
	refused chan error
}

func newYard(t testing.TB) *yard {
	t.Helper()
	return newYardAt(t, netip.MustParseAddrPort("127.0.0.1:0"))
}

func newYardAt(t testing.TB, at netip.AddrPort) *yard {
	t.Helper()
	secret, _, err := join.Open(filepath.Join(t.TempDir(), "fw.join"), fleet)
	testutil.OK(t, err)
	b, err := broker.Start(broker.Options{Listen: at, Secret: secret, MaxAgents: 16})
	testutil.OK(t, err)
	y := &yard{broker: b, secret: secret, arrived: make(chan bus.Arrival, 100), refused: make(chan error, 16)}
	t.Cleanup(func() { testutil.OK(t, b.Close()) })
	o := bus.CoordinatorOptions{
		Fleet: fleet, OnArrival: func(a bus.Arrival) { y.arrived <- a },
		OnRefused: func(_ subject.Agent, why error) { y.refused <- why },
	}
	o.Hurry()
	y.bus, err = bus.Coordinate(b, o)
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, y.bus.Close()) })
	return y
}

// options are those of an agent that hands its links to a test.
func (y *yard) options(name string, links chan<- io.ReadWriteCloser) bus.AgentOptions {
	return y.optionsAt(y.broker.Addr().String(), name, links)
}

func (y *yard) optionsAt(address, name string, links chan<- io.ReadWriteCloser) bus.AgentOptions {
	return bus.AgentOptions{
		Address: address, File: y.secret.File, Name: name,
		Hello: bus.Hello{Version: "test", Labels: []string{"role=client"}},
		Serve: func(ctx context.Context, link io.ReadWriteCloser) error {
			defer link.Close()
			links <- link
			<-ctx.Done()
			return nil
		},
	}
}

// away gives why an agent is away, whenever it is.
func away(o *bus.AgentOptions) <-chan error {
	why := make(chan error, 64)
	o.OnState = func(s bus.State, err error) {
		if s == bus.Away {
			why <- err
		}
	}
	return why
}

// start has an agent join until the test ends, or stop is called.
func start(t testing.TB, o bus.AgentOptions) (stop func() error) {
	t.Helper()
	if o.OnState == nil {
		o.OnState = func(s bus.State, err error) { t.Log(o.Name, s, err) }
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bus.Join(ctx, o) }()
	var ended bool
	var err error
	stop = func() error {
		if !ended {
			cancel()
			err, ended = <-done, true
		}
		return err
	}
	t.Cleanup(func() { testutil.OK(t, stop()) })
	return stop
}

// take waits for what a channel brings.
func take[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
