package experiment

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func bundled(t testing.TB, name string) *Experiment {
	t.Helper()
	text, err := experiments.Read(name)
	testutil.OK(t, err)
	e, err := Load(name+".yaml", text)
	if err != nil {
		t.Fatalf("load %s:\n%v", name, err)
	}
	return e
}

func TestBundledAreNamedAfterTheirFiles(t *testing.T) {
	names := experiments.Names()
	if len(names) == 0 {
		t.Fatal("no experiment is bundled")
	}
	for _, name := range names {
		e := bundled(t, name)
		if e.Name != name {
			t.Errorf("the experiment in %s.yaml is named %q", name, e.Name)
		}
		if e.Title == "" {
			t.Errorf("%s has no title", name)
		}
	}
	if _, err := experiments.Read("../embed"); err == nil || !strings.Contains(err.Error(), "routing-appliance") {
		t.Errorf("reading an unknown experiment gives %v", err)
	}
}

// A bundled run keeps its promise of length: its tests, and 80 ms around each.
func TestBundledDurations(t *testing.T) {
	for name, most := range map[string]time.Duration{"routing-appliance": 2 * time.Minute, "aa-null": time.Minute} {
		plan := bundled(t, name).Plan(1)
		total := plan.ExpectedDuration(0) + time.Duration(len(plan.Trials))*80*time.Millisecond
		if total > most || total < most/2 {
			t.Errorf("%s takes %s, want about %s", name, total, most)
		}
	}
}

// Pings that would take thousands of years take long, and not less than nothing.
func TestExpectedDurationOfYears(t *testing.T) {
	e := bundled(t, "aa-null")
	e.Blocks = 1000
	for i := range e.Tests {
		e.Tests[i].Spec = measurement.Spec{Kind: measurement.Ping, Count: 1_000_000, Interval: 3600}.Defaults()
	}
	if total := e.Plan(1).ExpectedDuration(0); total != longestPlan {
		t.Errorf("it takes %v", total)
	}
}

func TestLoadRoutingAppliance(t *testing.T) {
	e := bundled(t, "routing-appliance")
	if e.Scale != 10 || e.Blocks != 10 || e.Baseline != "direct" || e.Source != "vm1" || e.Destination != "vm2" {
		t.Errorf("scale %v, blocks %d, baseline %s, %s → %s", e.Scale, e.Blocks, e.Baseline, e.Source, e.Destination)
	}
	want := Path{Name: "one-appliance", Title: "one appliance", Hops: []Hop{
		{Type: Link, Name: "peering", Impairment: Impairment{Delay: 334 * time.Microsecond}, Parameters: map[string]string{"delay": "334us"}},
		{Type: Router, Name: "appliance", Impairment: Impairment{Delay: 1093 * time.Microsecond}, Parameters: map[string]string{"delay": "1093us", "measure_kernel_cpu": "true"}, MeasureKernelCPU: true},
	}}
	if !reflect.DeepEqual(e.Paths[1], want) {
		t.Errorf("got %+v, want %+v", e.Paths[1], want)
	}
	flows := e.Tests[3]
	if flows.Spec.Flows != 10 || flows.Spec.Duration != 1 || flows.Spec.MaxWarmup != 0.3 || flows.Spec.Direction != measurement.Send {
		t.Errorf("flows-10 is %+v", flows.Spec)
	}
	if flows.Full.Duration != 10 || flows.Full.MaxWarmup != 2 || flows.Full.Flows != 10 {
		t.Errorf("flows-10 at full length is %+v", flows.Full)
	}
	if ping := e.Tests[1].Full; ping.Interval != 1 || ping.Count != 20 {
		t.Errorf("ping at full length is %+v", ping)
	}
}

