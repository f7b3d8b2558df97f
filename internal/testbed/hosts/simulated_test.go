package hosts

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

const twoPaths = `format: hopbench.experiment/1
name: two
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: one
paths:
  - {name: one, hops: [{type: link}]}
  - {name: other, hops: [{type: link}]}
tests:
  - {name: latency, kind: rr, duration: 100ms}
`

// machine is an end that is simulated: addresses by interface, and what a trace of a path shows,
// by the address that it goes to.
type machine struct {
	interfaces map[string][]string
	traces     map[string][]measurement.TraceHop
}

// client is whom a destination sees.
var client = netip.MustParseAddrPort("10.0.0.1:40000")

// simulated are the experiment above and a testbed of two simulated machines, a and b.
func simulated(t *testing.T, machines map[string]machine, paths ...inventory.Path) (*inventory.Inventory, *experiment.Experiment, Options) {
	t.Helper()
	e, err := experiment.Load("two.yaml", []byte(twoPaths))
	testutil.OK(t, err)
	in := inventory.Inventory{Name: "two", Paths: paths, Endpoints: []inventory.Endpoint{
		{Name: "a", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: "a"}}, {Name: "b", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: "b"}},
	}}
	return &in, e.OnHosts(), Options{Dial: func(_ context.Context, e inventory.Endpoint) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		// It ends with its connection, which the test closes.
		go func() {
			_ = agent.Serve(context.Background(), far, agent.Options{Simulated: machines[e.Name].simulation(e.Name)})
		}()
		return near, nil
	}}
}

// checkSimulated is what a check finds there.
func checkSimulated(t *testing.T, machines map[string]machine, paths ...inventory.Path) (findings []testbed.Finding) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // it follows clocks for seconds
		in, e, o := simulated(t, machines, paths...)
		var err error
		findings, err = Check(t.Context(), in, e, o)
		testutil.OK(t, err)
	})
	return findings
}

func (m machine) simulation(name string) *agent.Simulation {
	hello := agent.Hello{Host: name, HostID: name, NetworkID: name}
	for device, addresses := range m.interfaces {
		one := agent.Interface{Name: device, MTUBytes: 1500}
		for _, a := range addresses {
			one.Addresses = append(one.Addresses, netip.MustParseAddr(a))
		}
		hello.Interfaces = append(hello.Interfaces, one)
	}
	return &agent.Simulation{
		Hello: hello, Clock: clock.Start(),
		Run: func(_ context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			key := r.Target.Addr()
			if key == client.Addr() {
				key = r.Source // back
			}
			return measurement.Outcome{Metrics: measurement.Metrics{"path_mtu_bytes": 1500}, Hops: m.traces[key.String()]}, nil
		},
		Prove: func(_ context.Context, r probe.Request) (probe.Proof, error) {
			return probe.Proof{Client: client, Server: r.Target, ReceivedTTL: 64}, nil
		},
	}
}

// hops are those of a trace, the last of which is its end if it reached that.
func hops(reached bool, addresses ...string) (all []measurement.TraceHop) {
	for i, a := range addresses {
		all = append(all, measurement.TraceHop{TTL: i + 1, Address: a, Reached: reached && i == len(addresses)-1})
	}
	return all
}

// says says whether there is a finding with a text.
func says(findings []testbed.Finding, text string) bool {
	for _, f := range findings {
		if strings.Contains(f.String(), text) {
			return true
		}
	}
	return false
}

func pathTo(name, to string, proof result.PathProof) inventory.Path {
	return inventory.Path{Name: name, To: netip.AddrPortFrom(netip.MustParseAddr(to), 0), DSCP: -1, Proof: proof}
}

