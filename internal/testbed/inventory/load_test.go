package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is said of each bad file. What begins with "experiment" is checked with one, and
// what begins with "experiment-ping" with one that has tests which cannot take every path,
// with "experiment-iperf3" with one whose test has that protocol.
func TestBadFiles(t *testing.T) {
	e, pings := anExperiment(t), experimentOf(t, "{name: bulk, kind: tcp, dscp: 10}, {name: echo, kind: ping}")
	iperf3 := experimentOf(t, "{name: bulk, kind: tcp, protocol: iperf3}")
	stricttest.BadFiles(t, "testdata/bad/*", func(name string, text []byte) (string, error) {
		var with *experiment.Experiment
		switch {
		case strings.HasPrefix(name, "experiment-ping"):
			with = pings
		case strings.HasPrefix(name, "experiment-iperf3"):
			with = iperf3
		case strings.HasPrefix(name, "experiment-"):
			with = e
		}
		_, err := Load("my.yaml", text, with)
		if err == nil {
			return "", nil
		}
		return err.Error(), err
	})
}

func anExperiment(t testing.TB) *experiment.Experiment {
	t.Helper()
	return experimentOf(t, "{name: bulk, kind: tcp}")
}

func experimentOf(t testing.TB, tests string) *experiment.Experiment {
	t.Helper()
	e, err := experiment.Load("fw.yaml", []byte(`format: hopbench.experiment/1
name: fw
endpoints: [{name: vm1}, {name: vm2}]
source: vm1
destination: vm2
baseline: direct
paths:
  - {name: direct, hops: [{type: link}]}
  - {name: firewall, hops: [{type: router, name: fw}]}
tests: [`+tests+`]
`))
	testutil.OK(t, err)
	return e
}

// What a file says is in its values.
func TestGoodFile(t *testing.T) {
	text, err := os.ReadFile("testdata/good/everything.yaml")
	testutil.OK(t, err)
	t.Setenv("HOME", "/home/ops")
	t.Setenv("USERPROFILE", "/home/ops")
	in, err := Load("testdata/good/everything.yaml", text, anExperiment(t))
	testutil.OK(t, err)
	dir, err := filepath.Abs("testdata/good")
	testutil.OK(t, err)
	if in.Name != "office" || in.TokenFile != filepath.Join("/home/ops", ".hopbench-token") || in.Dir != dir {
		t.Errorf("name %q, token file %q, folder %q", in.Name, in.TokenFile, in.Dir)
	}
	if got := in.Endpoints[1]; got.Reach != (Reach{Scheme: ReachSSH, User: "ops", Host: "10.0.0.7", Port: 2222}) || got.EgressBitsPerSecond != 10e9 || got.Binary != filepath.Join(dir, "bin", "hopbench-arm64") {
		t.Errorf("endpoint %+v", got)
	}
	if got := in.Endpoints[2].Reach; got != (Reach{Scheme: ReachTLS, Host: "2001:db8::7", Port: 5202}) {
		t.Errorf("reach %+v", got)
	}
	p := in.Paths[1]
	if p.To != netip.MustParseAddrPort("203.0.113.9:5300") || p.Listen != netip.AddrPortFrom(netip.MustParseAddr("10.0.0.7"), 0) || p.From.String() != "10.0.5.2" || p.DSCP != 0 ||
		p.Expect != (Expectation{Hops: 8, ReceivedTTL: 57, PathMTUBytes: 1400}) || p.Set["idps"] != "deny" || len(p.Hops) != 5 {
		t.Errorf("path %+v", p)
	}
	if got := in.Paths[0]; got.To != netip.AddrPortFrom(netip.MustParseAddr("10.0.0.7"), 0) || got.DSCP != -1 || got.Listen.IsValid() || got.From.IsValid() {
		t.Errorf("path %+v", got)
	}
	if in.Paths[0].Proof != "" || in.Paths[4].Proof != result.ProofTraceBack {
		t.Errorf("paths %+v", in.Paths)
	}
	s := in.Switches[0]
	if strings.Join(s.Values["off"], " ") != "./fw.sh idps off 0 true" || s.Read[2] != "show" || s.Proof != ProofCanary || s.Canary["off"] != CanaryPassed ||
		s.Settle != 30*time.Second || s.Timeout != 10*time.Minute || s.Restore != "off" {
		t.Errorf("switch %+v", s)
	}
	if got := in.Switches[1]; got.Proof != ProofCommand || got.Settle != defaultSettle || got.Timeout != defaultTimeout || len(got.Verify) != 2 {
		t.Errorf("switch %+v", got)
	}
	if in.Hops[0].Agent.Interface != "eth1" || in.Hops[1].Prometheus.URL != "http://mon:9090" || in.Hops[2].SNMP.AuthFile != "/etc/snmp/auth" || in.Hops[2].SNMP.CommunityFile != "" || in.Hops[3].SNMP.Address != "10.0.0.1:161" || in.Hops[4].CSV.File != filepath.Join(dir, "fw.csv") {
		t.Errorf("hops %+v", in.Hops)
	}
}

