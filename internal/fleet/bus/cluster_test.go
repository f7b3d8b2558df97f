package bus_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/broker/brokertest"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
)

// theirs is a cluster of three servers of somebody else's, at which a fleet may join.
type theirs struct {
	secret  join.Secret
	urls    string
	servers []*server.Server
	callout *broker.Callout
}

// startTheirs starts a cluster with what its administrator is told to add for a fleet.
func startTheirs(t testing.TB) *theirs {
	t.Helper()
	first, err := testutil.FreePorts(6)
	testutil.OK(t, err)
	var places []brokertest.Place
	for i := range uint16(3) {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), first+i)
		places = append(places, brokertest.Place{Clients: at, Routes: netip.AddrPortFrom(at.Addr(), first+3+i)})
	}
	c := &theirs{urls: brokertest.URLs(places)}
	var files []string
	c.secret, files, err = brokertest.Configure(t.TempDir(), "fw.join", fleet, places)
	testutil.OK(t, err)
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Shutdown()
			s.WaitForShutdown()
		}
	})
	for _, file := range files {
		s, err := brokertest.Start(file)
		testutil.OK(t, err)
		c.servers = append(c.servers, s)
	}
	for _, s := range c.servers {
		for s.NumRoutes() == 0 || !s.ReadyForConnections(time.Second) {
			if t.Context().Err() != nil {
				t.Fatal("the servers found no others")
			}
			time.Sleep(time.Millisecond)
		}
	}
	return c
}

// coordinate takes agents at the cluster.
func (c *theirs) coordinate(ctx context.Context, o bus.CoordinatorOptions) (*bus.Coordinator, error) {
	at, err := c.cluster()
	if err != nil {
		return nil, err
	}
	return bus.CoordinateAt(ctx, at, o)
}

// cluster is where a coordinator finds it.
func (c *theirs) cluster() (bus.Cluster, error) {
	key, sign, err := broker.ClusterLogin(c.secret)
	return bus.Cluster{
		URLs: c.urls, File: c.secret.File, Key: key, Sign: sign,
		Admit: func(listens func(string) bool) (_ bus.Admission, err error) {
			c.callout, err = broker.NewCallout(c.secret, 16, listens)
			return c.callout, err
		},
	}, err
}

// agent are the options of one that joins at the cluster, and answers.
func (c *theirs) agent(name string) bus.AgentOptions {
	o := (&yard{secret: c.secret}).optionsAt(strings.ReplaceAll(c.urls, "tls://", ""), name, nil)
	o.Serve = answers
	o.Hurry()
	return o
}

// Agents join at a cluster of somebody else's as they do at the broker of the coordinator:
// with the token and nothing else, under names of their own, and only while a coordinator
// admits them. What is under way goes on when a server is killed.
func TestCluster(t *testing.T) {
	c := startTheirs(t)
	arrived := make(chan bus.Arrival, 16)
	o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(a bus.Arrival) { arrived <- a }, OnRefused: func(who subject.Agent, err error) { t.Error(who.Name, err) }}
	o.Hurry()

	// Nobody admits anybody yet: an agent waits, and is let in once somebody does.
	early := c.agent("vm-0")
	states := away(&early)
	start(t, early)
	if err := take(t, states); err == nil || !strings.Contains(err.Error(), "to admit") {
		t.Error(err)
	}
	first, err := c.coordinate(t.Context(), o)
	testutil.OK(t, err)
	links := map[string]io.ReadWriteCloser{}
	for range 2 {
		if len(links) == 1 {
			start(t, c.agent("vm-1"))
		}
		a := take(t, arrived)
		links[a.Name] = a.Link
	}

	// Only one coordinator has a fleet.
	if _, err := c.coordinate(t.Context(), o); err == nil || !strings.Contains(err.Error(), "fleet fw has a coordinator, process ") {
		t.Error(err)
	}

	// What an agent may, and may not, is as at the embedded broker.
	eve, err := c.enter(t, "eve")
	testutil.OK(t, err)
	eve.mayNotRead(t, "hopbench.>", "$SYS.>", "_INBOX.>", ">", "$JS.>", "hopbench-fw-command.*")
	eve.mayNotWrite(t, "$SYS.REQ.USER.AUTH", "hopbench.fw.coordinator", "$JS.API.INFO", eve.Command(), "_INBOX.x")
	if _, err := c.enter(t, "mallory", nats.UserInfo("mallory", "no proof")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: %v", err)
	}
	second, err := c.enter(t, "vm-0") // the name of another
	testutil.OK(t, err)
	second.mayNotRead(t, second.Command())
	second.Close() // or it has the name before vm-0 is back, whose server is killed

	// One of three servers is killed.
	done := make(chan error, len(links))
	for _, link := range links {
		go func() { done <- ask(link, 2000) }()
	}
	killed := c.servers[busiest(t, c.servers)]
	killed.Shutdown()
	killed.WaitForShutdown()
	for range links {
		testutil.OK(t, take(t, done))
	}

	// An agent that was expelled is heard no more, and does not come back.
	start(t, c.agent("vm-2"))
	expelled := take(t, arrived)
	testutil.OK(t, c.callout.Expel(expelled.Agent))
	testutil.OK(t, expelled.Link.Close())
	start(t, c.agent("vm-3"))
	if a := take(t, arrived); a.Name != "vm-3" {
		t.Errorf("%s arrived", a.Name)
	}
	testutil.OK(t, first.Close())
}

