package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/hosts"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

const yard = `format: hopbench.experiment/1
name: yard
endpoints: [{name: a, egress_rate: 1Gbit}, {name: b}]
source: a
destination: b
baseline: direct
blocks: 2
scale: 1:10
paths:
  - {name: direct, hops: [{type: link}]}
  - {name: routed, hops: [{type: router, name: fw, rate: 500Mbit}]}
  - {name: translated, hops: [{type: nat, name: public, translate: both}]}
tests:
  - {name: latency, kind: rr, duration: 100ms, max_warmup: 10ms}
`

// network is that of the experiment above, in which agents can be started.
type network struct {
	t         *testing.T
	lab       *lab.Lab
	e         *experiment.Experiment
	inventory inventory.Inventory
	agents    sync.WaitGroup

	mu    sync.Mutex
	kills map[string]context.CancelFunc // of the last agent at each node
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	return networkOf(t, yard)
}

// networkOf is that of an experiment with other tests.
func networkOf(t *testing.T, text string) *network {
	t.Helper()
	e, err := experiment.Load("yard.yaml", []byte(text))
	testutil.OK(t, err)
	topology, paths, err := lab.FromExperiment(e)
	testutil.OK(t, err)
	n := &network{t: t, e: e.OnHosts(), kills: map[string]context.CancelFunc{}}
	n.lab, err = lab.Start(t.Context(), topology, lab.Options{NodeCommand: []string{"agent"}})
	testutil.Need(t, err == nil, fmt.Sprintf("a machine on which labs can be made: %v", err))
	t.Cleanup(func() {
		if err := n.lab.Close(); err != nil {
			t.Error(err)
		}
		n.agents.Wait()
	})
	n.inventory = inventory.Inventory{Name: "yard", Endpoints: []inventory.Endpoint{
		{Name: "a", Reach: inventory.Reach{Scheme: inventory.ReachSSH, Host: paths[0].SourceNode}, EgressBitsPerSecond: 1e9},
		{Name: "b", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: paths[0].DestinationNode}},
	}}
	for _, p := range paths {
		n.inventory.Paths = append(n.inventory.Paths, inventory.Path{
			Name: p.Name, From: p.Source, To: netip.AddrPortFrom(p.Destination, 0), Listen: netip.AddrPortFrom(p.Listen, 0), DSCP: -1,
		})
	}
	return n
}

// dial starts an agent at the node that an endpoint names as its host.
func (n *network) dial(_ context.Context, e inventory.Endpoint) (io.ReadWriteCloser, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	near, far := os.NewFile(uintptr(pair[0]), "near"), os.NewFile(uintptr(pair[1]), "far")
	defer near.Close()
	conn, err := net.FileConn(near)
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	ctx, kill := context.WithCancel(context.Background())
	n.mu.Lock()
	n.kills[e.Name] = kill
	n.mu.Unlock()
	n.agents.Go(func() {
		defer kill()
		defer far.Close()
		// What a killed agent exits with is of no interest.
		_, _ = n.lab.Exec(ctx, e.Reach.Host, lab.Command{Argv: []string{"/proc/self/exe", agentOnInput}, Stdin: far, Stderr: os.Stderr})
	})
	return conn, nil
}

func (n *network) kill(endpoint string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kills[endpoint]()
}

// filter adds rules of nft at the node of an endpoint.
func (n *network) filter(t *testing.T, endpoint int, rules string) {
	t.Helper()
	status, err := n.lab.Exec(t.Context(), n.inventory.Endpoints[endpoint].Reach.Host, lab.Command{Argv: []string{"nft", rules}, Stderr: os.Stderr})
	testutil.OK(t, err)
	if status != 0 {
		t.Fatalf("nft: exit status %d", status)
	}
}

func (n *network) open(ctx context.Context) (testbed.Testbed, error) {
	return hosts.New(ctx, &n.inventory, n.e, hosts.Options{Dial: n.dial})
}

