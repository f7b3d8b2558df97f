package kind

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Every kind has a row, and every field of a spec an option: a field without one
// would be checked by nobody.
func TestTablesAreWhole(t *testing.T) {
	var names []measurement.Kind
	for _, k := range All() {
		names = append(names, k.Name)
		if problems := Check(k.Defaults()); problems != nil {
			t.Errorf("the defaults of %s: %v", k.Name, problems)
		}
	}
	if !slices.Equal(names, measurement.Kinds()) {
		t.Errorf("the kinds are %v, want %v", names, measurement.Kinds())
	}
	var spec measurement.Spec
	fields := map[any]string{&spec.Kind: "kind"}
	seen := map[string]bool{}
	for _, o := range Options() {
		field := o.field(&spec)
		for _, k := range o.Kinds {
			if seen[o.Name+string(k)] {
				t.Errorf("%s has two options %s", k, o.Name)
			}
			seen[o.Name+string(k)] = true
		}
		if fields[field] != "" {
			t.Errorf("the field of option %s is %s's, too", o.Name, fields[field])
		}
		fields[field] = o.Name
		for _, k := range o.Kinds {
			if limits := o.For(k); limits.Most == 0 && len(limits.Words) == 0 && o.Type != Truth && o.Type != Name {
				t.Errorf("option %s has no bounds for %s", o.Name, k)
			}
		}
		if !slices.IsSortedFunc(o.Kinds, func(a, b measurement.Kind) int { return slices.Index(names, a) - slices.Index(names, b) }) {
			t.Errorf("the kinds of %s are not in their usual order: %v", o.Name, o.Kinds)
		}
	}
	v := reflect.ValueOf(&spec).Elem()
	for i := range v.NumField() {
		if fields[v.Field(i).Addr().Interface()] == "" {
			t.Errorf("the field %s has no option", v.Type().Field(i).Name)
		}
	}
	flags := map[string]bool{}
	for _, f := range Flags() {
		for _, name := range append([]string{f.Name, f.Short}, f.Aliases...) {
			if name != "" && flags[name] {
				t.Errorf("two flags are called %s", name)
			}
			flags[name] = true
		}
		for _, s := range f.Settings {
			for _, name := range s.Options {
				for _, k := range s.Kinds {
					if _, ok := Find(k, name); !ok {
						t.Errorf("--%s sets %s, which %s does not take", f.Name, name, k)
					}
				}
			}
		}
	}
}

// What is shown, judged and watched of a kind are metrics that it brings back, and a line of
// figures has the primary one.
func TestMetricsOfKinds(t *testing.T) {
	for _, k := range All() {
		brings := measurement.MetricsOf(k.Name)
		named := slices.Concat(k.Figures, k.Details, k.BothWays, k.Watched)
		for _, g := range k.Gates {
			named = append(named, g.Metric)
		}
		if k.SharesOf != "" {
			named = append(named, k.SharesOf)
		}
		lost := slices.ContainsFunc(brings, func(m measurement.Metric) bool { return m.Name == "loss_fraction" })
		if lost && k.SharesOf == "" && len(k.Latencies) == 0 {
			t.Errorf("nothing says what the losses of a %s test are a share of", k.Name)
		}
		for _, name := range named {
			if !slices.ContainsFunc(brings, func(m measurement.Metric) bool { return m.Name == name }) {
				t.Errorf("a %s test does not bring back %s", k.Name, name)
			}
		}
		for _, l := range k.Latencies {
			if l.Label == "" || !slices.ContainsFunc(brings, func(m measurement.Metric) bool { return m.Name == l.Metrics+"_p50_seconds" }) {
				t.Errorf("a %s test brings back no median of %+v", k.Name, l)
			}
		}
		if primary, _ := measurement.PrimaryOf(k.Name); !slices.Contains(k.Figures, primary.Name) {
			t.Errorf("the figures of %s lack the primary metric", k.Name)
		}
	}
}

