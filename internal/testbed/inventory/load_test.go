package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/strict/stricttest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What is said of each bad file. What begins with "experiment" is held against one.
func TestBadFiles(t *testing.T) {
	e := anExperiment(t)
	stricttest.BadFiles(t, "testdata/bad/*", func(name string, text []byte) (string, error) {
		var err error
		if strings.HasPrefix(name, "experiment-") {
			_, err = LoadFor("my.yaml", text, e)
		} else {
			_, err = Load("my.yaml", text)
		}
		if err == nil {
			return "", nil
		}
		return err.Error(), err
	})
}

func anExperiment(t testing.TB) *experiment.Experiment {
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
tests: [{name: bulk, kind: tcp}]
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
	in, err := LoadFor("testdata/good/everything.yaml", text, anExperiment(t))
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
		p.Expect != (Expectation{Hops: 8, ReceivedTTL: 57, PathMTUBytes: 1400}) || p.Set["idps"] != "deny" || len(p.Hops) != 4 {
		t.Errorf("path %+v", p)
	}
	if got := in.Paths[0]; got.To != netip.AddrPortFrom(netip.MustParseAddr("10.0.0.7"), 0) || got.DSCP != -1 || got.Listen.IsValid() || got.From.IsValid() {
		t.Errorf("path %+v", got)
	}
	s := in.Switches[0]
	if strings.Join(s.Values["off"], " ") != "./fw.sh idps off 0 true" || s.Read[2] != "show" || s.Proof != ProofCanary || s.Canary["off"] != CanaryPassed ||
		s.Settle != 30*time.Second || s.Timeout != 10*time.Minute || s.Restore != "off" {
		t.Errorf("switch %+v", s)
	}
	if got := in.Switches[1]; got.Proof != ProofCommand || got.Settle != defaultSettle || got.Timeout != defaultTimeout || len(got.Verify) != 2 {
		t.Errorf("switch %+v", got)
	}
	if in.Hops[0].Agent.Interface != "eth1" || in.Hops[1].Prometheus.URL != "http://mon:9090" || in.Hops[2].SNMP.Address != "10.0.0.1:161" || in.Hops[3].CSV.File != filepath.Join(dir, "fw.csv") {
		t.Errorf("hops %+v", in.Hops)
	}
}

// The starting point is a file that is right in itself.
func TestStartingPointLoads(t *testing.T) {
	in, err := Load("hosts.yaml", []byte(Hosts()))
	testutil.OK(t, err)
	if len(in.Endpoints) != 2 || len(in.Paths) != 3 || len(in.Switches) != 1 {
		t.Errorf("loaded %+v", in)
	}
}

// FuzzLoad: whatever the bytes, loading ends with values that agree with each other, or
// with strict.Errors that point into the file.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(Hosts()))
	for _, text := range testutil.Files(f, "testdata/*/*.yaml") {
		f.Add(text)
	}
	e := anExperiment(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, e := range []*experiment.Experiment{nil, e} {
			in, err := load("my.yaml", text, e)
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
		if !p.To.Addr().IsValid() || p.Name == "" || p.DSCP < -1 || p.DSCP > 63 {
			t.Errorf("path %+v", p)
		}
		for name, value := range p.Set {
			if len(values[name][value]) == 0 {
				t.Errorf("path %s sets %s to %q, which has no command", p.Name, name, value)
			}
		}
	}
	for _, e := range in.Endpoints {
		if e.Name == "" || e.Reach.Scheme != ReachLocal && e.Reach.Host == "" || strings.HasPrefix(e.Reach.Host, "-") || strings.HasPrefix(e.Reach.User, "-") {
			t.Errorf("endpoint %+v", e)
		}
	}
}