// Paths look the same whose routers are the same. A trace that does not reach its end, as one
// back to a host that answers nobody, shows routers alone.
func TestPathsThatLookTheSame(t *testing.T) {
	for _, c := range []struct {
		name       string
		proof      result.PathProof
		one, other []measurement.TraceHop
		same       bool
	}{
		{"there, by one router", result.ProofTrace, hops(true, "10.9.0.1", "10.0.1.7"), hops(true, "10.9.0.1", "10.0.2.7"), true},
		{"there, by two", result.ProofTrace, hops(true, "10.9.0.1", "10.0.1.7"), hops(true, "10.9.0.2", "10.0.2.7"), false},
		{"back, by one router", result.ProofTraceBack, hops(false, "10.9.0.1", ""), hops(false, "10.9.0.1", ""), true},
		{"back, by two", result.ProofTraceBack, hops(false, "10.9.0.1", ""), hops(false, "10.9.0.2", ""), false},
		{"back, by two behind one", result.ProofTraceBack, hops(false, "10.9.0.9", "10.9.0.1", ""), hops(false, "10.9.0.9", "10.9.0.2", ""), false},
		{"back to the end", result.ProofTraceBack, hops(true, "10.9.0.1", "10.0.0.1"), hops(true, "10.9.0.1", "10.0.0.1"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			traces := map[string][]measurement.TraceHop{"10.0.1.7": c.one, "10.0.2.7": c.other}
			findings := checkSimulated(t, map[string]machine{
				"a": {map[string][]string{"eth0": {"10.0.0.1"}}, traces}, "b": {map[string][]string{"eth0": {"10.0.1.7", "10.0.2.7"}}, traces},
			}, pathTo("one", "10.0.1.7", c.proof), pathTo("other", "10.0.2.7", c.proof))
			if says(findings, "look the same to a trace") != c.same {
				t.Errorf("look the same: %v is wrong: %v", !c.same, findings)
			}
		})
	}
}

// What the file expects of a path, and a check sees otherwise, is wrong before a trial is.
func TestPathThatIsNotExpected(t *testing.T) {
	for _, c := range []struct {
		name   string
		proof  result.PathProof
		expect inventory.Expectation
		trace  []measurement.TraceHop
		wrong  string
	}{
		{"as expected", result.ProofTrace, inventory.Expectation{Hops: 2, ReceivedTTL: 64, PathMTUBytes: 1500}, hops(true, "10.9.0.1", "10.0.1.7"), ""},
		{"other hops", result.ProofTrace, inventory.Expectation{Hops: 3}, hops(true, "10.9.0.1", "10.0.1.7"), "a trace shows 2 hops, 10.9.0.1 10.0.1.7, but `expect:` has 3"},
		{"other hops back", result.ProofTraceBack, inventory.Expectation{Hops: 1}, hops(true, "10.9.0.1", "10.0.0.1"), "a trace shows 2 hops"},
		{"back, and it does not reach", result.ProofTraceBack, inventory.Expectation{Hops: 1}, hops(false, "10.9.0.1", ""), ""},
		{"hops that vary", result.ProofTrace, inventory.Expectation{Hops: 1}, []measurement.TraceHop{{TTL: 1, Address: "10.9.0.1", Varies: true}, {TTL: 2, Address: "10.0.1.7", Reached: true}}, ""},
		{"another TTL", result.ProofTrace, inventory.Expectation{ReceivedTTL: 63}, hops(true, "10.0.1.7"), "packets arrive with a TTL of 64, but `expect:` has 63"},
		{"another MTU", result.ProofTrace, inventory.Expectation{PathMTUBytes: 1400}, hops(true, "10.0.1.7"), "carries packets of 1500 B, but `expect:` has 1400 B"},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := pathTo("one", "10.0.1.7", c.proof)
			one.Expect = c.expect
			traces := map[string][]measurement.TraceHop{"10.0.1.7": c.trace, "10.0.2.7": hops(true, "10.9.0.2", "10.0.2.7")}
			findings := checkSimulated(t, map[string]machine{
				"a": {map[string][]string{"eth0": {"10.0.0.1"}}, traces}, "b": {map[string][]string{"eth0": {"10.0.1.7", "10.0.2.7"}}, traces},
			}, one, pathTo("other", "10.0.2.7", ""))
			wrong := slices.ContainsFunc(findings, func(f testbed.Finding) bool { return f.Severity == testbed.Wrong })
			if wrong != (c.wrong != "") || !says(findings, c.wrong) {
				t.Errorf("want %q, found %v", c.wrong, findings)
			}
		})
	}
}

// On one link each end has its own name of the interface, and may have no other address.
func TestPathOnALink(t *testing.T) {
	in, e, o := simulated(t, map[string]machine{
		"a": {interfaces: map[string][]string{"eth0": {"10.0.0.1", "fe80::1"}}}, "b": {interfaces: map[string][]string{"ens4": {"fe80::7", "10.0.2.7"}}},
	}, pathTo("one", "fe80::7%eth0", ""), pathTo("other", "10.0.2.7", ""))
	h := begin(in, e, o)
	testutil.OK(t, h.do(t.Context(), h.reach, h.place))
	if one, want := h.places[0], netip.MustParseAddrPort("[fe80::7%ens4]:5201"); one.listen != want || one.to != netip.MustParseAddrPort("[fe80::7%eth0]:5201") {
		t.Errorf("goes to %v and listens at %v, not at %v", one.to, one.listen, want)
	}
	testutil.OK(t, h.Close())
}

