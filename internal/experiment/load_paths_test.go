package experiment

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// betweenAAndB is an experiment between these two, of which rest is the other lines of its file.
func betweenAAndB(t *testing.T, rest string) *Experiment {
	t.Helper()
	e, err := Load("my.yaml", []byte("format: hopbench.experiment/1\nname: x\nendpoints: [{name: a}, {name: b}]\nsource: a\ndestination: b\n"+rest))
	testutil.OK(t, err)
	return e
}

// Every key of a hop, a tunnel and a variant arrives, with its defaults.
func TestEveryHop(t *testing.T) {
	text, err := os.ReadFile("testdata/good/every-hop.yaml")
	testutil.OK(t, err)
	e, err := Load("every-hop.yaml", text)
	testutil.OK(t, err)
	if a, b := e.Endpoints[0], e.Endpoints[1]; e.Pairs != 1 || !a.SoftwareSwitch || a.NICs != 2 || b.SoftwareSwitch || b.NICs != 1 {
		t.Errorf("%d pairs, endpoints %+v", e.Pairs, e.Endpoints)
	}
	hops := e.Paths[1].Hops
	for i := range hops {
		if len(hops[i].Parameters) == 0 {
			t.Errorf("hop %s has lost what was written", hops[i].Name)
		}
		hops[i].Parameters = nil
		if named := hops[i].RuleFile != ""; named != (hops[i].RuleFileLine > 0) {
			t.Errorf("hop %s names the rule file %q in line %d", hops[i].Name, hops[i].RuleFile, hops[i].RuleFileLine)
		}
		hops[i].RuleFileLine = 0
	}
	want := []Hop{
		{Type: Router, Name: "r", Silent: true, OneWay: true},
		{Type: Firewall, Name: "f", Rules: 1000, Instances: 4, ScaleOut: &ScaleOut{At: 3 * time.Second, Instances: 8}, Impairment: Impairment{RateBitsPerSecond: 1e8}},
		{Type: IDPS, Name: "i", Mode: IDPSDeny, InspectRateBitsPerSecond: 1e9, RuleFile: "my.rules"},
		{Type: NAT, Name: "n", Translate: TranslateBoth, SilentHops: 7},
		{Type: VNetGateway, Name: "g", FlowLimit: 1000, Silent: true, OneWay: true},
		{Type: LoadBalancer, Name: "l", Backends: 3},
	}
	if !reflect.DeepEqual(hops, want) {
		t.Errorf("hops\n%+v\nwant\n%+v", hops, want)
	}
	if tunnel := e.Paths[3].Tunnel; *tunnel != (Tunnel{Type: VXLAN, ID: 7, Port: 4790, MTU: 1450}) {
		t.Errorf("tunnel %+v", tunnel)
	}
	v := e.Paths[2]
	if v.VariantOf != "everything" || !slices.Equal(v.Bypass, []string{"r", "f", "i", "g"}) || v.Settle != time.Second || len(v.Hops) != len(hops) {
		t.Errorf("variant %+v", v)
	}
	if inside := e.Paths[4]; inside.Tunnel != e.Paths[3].Tunnel {
		t.Errorf("a variant has another tunnel: %+v", inside.Tunnel)
	}
	if direct := e.Scaled().Paths[0].Hops[0]; direct.MTU != 9000 || direct.PerFlowRateBitsPerSecond != 1e7 {
		t.Errorf("scaled %+v", direct)
	}
	for _, h := range e.PathInfos()[2].Hops {
		if h.Bypassed != slices.Contains(v.Bypass, h.Name) {
			t.Errorf("hop %s is off: %v", h.Name, h.Bypassed)
		}
	}
}

// The folder of a run keeps its experiment as it was written, with the names of
// that day.
func TestStoredFilesHaveOldNames(t *testing.T) {
	text, err := os.ReadFile("testdata/bad/renamed.yaml")
	testutil.OK(t, err)
	e, err := LoadStored("renamed.yaml", text)
	testutil.OK(t, err)
	end, direct, fast := e.Endpoints[0], e.Paths[0], e.Paths[1]
	if end.EgressBitsPerSecond != 1e9 || !end.SoftwareSwitch || *direct.SoftwareSwitch {
		t.Errorf("endpoint %+v, path %+v", end, direct)
	}
	if h := direct.Hops; h[0].Type != Link || h[1].Type != VNetGateway || !h[1].MeasureKernelCPU || h[1].Parameters["measure_kernel_cpu"] != "true" {
		t.Errorf("hops %+v", h)
	}
	if peer := e.Tests[1].Spec; peer.Tool != measurement.IPerf3 {
		t.Errorf("test %+v", peer)
	}
	if f := e.Published.Figures[0]; f.Kind != result.FigurePlanted {
		t.Errorf("figure %+v", f)
	}
	if fast.VariantOf != "direct" || !slices.Equal(fast.Bypass, []string{"edge"}) {
		t.Errorf("path %+v", fast)
	}
}