// An experiment runs on hosts as it does in a lab. Agents that die in the middle cost the
// trial under way, and nothing else.
func TestRun(t *testing.T) {
	n := newNetwork(t)
	for _, dies := range []string{"", "a", "b"} {
		t.Run("dies "+dies, func(t *testing.T) {
			bed, err := n.open(t.Context())
			testutil.OK(t, err)
			info := bed.Info()
			plan := n.e.Plan(1)
			keeper := &runner.Memory{}
			rebuilt := 0
			var once sync.Once
			testutil.OK(t, runner.Run(t.Context(), runner.Options{
				Planner: runner.Fixed(plan), Testbed: bed, Build: n.open, Keeper: keeper,
				OnEvent: func(e runner.Event) {
					if e.Rebuilt != nil {
						rebuilt++
					}
					if e.Live != nil && dies != "" {
						once.Do(func() { n.kill(dies) })
					}
				},
			}))
			died := 0 // trials
			for _, trial := range keeper.Kept {
				f := trial.Fingerprint
				if !trial.Gate.Passed {
					t.Logf("trial %s is missing: %s", trial.ID, words.Findings(trial.Gate, true))
				}
				if slices.ContainsFunc(trial.Gate.Findings, func(f measurement.Finding) bool { return f.Code == measurement.FoundBedBroke }) {
					died++
				} else if !f.Learned || len(f.Hops) == 0 || !f.Hops[len(f.Hops)-1].Reached {
					t.Errorf("trial %s: %+v", trial.ID, f)
				}
				// That too few answers came is the machine's doing, when it is very busy.
				if trial.Gate.Broken && !slices.ContainsFunc(trial.Gate.Findings, func(f measurement.Finding) bool { return f.Name == "enough-samples" }) {
					t.Errorf("trial %s: the path is to blame: %s", trial.ID, words.Findings(trial.Gate, true))
				}
			}
			want := 1
			if dies == "" {
				want = 0
			}
			if len(keeper.Kept) != len(plan.Trials) || died != want || rebuilt != want {
				t.Errorf("%d trials of %d, built again %d times, %d with a dead agent", len(keeper.Kept), len(plan.Trials), rebuilt, died)
			}
			if !info.Relative || len(info.Endpoints) != 2 || info.Endpoints[0].Host == "" || len(info.Endpoints[1].Environment) == 0 || len(info.Paths) != 3 {
				t.Errorf("%+v", info)
			}
			if p := info.Paths[2]; p.Listen == "" || p.Listen == p.To || info.Paths[0].Proof != "trace" {
				t.Errorf("%+v", info.Paths)
			}
		})
	}
}

// What is wrong with a testbed is said with what to do, and nothing is measured.
func TestFindings(t *testing.T) {
	n := newNetwork(t)
	good, published := n.inventory, n.e
	path := func(name string) *inventory.Path {
		i := slices.IndexFunc(n.inventory.Paths, func(p inventory.Path) bool { return p.Name == name })
		return &n.inventory.Paths[i]
	}
	for _, c := range []struct {
		name   string
		change func()
		says   string
	}{
		{"all is well", func() {}, ""},
		{"no such address there", func() { path("direct").Listen = netip.MustParseAddrPort("192.0.2.1:0") }, "path direct: ends at 192.0.2.1, which is on no interface of b; correct `to:`; its addresses are 10."},
		{"no such address here", func() { path("direct").From = netip.MustParseAddr("192.0.2.1") }, "path direct: begins at 192.0.2.1, which is on no interface of a; correct `from:`"},
		{"no such interface", func() { path("direct").Device = "nosuch0" }, "correct what the path sets, `from:`, `device:` or `dscp:`"},
		{"translated, and nobody said so", func() { path("translated").Listen = netip.AddrPort{} }, "if it is translated on the way (NAT), say with `listen:`"},
		{"another IP version", func() {
			path("direct").To, path("direct").Listen = netip.MustParseAddrPort("[2001:db8::7]:0"), netip.AddrPort{}
			path("direct").From = netip.Addr{}
		}, "path direct: goes to 2001:db8::7, and a has no address of that family"},
		{"one host", func() { n.inventory.Endpoints[1].Reach.Host = n.inventory.Endpoints[0].Reach.Host }, "endpoints a and b: are one and the same host"},
		{"a test that cannot prove the token", func() {
			e := *published
			e.Tests = []experiment.Test{{Name: "stock", Spec: measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3, Duration: 0.1}}}
			n.e = &e
		}, "test stock: cannot prove the token, and the agent of a sends such load to no address that it was not allowed"},
		{"the other way round", func() { path("routed").To = netip.AddrPortFrom(path("routed").To.Addr(), 9999) }, ""},
		{"a wrong address of the same host", func() {
			// Behind the translation nothing is that has this address.
			path("translated").To = netip.MustParseAddrPort("192.0.2.9:0")
		}, "path translated: a does not reach b at 192.0.2.9:5201"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.inventory, n.e = good, published
			n.inventory.Endpoints, n.inventory.Paths = slices.Clone(good.Endpoints), slices.Clone(good.Paths)
			c.change()
			bed, err := n.open(t.Context())
			if err == nil {
				err = bed.Close()
			}
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			findings, err := hosts.Check(t.Context(), &n.inventory, n.e, hosts.Options{Dial: n.dial})
			testutil.OK(t, err)
			wrong := slices.ContainsFunc(findings, func(f testbed.Finding) bool {
				return f.Severity == testbed.Wrong && strings.Contains(f.String(), c.says)
			})
			if wrong != (c.says != "") || len(findings) == 0 {
				t.Errorf("found %v", findings)
			}
		})
	}
}