// The bounds of a number are its last good values, and not a number is none.
func TestBounds(t *testing.T) {
	for _, o := range Options() {
		for _, k := range o.Kinds {
			limits := o.For(k)
			if limits.Most == 0 || o.Type == Text {
				continue
			}
			for _, v := range []float64{limits.Least, limits.Most} {
				if wrong, _ := o.Check(k, v); wrong != "" {
					t.Errorf("%s: %s", k, wrong)
				}
			}
			for _, v := range []float64{limits.Least*0.999 - 1e-12, limits.Most * 1.001, math.NaN(), math.Inf(1), -1} {
				if wrong, _ := o.Check(k, v); wrong == "" {
					t.Errorf("%s of %s may be %v", o.Name, k, v)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		spec   measurement.Spec
		option string // at fault, empty for none
	}{
		{measurement.Spec{Kind: "speed"}, "kind"},
		{measurement.Spec{Kind: tcp, InFlight: 1}, "in_flight"},
		{measurement.Spec{Kind: tcp, IdleDuration: -1}, "idle"},
		{measurement.Spec{Kind: tcp, Duration: measurement.Seconds(math.NaN())}, "duration"},
		{measurement.Spec{Kind: tcp, Direction: "sideways"}, "direction"},
		{measurement.Spec{Kind: tcp, CongestionControl: "../x"}, "congestion_control"},
		{measurement.Spec{Kind: tcp, Device: "a name of a device"}, "device"},
		{measurement.Spec{Kind: tcp, Flows: 3, SourcePort: 65_533}, ""},
		{measurement.Spec{Kind: tcp, Flows: 3, SourcePort: 65_533, Direction: measurement.Both}, "source_port"},
		{measurement.Spec{Kind: crr, SourcePort: 5000}, "source_port"},
		{measurement.Spec{Kind: tcp, Duration: maxSeconds}, "duration"},
		{measurement.Spec{Kind: tcp, MaxWarmup: maxSeconds}, "max_warmup"},
		{measurement.Spec{Kind: tcp, Duration: maxSeconds - 2}, ""},
		{measurement.Spec{Kind: tcp, Duration: maxSeconds - 2, Pairs: 2, Ramp: 1}, "ramp"},
		{measurement.Spec{Kind: crr, Flows: 10_000}, ""},
		{measurement.Spec{Kind: udp, Flows: 1025}, "flows"},
		{measurement.Spec{Kind: udp, Direction: measurement.Both}, "direction"},
		{measurement.Spec{Kind: pps, GSO: measurement.On}, "gso"},
		{measurement.Spec{Kind: udp, GSO: measurement.On, PacketBytes: 32_753}, ""},
		{measurement.Spec{Kind: udp, GSO: measurement.On, PacketBytes: 32_754}, "gso"},
		{measurement.Spec{Kind: udp, SendMethod: measurement.SendZerocopy}, ""},
		{measurement.Spec{Kind: udp, SendMethod: measurement.SendZerocopy, GSO: measurement.Off}, "send_method"},
		{measurement.Spec{Kind: udp, SendMethod: measurement.SendZerocopy, RateBitsPerSecond: 1e6}, "send_method"},
		{measurement.Spec{Kind: udp, SendMethod: measurement.SendZerocopy, LossBound: 0.1}, "send_method"},
		{measurement.Spec{Kind: tcp, Tool: measurement.IPerf3, Flows: 128}, ""},
		{measurement.Spec{Kind: tcp, Tool: measurement.IPerf3, Flows: 129}, "flows"},
		{measurement.Spec{Kind: tcp, Tool: measurement.IPerf3, SenderPause: 0.001}, "sender_pause"},
		{measurement.Spec{Kind: tcp, Tool: measurement.IPerf3, MaxWarmup: 601}, "max_warmup"},
		{measurement.Spec{Kind: tcp, Tool: measurement.IPerf3, MPTCP: true}, "mptcp"},
		{measurement.Spec{Kind: tcp, MPTCP: true, SendBufferBytes: 1 << 20, MSSBytes: 1400}, ""},
		{measurement.Spec{Kind: tcp, MPTCP: true, PacingBitsPerSecond: 1e6}, "mptcp"},
		{measurement.Spec{Kind: load, MPTCP: true, WindowBytes: 1 << 20}, "mptcp"},
		{measurement.Spec{Kind: udp, Tool: measurement.IPerf3, LossBound: 0.1}, "loss_bound"},
		{measurement.Spec{Kind: rr, RequestBytes: 1 << 20}, ""},
		{measurement.Spec{Kind: rr, RequestBytes: 1 << 20, Protocol: measurement.OverUDP}, "request"},
		{measurement.Spec{Kind: rr, Protocol: measurement.OverICMP}, "protocol"},
		{measurement.Spec{Kind: load, RequestsPerSecond: 10e6}, "requests_per_second"},
		{measurement.Spec{Kind: ftp, Flows: 2, Direction: measurement.Send}, "flows"},
		{measurement.Spec{Kind: ftp, FileCRC32: "0000002a"}, "file_crc32"},
		{measurement.Spec{Kind: ftp, FilePath: "/x", FileCRC32: "0000002a"}, ""},
		{measurement.Spec{Kind: ftp, FilePath: "/x", FileCRC32: "2a"}, "file_crc32"},
		{measurement.Spec{Kind: ftp, FilePath: "/x\n"}, "file_path"},
		{measurement.Spec{Kind: ftp, FilePath: "/x", FileBytes: 5}, "file"},
		{measurement.Spec{Kind: ftp, FilePath: "/x", CongestionControl: "cubic"}, "congestion_control"},
		{measurement.Spec{Kind: ftp, FilePath: "/x", WindowBytes: 64_000}, ""},
		{measurement.Spec{Kind: ping, Timeout: 40, Interval: 0.001}, "timeout"},
		{measurement.Spec{Kind: ping, DSCP: 1}, "dscp"},
	} {
		problems := Check(c.spec.Defaults())
		switch {
		case c.option == "" && problems != nil:
			t.Errorf("%+v: %v", c.spec, problems)
		case c.option != "" && !slices.ContainsFunc(problems, func(p Problem) bool { return p.Option == c.option && p.Remedy != "" }):
			t.Errorf("%+v: %v, want the blame on %s", c.spec, problems, c.option)
		}
	}
	for _, spec := range []measurement.Spec{
		{Kind: rr, InFlight: 2, RequestsPerSecond: 10},
		{Kind: rr, Timeout: 1},
		{Kind: load, Protocol: measurement.OverTCP, Timeout: 1},
	} {
		if spec = spec.Defaults(); Check(spec) != nil || Ignored(spec) == nil {
			t.Errorf("%+v: %v, %v", spec, Check(spec), Ignored(spec))
		}
	}
}

func TestTexts(t *testing.T) {
	flows := OptionNamed("flows")
	for got, want := range map[string]string{
		flows.DefaultText(): "1; load 8",
		flows.BoundsText():  "1 to 10000; udp, pps 1 to 1024; ftp 1 to 256",
		format(Time, 0.01) + format(Time, 86400) + format(Time, 0) + format(Time, 1e-9):  "10ms24h0s1ns",
		format(Size, 65507) + format(Size, 1<<30) + format(Size, 64e3) + format(Size, 0): "65507B1GiB64kB0B",
		format(Rate, 1e12) + format(Share, 0.5) + format(Whole, 10e6):                    "1Tbit50%10000000",
		Either([]string{"a"}) + Either([]string{"a", "b"}):                               "aa or b",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if text := OptionNamed("dscp").Range(tcp); !strings.HasPrefix(text, "a whole number from 0 to 63") {
		t.Errorf("write %s", text)
	}
}