// A tunnel has what the smallest of the path's links leaves, be that more than Ethernet's.
func TestTunnelsOverLargeFrames(t *testing.T) {
	for hops, want := range map[string]int{
		"{type: link, mtu: 9000B}":                                                                  8950,
		"{type: link, mtu: 9000B}, {type: link, mtu: 4000B}":                                        3950,
		"{type: link, mtu: 9000B}, {type: router, name: r, mtu: 8000B}":                             7950,
		"{type: link, mtu: 9000B}, {type: router, name: r}, {type: link, mtu: 9000B}, {type: link}": 8950,
		"{type: router, name: r, mtu: 9000B}":                                                       1450, // before it is a plain link
		"{type: link, mtu: 9000B}, {type: router, name: r}":                                         1450, // behind it
		"{type: link, mtu: 9000B}, {type: router, name: r, mtu: 1400B}":                             1350,
	} {
		e := betweenAAndB(t, `baseline: inside
tests: [{name: t, kind: rr}]
paths:
  - {name: inside, tunnel: {type: vxlan}, hops: [`+hops+`]}
  - {name: plain}
`)
		if got := e.Paths[0].Tunnel.MTU; got != want {
			t.Errorf("%s: an MTU of %d inside, want %d", hops, got, want)
		}
	}
}

func TestPathWithoutHopsIsALink(t *testing.T) {
	e := betweenAAndB(t, `baseline: said
tests: [{name: t, kind: rr}]
paths:
  - {name: said, hops: [{type: link}]}
  - {name: unsaid}
`)
	if said, unsaid := e.Paths[0].Hops, e.Paths[1].Hops; !reflect.DeepEqual(said, unsaid) {
		t.Errorf("a path without hops has %+v, want %+v", unsaid, said)
	}
}

// Tunnels that say no id, or of WireGuard no port, each have the first that is free.
func TestTunnelsAreNumbered(t *testing.T) {
	e := betweenAAndB(t, `baseline: one
tests: [{name: t, kind: rr}]
paths:
  - {name: one, hops: [{type: link}], tunnel: {type: vxlan}}
  - {name: two, hops: [{type: router, name: r}], tunnel: {type: vxlan}}
  - {name: said, hops: [{type: link}], tunnel: {type: vxlan, id: 2}}
  - {name: less, variant_of: two, bypass: [r]}
  - {name: guard, hops: [{type: link}], tunnel: {type: wireguard}}
  - {name: guards, hops: [{type: link}], tunnel: {type: wireguard}}
  - {name: between, hops: [{type: link}], tunnel: {type: vxlan, port: 51821}}
`)
	var got []string
	for _, p := range e.Paths {
		got = append(got, fmt.Sprintf("%s %d %d", p.Name, p.Tunnel.ID, p.Tunnel.Port))
	}
	if want := []string{"one 1 4789", "two 3 4789", "said 2 4789", "less 3 4789", "guard 0 51820", "guards 0 51822", "between 1 51821"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A report shows what a hop has, and not the name of an anchor that the file gave it.
func TestParametersOfAliases(t *testing.T) {
	e := betweenAAndB(t, `baseline: x
paths:
  - {name: x, hops: [{type: link, delay: &short 250us}]}
  - {name: y, hops: [{type: link, delay: *short}, {type: firewall, name: fw, delay: *short, rules: &many 5000, rate: 1Gbit}, {type: firewall, name: other, rules: *many}]}
tests: [{name: bulk, kind: tcp}]
`)
	hops := e.PathInfos()[1].Hops
	if got := []string{hops[0].Parameters["delay"], hops[1].Parameters["delay"], hops[2].Parameters["rules"]}; !slices.Equal(got, []string{"250us", "250us", "5000"}) {
		t.Errorf("the hops are said to have %q", got)
	}
}

// A firewall has 100 rules unless the file says otherwise, and none where it says so.
func TestFirewallWithoutRules(t *testing.T) {
	for rules, want := range map[string]int{"": 100, ", rules: 0": 0, ", rules: 7": 7} {
		e := betweenAAndB(t, `baseline: x
paths: [{name: x}, {name: y, hops: [{type: firewall, name: fw`+rules+`}]}]
tests: [{name: bulk, kind: tcp}]
`)
		if got := e.Paths[1].Hops[0].Rules; got != want {
			t.Errorf("%q gives %d rules, want %d", rules, got, want)
		}
	}
}