// Where only the destination reaches the source, that is said.
func TestBackwards(t *testing.T) {
	n := newNetwork(t)
	const refuse = `table ip refuse { chain input { type filter hook input priority 0; tcp dport 5201 reject with tcp reset; }; }`
	n.filter(t, 1, refuse)
	bed, err := n.open(t.Context())
	if err == nil {
		err = errors.Join(errors.New("it is ready to measure"), bed.Close())
	}
	for _, want := range []string{"path direct: a does not reach b at 10.", "the other way b reaches a: make b the source"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A port that another program has is said so.
func TestPortTaken(t *testing.T) {
	n := newNetwork(t)
	first, err := n.open(t.Context())
	testutil.OK(t, err)
	defer first.Close()
	if _, err := n.open(t.Context()); err == nil || !strings.Contains(err.Error(), "b cannot listen at") || !strings.Contains(err.Error(), "give a free port") {
		t.Errorf("got %v", err)
	}
}

// Where the source cannot trace, the destination traces back to it: that proves the way
// back, and no other end is traced than one that proved the token.
func TestTraceBack(t *testing.T) {
	n := newNetwork(t)
	// As on a system that lets no program choose a time to live.
	const refuse = `table ip refuse { chain output { type filter hook output priority 0; ip ttl < 50 drop; }; }`
	n.filter(t, 0, refuse)
	bed, err := n.open(t.Context())
	testutil.OK(t, err)
	for _, p := range bed.Info().Paths {
		if p.Proof != result.ProofTraceBack {
			t.Errorf("%+v", p)
		}
	}
	for _, trial := range n.misled(t, bed) {
		f := trial.Fingerprint
		other := trial.Block == 2 && trial.Path == "routed"
		switch {
		case !f.TracedBack || len(f.Hops) == 0 || trial.Path == "routed" && !other && len(f.Hops) != 2:
			t.Errorf("trial %s: %+v", trial.ID, f)
		case f.Matches == other || other && (trial.Gate.Passed || f.Why.Code != measurement.FoundOtherHops || !f.Why.Back):
			t.Errorf("trial %s: %+v, gate %+v", trial.ID, f, trial.Gate)
		}
	}
	testutil.OK(t, bed.Close())
	// A session that goes on with a run does not choose anew: what traces back is not traced,
	// and what was traced is not traced back.
	for before, want := range map[result.PathProof]result.PathProof{result.ProofTTL: result.ProofTTL, result.ProofTrace: result.ProofTTL, result.ProofTraceBack: result.ProofTraceBack} {
		bed, err := hosts.New(t.Context(), &n.inventory, n.e, hosts.Options{Dial: n.dial, Before: []result.TestbedPath{{Name: "routed", Proof: before}}})
		testutil.OK(t, err)
		if p := bed.Info().Paths[slices.IndexFunc(bed.Info().Paths, func(p result.TestbedPath) bool { return p.Name == "routed" })]; p.Proof != want {
			t.Errorf("proven by %s before, and now by %s", before, p.Proof)
		}
		testutil.OK(t, bed.Close())
	}
	findings, err := hosts.Check(t.Context(), &n.inventory, n.e, hosts.Options{Dial: n.dial})
	testutil.OK(t, err)
	if !slices.ContainsFunc(findings, func(f testbed.Finding) bool {
		return f.Where == "path routed" && strings.Contains(f.What, "a cannot trace b") && strings.Contains(f.What, "b traces back to a and sees")
	}) {
		t.Errorf("found %v", findings)
	}
	for i := range n.inventory.Paths {
		n.inventory.Paths[i].Proof = result.ProofTrace
	}
	if bed, err := n.open(t.Context()); err == nil || !strings.Contains(err.Error(), "path routed: must be proven by trace, but a cannot trace b") {
		t.Errorf("%v, %v", bed, err)
	}
}

// A trial on a path that is really another one does not count.
func TestOtherPath(t *testing.T) {
	n := newNetwork(t)
	bed, err := n.open(t.Context())
	testutil.OK(t, err)
	for _, trial := range n.misled(t, bed) {
		other := trial.Block == 2 && trial.Path == "routed"
		f := trial.Fingerprint
		if f.Matches == other || other && (trial.Gate.Passed || f.Why.Code != measurement.FoundOtherHops) {
			t.Errorf("trial %s: %+v, gate %+v", trial.ID, f, trial.Gate)
		}
	}
}

// misled does all trials on a testbed whose path "routed" is another one from the second
// block on.
func (n *network) misled(t *testing.T, bed testbed.Testbed) []measurement.Trial {
	moved := &misled{Testbed: bed}
	keeper := &runner.Memory{}
	testutil.OK(t, runner.Run(t.Context(), runner.Options{
		Planner: runner.Fixed(n.e.Plan(1)), Testbed: moved, Keeper: keeper,
		OnEvent: func(e runner.Event) {
			moved.since = moved.since || e.Finished != nil && e.Trial.Block == 1 && e.Done == 3
		},
	}))
	return keeper.Kept
}

// misled leads packets of one path over another since the first block, as a route would
// that failed over.
type misled struct {
	testbed.Testbed
	since bool
}

func (m *misled) Paths() []testbed.Path {
	paths := slices.Clone(m.Testbed.Paths())
	if m.since {
		paths[1].Pairs = paths[0].Pairs
	}
	return paths
}