// Of several servers, the one that an experiment measures is where its paths lead.
func TestSeveralServers(t *testing.T) {
	file := []byte(`format: hopbench.testbed/1
name: office
kind: hosts
token_file: t
endpoints:
  other: {reach: "serve://10.0.0.9:5400"}
  vm1: {reach: local}
  vm2: {reach: "serve://10.0.0.7:5300"}
paths:
  direct: {to: 10.0.0.7}
  firewall: {to: 10.1.0.7}
`)
	in, err := Load("office.yaml", file, anExperiment(t))
	testutil.OK(t, err)
	for _, p := range in.Paths {
		if p.To.Port() != 5300 {
			t.Errorf("path %s leads to %v", p.Name, p.To)
		}
	}
	back := anExperiment(t)
	back.Source, back.Destination = "vm2", "other"
	if _, err := Load("office.yaml", file, back); err == nil || !strings.Contains(err.Error(), `endpoint "vm2" is the source of experiment fw, and hopbench serve is only ever a destination`) {
		t.Errorf("a server as the source: %v", err)
	}
	if _, err := Load("office.yaml", file, nil); err != nil {
		t.Errorf("without an experiment: %v", err)
	}
}

// A kind that there is not is answered with those that there are.
func TestUnknownKind(t *testing.T) {
	_, err := Load("my.yaml", []byte(strings.Replace(string(start(t, result.TestbedHosts)), "kind: hosts", "kind: terraform", 1)), nil)
	if want := `kind cannot be "terraform"; write ` + kind.Either(Kinds()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// Every kind of testbed has a starting point, in its package, which is a file of that kind
// that is right in itself.
func TestStartingPointsLoad(t *testing.T) {
	for _, name := range Kinds() {
		in, err := Load("start.yaml", start(t, name), nil)
		testutil.OK(t, err)
		if in.Kind != name || len(in.Endpoints) < 2 || len(in.Paths) < 2 {
			t.Errorf("%s: loaded %+v", name, in)
		}
	}
}

func start(t testing.TB, kind string) []byte {
	t.Helper()
	text, err := os.ReadFile("../" + kind + "/start.yaml")
	testutil.OK(t, err)
	return text
}

// FuzzLoad: whatever the bytes, loading ends with values that agree with each other, or
// with strict.Errors that point into the file.
func FuzzLoad(f *testing.F) {
	for _, name := range Kinds() {
		f.Add(start(f, name))
	}
	for _, text := range testutil.Files(f, "testdata/*/*.yaml") {
		f.Add(text)
	}
	e := anExperiment(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, e := range []*experiment.Experiment{nil, e} {
			in, err := Load("my.yaml", text, e)
			if err != nil {
				if in != nil {
					t.Fatalf("got %v and %v", in, err)
				}
				stricttest.CheckErrors(t, err, text)
				continue
			}
			checkAccepted(t, in)
		}
	})
}

func checkAccepted(t *testing.T, in *Inventory) {
	t.Helper()
	values := map[string]map[string][]string{}
	for _, s := range in.Switches {
		values[s.Name] = s.Values
		if len(s.Read) == 0 || s.Timeout <= 0 || s.Settle < 0 || len(s.Values) < 2 || s.Restore != "" && s.Values[s.Restore] == nil ||
			s.Proof == ProofCommand != (len(s.Verify) > 0) || s.Proof == ProofCanary != (len(s.Canary) > 0) {
			t.Errorf("switch %+v", s)
		}
	}
	for _, p := range in.Paths {
		if p.To.IsValid() == p.Network.IsValid() || p.Network.IsValid() != (in.Broker != nil) || p.Name == "" || p.DSCP < -1 || p.DSCP > 63 {
			t.Errorf("path %+v", p)
		}
		for name, value := range p.Set {
			if len(values[name][value]) == 0 {
				t.Errorf("path %s sets %s to %q, which has no command", p.Name, name, value)
			}
		}
	}
	for _, e := range in.Endpoints {
		if e.Name == "" || (e.Reach.Label != "") != (in.Broker != nil) || e.Reach.Scheme != ReachLocal && e.Reach.Scheme != ReachFleet && e.Reach.Host == "" || strings.HasPrefix(e.Reach.Host, "-") || strings.HasPrefix(e.Reach.User, "-") {
			t.Errorf("endpoint %+v", e)
		}
	}
}

// A fleet has a broker, labels and networks.
func TestFleet(t *testing.T) {
	text, err := os.ReadFile("testdata/good/fleet.yaml")
	testutil.OK(t, err)
	in, err := Load("testdata/good/fleet.yaml", text, anExperiment(t))
	testutil.OK(t, err)
	dir, err := filepath.Abs("testdata/good")
	testutil.OK(t, err)
	if want := (Broker{Listen: netip.MustParseAddrPort("10.0.0.5:5300"), JoinFile: filepath.Join(dir, "office.join"), Wait: 10 * time.Minute, MaxAgents: 20000}); *in.Broker != want {
		t.Errorf("broker %+v, want %+v", *in.Broker, want)
	}
	if want := (AMQPQueue{"amqps://mq:5671", "/queue/hopbench", "hopbench", filepath.Join(dir, "amqp-password")}); in.Queue.Lease != time.Minute || in.Queue.AMQP == nil || *in.Queue.AMQP != want {
		t.Errorf("queue %+v, want %+v", in.Queue, want)
	}
	if got := in.Endpoints[0]; got.Reach != (Reach{Scheme: ReachFleet, Label: "role=client"}) || got.EgressBitsPerSecond != 10e9 || got.Reach.String() != "fleet://role=client" {
		t.Errorf("endpoint %+v", got)
	}
	if got := in.Paths[0]; got.Proof != result.ProofTrace || got.Expect.Hops != 3 {
		t.Errorf("path %+v", got)
	}
	if got := in.Paths[1].Network; got != netip.MustParsePrefix("2001:db8:1::/64") {
		t.Errorf("network %v", got)
	}
	many := anExperiment(t)
	many.Pairs = defaultMaxAgents/2 + 1
	if _, err := Load("fleet.yaml", start(t, result.TestbedFleet), many); err == nil || !strings.Contains(err.Error(), "experiment fw has 501 pairs, which are 1002 machines, and the broker admits 1000; write max_agents: 1002") {
		t.Errorf("more pairs than the broker admits: %v", err)
	}
	in, err = Load("fleet.yaml", start(t, result.TestbedFleet), nil)
	testutil.OK(t, err)
	if in.Queue != (Queue{Lease: DefaultLease}) || in.Broker.Wait != defaultWait || in.Broker.MaxAgents != defaultMaxAgents || len(in.Alike()) != 0 {
		t.Errorf("%+v", in)
	}
}