// An agent that takes the connection and says nothing, as one that was stopped, holds up nobody
// for good.
func TestAgentThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := inventory.Inventory{Name: "mute", Endpoints: []inventory.Endpoint{{Name: "a", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: "a"}}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		findings, err := Check(ctx, &in, nil, Options{Dial: func(context.Context, inventory.Endpoint) (io.ReadWriteCloser, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}})
		testutil.OK(t, err)
		const want = "endpoint a: its agent was reached and does not answer in 1m0s: see whether it is stopped, and start it anew"
		if len(findings) != 1 || findings[0].Severity != testbed.Wrong || findings[0].String() != want {
			t.Errorf("found %v", findings)
		}
	})
}

// An end that answered before is waited for a while, for less where nobody is there any more: what
// starts an agent again does so soon.
func TestAgentThatWasStopped(t *testing.T) {
	for _, test := range []struct {
		name  string
		again bool
		away  time.Duration
		err   error
		lacks bool
	}{
		{name: "at the start", away: 5 * time.Second, err: io.EOF, lacks: true},
		{name: "in the middle of a run", again: true, away: 45 * time.Second, err: io.EOF},
		{name: "for good", again: true, away: time.Hour, err: io.EOF, lacks: true},
		{name: "started again", again: true, away: 12 * time.Second, err: syscall.ECONNREFUSED},
		{name: "ended", again: true, away: 45 * time.Second, err: syscall.ECONNREFUSED, lacks: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := inventory.Inventory{Name: "away", Endpoints: []inventory.Endpoint{{Name: "a", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: "a"}}}}
				back := time.Now().Add(test.away)
				h := begin(&in, nil, Options{Again: test.again, Dial: func(context.Context, inventory.Endpoint) (io.ReadWriteCloser, error) {
					if time.Now().Before(back) {
						time.Sleep(time.Second)
						return nil, test.err
					}
					near, far := net.Pipe()
					go func() { _ = agent.Serve(t.Context(), far, agent.Options{}) }()
					return near, nil
				}})
				h.reach(t.Context())
				if err := h.wrong(); (err != nil) != test.lacks {
					t.Errorf("found %v", err)
				}
				testutil.OK(t, h.Close())
				synctest.Wait()
			})
		})
	}
}

// A server that answered before is waited for as an agent is.
func TestServerThatWasStopped(t *testing.T) {
	for _, test := range []struct {
		name   string
		again  bool
		away   time.Duration
		reason probe.Reason
		lacks  bool
	}{
		{"at the start", false, 5 * time.Second, probe.TimedOut, true},
		{"in the middle of a run", true, 45 * time.Second, probe.TimedOut, false},
		{"for good", true, time.Hour, probe.TimedOut, true},
		{"started again", true, 12 * time.Second, probe.Refused, false},
		{"ended", true, 45 * time.Second, probe.Refused, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := machine{interfaces: map[string][]string{"eth0": {"10.0.0.1"}}}
				in, e, o := simulated(t, nil, pathTo("one", "10.0.1.7", ""), pathTo("other", "10.0.2.7", ""))
				in.Endpoints[1].Reach.Scheme = inventory.ReachServe
				back := time.Now().Add(test.away)
				o.Again = test.again
				o.Dial = func(context.Context, inventory.Endpoint) (io.ReadWriteCloser, error) {
					near, far := net.Pipe()
					a := source.simulation("a")
					proves := a.Prove
					a.Prove = func(ctx context.Context, r probe.Request) (probe.Proof, error) {
						if time.Now().Before(back) {
							time.Sleep(3 * time.Second)
							return probe.Proof{}, &probe.Error{Op: "connect", Reason: test.reason, Err: io.EOF}
						}
						return proves(ctx, r)
					}
					go func() { _ = agent.Serve(t.Context(), far, agent.Options{Simulated: a}) }()
					return near, nil
				}
				h := begin(in, e, o)
				if err := h.do(t.Context(), h.reach, h.place, h.listen, h.awaitServer, h.prove); (err != nil) != test.lacks {
					t.Errorf("found %v", err)
				}
				testutil.OK(t, h.Close())
				synctest.Wait()
			})
		})
	}
}