// Of two coordinators that claim a fleet at the same moment one gets it.
func TestTwoClaimAFleet(t *testing.T) {
	c := startTheirs(t)
	for range 3 {
		o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(bus.Arrival) {}}
		o.Hurry()
		var got [2]*bus.Coordinator
		var errs [2]error
		var both sync.WaitGroup
		for i := range got {
			both.Go(func() { got[i], errs[i] = c.coordinate(t.Context(), o) })
		}
		both.Wait()
		have := 0
		for i, err := range errs {
			if err == nil {
				have++
				testutil.OK(t, got[i].Close())
			} else if !strings.Contains(err.Error(), "fleet fw has a coordinator, ") {
				t.Error(err)
			}
		}
		if have != 1 {
			t.Errorf("%d of two coordinators have the fleet", have)
		}
	}
}

// A coordinator that is asleep keeps its fleet, and is named as the reason.
func TestFleetOfOneAsleep(t *testing.T) {
	c := startTheirs(t)
	key, sign, err := broker.ClusterLogin(c.secret)
	testutil.OK(t, err)
	asleep, err := nats.Connect(c.urls, nats.Secure(c.secret.File.TLS()), nats.Nkey(key, sign))
	testutil.OK(t, err)
	defer asleep.Close()
	asked, err := asleep.SubscribeSync(subject.Coordinator(fleet))
	testutil.OK(t, err)
	testutil.OK(t, asleep.Flush())
	// Who is to end waits for it no longer.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.coordinate(ctx, bus.CoordinatorOptions{Fleet: fleet})
		ended <- err
	}()
	_, err = asked.NextMsgWithContext(t.Context())
	testutil.OK(t, err)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(bus.Arrival) {}}
	o.Hurry()
	if _, err := c.coordinate(t.Context(), o); err == nil || !strings.Contains(err.Error(), "fleet fw has a coordinator, which does not answer: end it") {
		t.Error(err)
	}
}

// Who stops the opening hears that, at whatever step it was.
func TestOpeningIsStopped(t *testing.T) {
	c := startTheirs(t)
	for _, stopAt := range []string{"connects", "has the fleet"} {
		ctx, cancel := context.WithCancel(t.Context())
		at, err := c.cluster()
		testutil.OK(t, err)
		sign, admit := at.Sign, at.Admit
		at.Sign = func(nonce []byte) ([]byte, error) {
			if stopAt == "connects" {
				cancel()
			}
			return sign(nonce)
		}
		at.Admit = func(listens func(string) bool) (bus.Admission, error) {
			cancel()
			return admit(listens)
		}
		if _, err := bus.CoordinateAt(ctx, at, bus.CoordinatorOptions{Fleet: fleet}); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped when it %s: %v", stopAt, err)
		}
	}
}

// The name of a machine that has died with its network, which a cluster finds out after minutes,
// is another's once nothing was heard of it for a lease.
func TestNameOfTheDeadAtACluster(t *testing.T) {
	c := startTheirs(t)
	arrived := make(chan bus.Arrival, 1)
	o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(a bus.Arrival) { arrived <- a }}
	o.Hurry()
	first, err := c.coordinate(t.Context(), o)
	testutil.OK(t, err)
	defer func() { testutil.OK(t, first.Close()) }()
	dead, err := c.enter(t, "vm-0") // which says nothing, and whose connection is there
	testutil.OK(t, err)
	_, err = dead.SubscribeSync(dead.Command())
	testutil.OK(t, err)
	testutil.OK(t, dead.Flush())
	start(t, c.agent("vm-0"))
	if a := take(t, arrived); a.Key == dead.Key {
		t.Error("the dead arrived")
	}
}

// busiest is the server with most connections.
func busiest(t testing.TB, all []*server.Server) (most int) {
	t.Helper()
	for i, s := range all {
		if s.NumClients() > all[most].NumClients() {
			most = i
		}
	}
	return most
}

// enter connects with what an agent of that name says, changed by options.
func (c *theirs) enter(t testing.TB, name string, change ...nats.Option) (*stranger, error) {
	t.Helper()
	return enterAt(t, c.urls, c.secret.File, name, change...)
}