// The comments of routing-appliance.yaml derive its parameters from the
// published figures; this does the same sums.
func TestRoutingApplianceDerivation(t *testing.T) {
	e := bundled(t, "routing-appliance")
	published := func(path, test, metric string) float64 {
		for _, f := range e.Published.Figures {
			if f.Path == path && f.Test == test && f.Metric == metric {
				return f.Value
			}
		}
		t.Fatalf("no figure for %s of %s on %s", metric, test, path)
		return 0
	}
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%s is %.4g in the file, %.4g from the figures", what, got, want)
		}
	}
	vm := e.Endpoints[0]
	near("egress", vm.EgressBitsPerSecond, published("direct", "flows-1", "goodput_bits_per_second")*1514/1448, 0.005)
	near("receive window", float64(vm.ReceiveWindowBytes),
		published("one-appliance", "flows-1", "goodput_bits_per_second")/8*published("one-appliance", "ping", "rtt_min_seconds"), 0.005)
	labs := []float64{0.07e-3, 0.14e-3, 0.20e-3} // round trips of the lab's own, by path
	for i, path := range e.Paths {
		var delay time.Duration
		for _, hop := range path.Hops {
			delay += hop.Delay
		}
		near("delay of "+path.Name, delay.Seconds(), (published(path.Name, "ping", "rtt_min_seconds")-labs[i])/2, 0.001)
	}
	// The window must not hold a single flow of the direct path below the cap.
	if perWindow := float64(vm.ReceiveWindowBytes) * 8 / published("direct", "ping", "rtt_min_seconds"); perWindow < vm.EgressBitsPerSecond {
		t.Errorf("the window allows %.3g bit/s on the direct path, less than the egress cap", perWindow)
	}
}

// The order that a seed gives is part of the format of results: a run can be
// repeated and resumed by other versions on other machines.
func TestPlanIsFixedBySeed(t *testing.T) {
	e, err := bundled(t, "routing-appliance").With(Overrides{Blocks: 2})
	testutil.OK(t, err)
	var ids []string
	for i, trial := range e.Plan(42).Trials {
		if trial.Order != i+1 {
			t.Errorf("trial %d has order %d", i+1, trial.Order)
		}
		ids = append(ids, trial.ID)
	}
	want := `
b01-two-appliances-latency
b01-one-appliance-latency
b01-direct-latency
b01-one-appliance-flows-10
b01-two-appliances-flows-10
b01-direct-flows-10
b01-direct-flows-1
b01-two-appliances-flows-1
b01-one-appliance-flows-1
b01-direct-ping
b01-two-appliances-ping
b01-one-appliance-ping
b02-two-appliances-flows-10
b02-direct-flows-10
b02-one-appliance-flows-10
b02-two-appliances-ping
b02-direct-ping
b02-one-appliance-ping
b02-direct-latency
b02-one-appliance-latency
b02-two-appliances-latency
b02-one-appliance-flows-1
b02-two-appliances-flows-1
b02-direct-flows-1`
	if got := "\n" + strings.Join(ids, "\n"); got != want {
		t.Errorf("seed 42 gives%s\nwant%s", got, want)
	}
}

func TestPlanIsCompleteBlocks(t *testing.T) {
	base := bundled(t, "routing-appliance")
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		e, err := base.With(Overrides{Blocks: rapid.IntRange(1, 120).Draw(t, "blocks")})
		testutil.OK(t, err)
		plan := e.Plan(seed)
		if !reflect.DeepEqual(plan, e.Plan(seed)) {
			t.Fatal("the same seed gave two plans")
		}
		cells := len(e.Paths) * len(e.Tests)
		if len(plan.Trials) != e.Blocks*cells || plan.Seed != seed {
			t.Fatalf("%d trials of seed %d", len(plan.Trials), plan.Seed)
		}
		ids := make(map[string]bool)
		for i, trial := range plan.Trials {
			if trial.Block != i/cells+1 || trial.Order != i+1 || ids[trial.ID] {
				t.Fatalf("trial %d is %+v", i, trial)
			}
			if want := fmt.Sprintf("b%02d-%s-%s", trial.Block, trial.Path, trial.Test); trial.ID != want {
				t.Fatalf("id %s, want %s", trial.ID, want)
			}
			if trial.Spec != trial.Spec.Defaults() {
				t.Fatalf("incomplete spec %+v", trial.Spec)
			}
			ids[trial.ID] = true
		}
	})
}

func TestScaled(t *testing.T) {
	e := bundled(t, "routing-appliance")
	s := e.Scaled()
	if vm := s.Endpoints[0]; vm.EgressBitsPerSecond != 1.25e9 || vm.ReceiveWindowBytes != 133_000 {
		t.Errorf("the scaled endpoint is %+v", vm)
	}
	if vm := e.Endpoints[0]; vm.EgressBitsPerSecond != 12.5e9 || vm.ReceiveWindowBytes != 1_330_000 {
		t.Errorf("scaling changed the original: %+v", vm)
	}
	if !reflect.DeepEqual(s.Scaled(), s) {
		t.Error("scaling twice is not scaling once")
	}
	if !reflect.DeepEqual(s.Paths, e.Paths) || !reflect.DeepEqual(s.Published, e.Published) || s.Scale != e.Scale {
		t.Error("scaling changed times, figures or the scale")
	}
	for _, trial := range s.Plan(1).Trials {
		want := int64(0)
		if trial.Spec.Kind == measurement.TCP {
			want = 133_000
		}
		if trial.Spec.WindowBytes != want {
			t.Errorf("%s has a window of %d bytes, want %d", trial.ID, trial.Spec.WindowBytes, want)
		}
	}
}

// Rates and bytes of a test's own are scaled like those of endpoints and hops,
// at either length; what is counted in packets, requests or seconds is not.
func TestScaledTests(t *testing.T) {
	text := `
format: hopbench.experiment/1
name: scaled
scale: 1:10
endpoints:
  - {name: a, receive_window: 100kB, congestion_control: bbr}
  - {name: b, receive_window: 100kB, congestion_control: bbr}
source: a
destination: b
baseline: x
paths:
  - {name: x, hops: [{type: link}]}
  - {name: y, hops: [{type: link, delay: 2ms}]}
tests:
  - {name: bulk, kind: tcp, direction: both, pacing: 1Gbit, send_buffer: 1MB, receive_buffer: 2MB, full: {duration: 1m}}
  - {name: datagrams, kind: udp, rate: 2Gbit, packet: 1400B, loss_bound: 0.1%}
  - {name: full-path, kind: load, requests_per_second: 200, idle: 2s}
  - {name: connections, kind: crr}
  - {name: file, kind: ftp, file: 100MB}
`
	e, err := Load("my.yaml", []byte(text))
	testutil.OK(t, err)
	specs := make(map[string]measurement.Spec)
	for _, trial := range e.Scaled().Scaled().Plan(1).Trials {
		specs[trial.Test] = trial.Spec
	}
	bulk := specs["bulk"]
	if bulk.PacingBitsPerSecond != 100e6 || bulk.SendBufferBytes != 100_000 || bulk.ReceiveBufferBytes != 200_000 || bulk.WindowBytes != 10_000 || bulk.CongestionControl != "bbr" {
		t.Errorf("bulk is %+v", bulk)
	}
	if s := specs["datagrams"]; s.RateBitsPerSecond != 200e6 || s.PacketBytes != 1400 || s.LossBound != 0.001 || s.WindowBytes != 0 {
		t.Errorf("datagrams is %+v", s)
	}
	if s := specs["full-path"]; s.WindowBytes != 10_000 || s.CongestionControl != "bbr" || s.RequestsPerSecond != 200 || s.IdleDuration != 2 {
		t.Errorf("full-path is %+v", s)
	}
	if s := specs["file"]; s.WindowBytes != 10_000 || s.CongestionControl != "bbr" || s.FileBytes != 10_000_000 {
		t.Errorf("file is %+v", s)
	}
	if s := specs["connections"]; s.WindowBytes != 0 || s.CongestionControl != "" {
		t.Errorf("connections is %+v", s)
	}
	if e.Tests[0].Spec.PacingBitsPerSecond != 1e9 || e.Tests[0].Full.SendBufferBytes != 1_000_000 {
		t.Errorf("scaling changed the original: %+v", e.Tests[0])
	}
	full, err := e.Scaled().With(Overrides{Full: true})
	testutil.OK(t, err)
	if s := full.Tests[0].Spec; s.PacingBitsPerSecond != 100e6 || s.Duration != 60 {
		t.Errorf("bulk at full length is %+v", s)
	}
	short, err := e.With(Overrides{Duration: 3 * time.Second})
	testutil.OK(t, err)
	for i, want := range []measurement.Seconds{3, 3, 3, 1} {
		if got := short.Tests[i].Spec.Duration; got != want {
			t.Errorf("a duration of 3 s makes %s measure %v s, want %v", short.Tests[i].Name, got, want)
		}
	}
}

func TestPlanTakesEndpointsByDirection(t *testing.T) {
	text := `
format: hopbench.experiment/1
name: both-ways
endpoints:
  - {name: a, receive_window: 100kB, congestion_control: cubic}
  - {name: b, receive_window: 200kB, congestion_control: bbr}
source: a
destination: b
baseline: x
paths:
  - {name: x, hops: [{type: link, rate: 1Gbit}]}
  - {name: y, hops: [{type: link, rate: 500Mbit/s, delay: 2ms, jitter: 1ms, loss: 0.1%, duplicate: 0.01, reorder: 0}]}
tests:
  - {name: up, kind: tcp}
  - {name: down, kind: tcp, direction: receive, copy_payload: true}
  - {name: rr, kind: rr, protocol: udp, request: 64B, response: 1kB}
  - {name: route, kind: trace, protocol: icmp, max_hops: 5, timeout: 300ms}
`
	e, err := Load("my.yaml", []byte(text))
	testutil.OK(t, err)
	if e.Blocks != defaultBlocks || e.Scale != 1 {
		t.Errorf("%d blocks at a scale of %v", e.Blocks, e.Scale)
	}
	impaired := Impairment{Delay: 2 * time.Millisecond, Jitter: time.Millisecond, LossFraction: 0.001, DuplicateFraction: 0.01, RateBitsPerSecond: 500e6}
	if got := e.Paths[1].Hops[0].Impairment; got != impaired {
		t.Errorf("got %+v, want %+v", got, impaired)
	}
	specs := make(map[string]measurement.Spec)
	for _, info := range e.TestInfos() {
		specs[info.Name] = info.Spec
	}
	if s := specs["up"]; s.WindowBytes != 200_000 || s.CongestionControl != "cubic" {
		t.Errorf("up is %+v", s)
	}
	if s := specs["down"]; s.WindowBytes != 100_000 || s.CongestionControl != "bbr" || !s.CopyPayload {
		t.Errorf("down is %+v", s)
	}
	if s := specs["rr"]; s.WindowBytes != 0 || s.Protocol != measurement.OverUDP || s.RequestBytes != 64 || s.ResponseBytes != 1000 {
		t.Errorf("rr is %+v", s)
	}
	if s := specs["route"]; s.MaxHops != 5 || s.Timeout != 0.3 || s.Protocol != measurement.OverICMP {
		t.Errorf("route is %+v", s)
	}
}

func TestWith(t *testing.T) {
	e := bundled(t, "routing-appliance")
	full, err := e.With(Overrides{Full: true})
	testutil.OK(t, err)
	if full.Tests[3].Spec.Duration != 10 || e.Tests[3].Spec.Duration != 1 {
		t.Errorf("full: %v; original: %v", full.Tests[3].Spec.Duration, e.Tests[3].Spec.Duration)
	}
	both, err := e.With(Overrides{Full: true, Duration: 3 * time.Second, Blocks: 3})
	testutil.OK(t, err)
	if s := both.Tests[2].Spec; s.Duration != 3 || s.MaxWarmup != 2 {
		t.Errorf("full with a duration is %+v", s)
	}
	if both.Tests[0].Spec.Duration != 10 {
		t.Errorf("a duration for tcp changed rr to %v", both.Tests[0].Spec.Duration)
	}
	if both.Blocks != 3 || e.Blocks != 10 {
		t.Errorf("3 blocks are %d; original: %d", both.Blocks, e.Blocks)
	}
	for _, o := range []Overrides{{Blocks: -1}, {Blocks: 1001}, {Duration: -time.Second}, {Duration: time.Microsecond}, {Duration: 25 * time.Hour}} {
		if _, err := e.With(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestInfo(t *testing.T) {
	e := bundled(t, "routing-appliance")
	info := e.Scaled().Info()
	if info.Scale != 10 || info.Name != "routing-appliance" || len(info.Published) != 16 || len(info.Open) != 3 || info.Text != e.Text || info.Source == "" {
		t.Errorf("info is %+v", info)
	}
	first := result.Figure{ID: "E5.1", Path: "direct", Test: "ping", Metric: "rtt_mean_seconds", Value: 0.002783, Kind: result.FigureOpen, Note: "mdev 3.557 ms"}
	if info.Published[0] != first {
		t.Errorf("the first figure is %+v", info.Published[0])
	}
	paths := e.PathInfos()
	if len(paths) != 3 || !paths[0].Baseline || paths[1].Baseline || paths[2].Hops[2].Parameters["delay"] != "2us" || paths[0].Source != "vm1" || paths[0].Dest != "vm2" {
		t.Errorf("paths are %+v", paths)
	}
}

// On hosts nothing is scaled, and nothing of a lab's model is left but which hops there
// are.
func TestOnHosts(t *testing.T) {
	e := bundled(t, "routing-appliance")
	before := e.Plan(1)
	on := e.OnHosts()
	if plan := on.Scaled().Plan(1); !reflect.DeepEqual(plan, before) {
		t.Error("the plan is another one than that of the published setting")
	}
	if info := on.Info(); info.Scale != 1 || info.Model != "" || len(info.Published) == 0 {
		t.Errorf("scale %v, model %q, %d published figures", info.Scale, info.Model, len(info.Published))
	}
	for _, end := range on.Endpoints {
		if end.EgressBitsPerSecond != 0 || end.ReceiveWindowBytes != 1330e3 {
			t.Errorf("endpoint %+v", end)
		}
	}
	for i, path := range on.PathInfos() {
		for k, hop := range path.Hops {
			if of := e.Paths[i].Hops[k]; len(hop.Parameters) > 0 || hop.Type != string(of.Type) || hop.Name != of.Name {
				t.Errorf("path %s has hop %+v of %+v", path.Name, hop, of)
			}
		}
	}
	if len(e.PathInfos()[0].Hops[0].Parameters) == 0 {
		t.Error("the experiment itself lost its parameters")
	}
}

// Of a tunnel on real hosts is known what sort it is, and not with what parameters a lab
// would build it.
func TestTunnelOnHosts(t *testing.T) {
	e := betweenAAndB(t, `baseline: plain
paths: [{name: plain}, {name: inside, tunnel: {type: vxlan}, hops: [{type: firewall, name: fw}]}, {name: past, variant_of: inside, bypass: [fw]}, {name: secret, tunnel: {type: wireguard}}]
tests: [{name: bulk, kind: tcp}]
`)
	for i, want := range []string{"", "vxlan", "vxlan", "wireguard"} {
		if got := e.OnHosts().PathInfos()[i].Tunnel; got != want {
			t.Errorf("path %s of hosts is inside %q, want %q", e.Paths[i].Name, got, want)
		}
		if got := e.PathInfos()[i].Tunnel; want != "" && !strings.Contains(got, "UDP port") {
			t.Errorf("path %s of a lab is inside %q", e.Paths[i].Name, got)
		}
	}
}
