package testcmd

import (
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testutil"
)

// parse reads the flags of a `hopbench test`.
func parse(t *testing.T, line string) (*testFlags, error) {
	t.Helper()
	f := &testFlags{}
	c := &cobra.Command{}
	c.SetOut(io.Discard)
	f.define(c)
	return f, c.ParseFlags(strings.Fields(line))
}

func TestFlagsChooseTheKindsOfTest(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // kinds; empty is the profile
		err  string
	}{
		{"", "", ""},
		{"-b 1G -4 -p 9 -S 0xb8 -t 5 -q -V --markdown", "", ""},
		{"-u", "udp", ""},
		{"-u -b 1G -R -P 4 -l 1400", "udp", ""},
		{"-P 8", "tcp", ""},
		{"--parallel 8 --time 10 --bitrate 1G", "tcp", ""},
		{"-R", "tcp", ""},
		{"--bidir", "tcp", ""},
		{"-C bbr -w 1M -M 1400 -Z -m -O 2 -i 1 --cport 9000", "tcp", ""},
		{"--iperf3", "tcp", ""},
		{"--iperf3 -u", "udp", ""},
		{"--gso off", "udp", ""},
		{"-R --loss-bound 1%", "udp", ""},
		{"--spin", "rr", ""},
		{"--in-flight 4 --request 100 --protocol udp", "rr", ""},
		{"-c 5 -i 0.2", "ping", ""},
		{"--max-hops 5", "trace", ""},
		{"--file 100MB -P 4", "ftp", ""},
		{"--upload", "ftp", ""},
		{"--upload --spin", "", "--upload (ftp) and --spin (rr, load) together"},
		{"--only tcp,udp,tcp -R", "tcp udp", ""},
		{"--only rr --only load", "rr load", ""},
		{"--only crr -P 16", "crr", ""},
		{"-l 1400", "", "add -u"},
		{"--only speed", "", "they are " + names(measurement.Kinds())},
		{"-u --only udp", "", "leave one of them out"},
		{"-u --spin", "", "--spin has no meaning for udp; it is for rr"},
		{"--only rr,mtu -C bbr", "", "--congestion has no meaning for rr, mtu; it is for tcp, load"},
		{"-R --spin", "", "--reverse (tcp, udp, pps, load) and --spin (rr, load) together"},
	} {
		f, err := parse(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		kinds, err := f.chooseKinds()
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want an error that says %q", c.line, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.line, err)
		case strings.ReplaceAll(names(kinds), ", ", " ") != c.want:
			t.Errorf("%s: %v, want %s", c.line, kinds, c.want)
		}
	}
}

func TestFlagsReachTheSpec(t *testing.T) {
	for _, c := range []struct {
		line string
		want measurement.Spec
	}{
		{"-P 4 -t 2.5 -R -O 1 -w 64K -M 1400 -C bbr -Z --cport 9000 --dscp EF --device eth0", measurement.Spec{
			Kind: measurement.TCP, Flows: 4, Duration: 2.5, Direction: measurement.Receive, MaxWarmup: 1, WindowBytes: 65536, MSSBytes: 1400,
			CongestionControl: "bbr", SendMethod: measurement.SendZerocopy, SourcePort: 9000, DSCP: 46, Device: "eth0"}},
		{"--copy --bidir -S 0x20", measurement.Spec{
			Kind: measurement.TCP, Direction: measurement.Both, CopyPayload: true, SendMethod: measurement.SendCopy, DSCP: 8}},
		{"-m -C reno", measurement.Spec{Kind: measurement.TCP, CongestionControl: "reno", MPTCP: true}},
		{"-P 4 -b 1G", measurement.Spec{Kind: measurement.TCP, Flows: 4, PacingBitsPerSecond: 250e6}},
		{"--only load -b 800M", measurement.Spec{Kind: measurement.Load, PacingBitsPerSecond: 100e6}},
		{"-u -P 4 -b 1Gbit -l 1200 --gso on --gro off", measurement.Spec{
			Kind: measurement.UDP, Flows: 4, RateBitsPerSecond: 1e9, PacketBytes: 1200, GSO: measurement.On, GRO: measurement.Off}},
		{"-u -b 0 --gso auto --iperf3", measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3}},
		{"--only pps --loss-bound 0.1%", measurement.Spec{Kind: measurement.PPS, LossBound: 0.001}},
		{"--only rr -l 1000 --protocol udp --in-flight 3 --timeout 500ms --spin", measurement.Spec{
			Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 1000, ResponseBytes: 1000, InFlight: 3, Timeout: 0.5, Spin: true}},
		{"--only crr --request 10 --response 2kB", measurement.Spec{Kind: measurement.CRR, RequestBytes: 10, ResponseBytes: 2000}},
		{"-c 3 -l 8", measurement.Spec{Kind: measurement.Ping, Count: 3, PayloadBytes: 8, Interval: 0.02}},
		{"-c 3 -i 1", measurement.Spec{Kind: measurement.Ping, Count: 3, Interval: 1}},
		{"--only trace --protocol icmp --max-hops 4", measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverICMP, MaxHops: 4}},
		{"--only ftp -P 8 --file 100MB", measurement.Spec{Kind: measurement.FTP, Flows: 8, FileBytes: 100e6, Direction: measurement.Receive}},
		{"--upload", measurement.Spec{Kind: measurement.FTP, Flows: 1, FileBytes: 1e9, Direction: measurement.Send}},
		{"--ftp-path /x --ftp-crc32 0000002A", measurement.Spec{Kind: measurement.FTP, FilePath: "/x", FileCRC32: "0000002a"}},
		{"--only mtu --timeout 1", measurement.Spec{Kind: measurement.MTU, Timeout: 1}},
	} {
		f, err := parse(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		kinds, err := f.chooseKinds()
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		todo, err := f.sequence(kinds)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		got, _ := todo.Next(nil)
		if want := c.want.Defaults(); got.Spec != want {
			t.Errorf("%s:\n%+v, want\n%+v", c.line, got.Spec, want)
		}
	}
}

// The command line that is kept of a test repeats it.
func TestCommandOfATest(t *testing.T) {
	for _, line := range []string{
		"", "--only tcp,rr -P 8 -t 1.5 -b 0 -w 1M -S 0xb8 --blocks 3", "-u -b 500M -l 1400 --gso off", "--dscp EF -4 -p 9 --bind=", "-i 0.5 -R",
		"--only udp --loss-bound 0.1% --file 7M", "--ftp-server h --ftp-path /x --ftp-crc32 0000002a",
		"--versus 10.0.0.8,dscp=46 --versus :5202 --only tcp,rr",
	} {
		read := func(words []string) (testFlags, []string) {
			var f testFlags
			c := &cobra.Command{Use: "test"}
			f.define(c)
			if err := c.ParseFlags(words); err != nil {
				t.Fatalf("%s: %q: %v", line, words, err)
			}
			return f, commandOf(c, []string{"host"})
		}
		f, command := read(append(strings.Fields(line), "--json", "--out=x"))
		again, _ := read(command[2:])
		f.json, f.out = false, ""
		if !reflect.DeepEqual(f, again) || strings.Join(command[:2], " ") != "test host" {
			t.Errorf("%q became %q", line, command)
		}
	}
}

// Each flag shows a trace of itself in the spec of each kind that takes it, so that
// none is taken and ignored.
func TestEveryFlagHasAnEffect(t *testing.T) {
	values := map[kind.Type]string{
		kind.Truth: "true", kind.Whole: "77", kind.Number: "77", kind.Time: "7", kind.Size: "777", kind.Rate: "7M", kind.Share: "7%",
		kind.Name: "x", kind.Text: "0000002a", kind.DSCP: "7", kind.TOS: "4", kind.File: "f",
	}
	for _, flag := range kind.Flags() {
		for _, setting := range flag.Settings {
			for _, k := range setting.Kinds {
				spec := measurement.Spec{Kind: k}.Defaults()
				effect := len(setting.Options) == 0
				for _, text := range append(slices.Clone(flag.Words), values[flag.Type]) {
					f, err := parse(t, "--"+flag.Name+"="+text)
					if err != nil && text != "" {
						t.Fatalf("--%s=%s: %v", flag.Name, text, err)
					}
					changed := spec
					f.options.apply(&changed)
					effect = effect || changed != spec
				}
				if !effect {
					t.Errorf("--%s does nothing to %s", flag.Name, k)
				}
			}
		}
	}
}

// What no end could do is told before anything is sent.
func TestImpossibleSpecsAreRefused(t *testing.T) {
	for _, line := range []string{"-P 100000", "-M 5", "-u -l 70000", "-u --bidir --only udp", "--only udp --protocol tcp", "--only rr --in-flight 99999", "--only rr --protocol icmp",
		"--only crr --cport 9000", "--in-flight 3 --requests-per-second 10", "--only rr --timeout 1", "--iperf3 -m", "-u -Z -b 1M", "-u -Z --gso off"} {
		f, err := parse(t, line)
		testutil.OK(t, err)
		kinds, err := f.chooseKinds()
		if err == nil {
			_, err = f.sequence(kinds)
		}
		if err == nil {
			t.Errorf("%s was accepted", line)
		}
	}
}

// A flag that one of several kinds ignores is for those that do not.
func TestFlagsOfSomeKinds(t *testing.T) {
	for line, want := range map[string][]measurement.Seconds{
		"--only rr,ping --timeout 2":                {0, 2},
		"--only ping,rr,mtu --timeout 2":            {2, 0, 2},
		"--only rr,ping --timeout 2 --protocol udp": {2, 2},
	} {
		f, err := parse(t, line)
		testutil.OK(t, err)
		kinds, err := f.chooseKinds()
		testutil.OK(t, err)
		for i, name := range kinds {
			spec, err := f.options.specOf(name, kinds)
			if err != nil || spec.Timeout != want[i] {
				t.Errorf("%s: the timeout of %s is %v, %v; want %v", line, name, spec.Timeout, err, want[i])
			}
		}
	}
	f, err := parse(t, "--only rr,crr --timeout 2")
	testutil.OK(t, err)
	if _, err := f.options.specOf(measurement.RR, []measurement.Kind{measurement.RR, measurement.CRR}); err == nil {
		t.Error("a timeout that no kind heeds was accepted")
	}
}

func TestNoFlagsAreTheProfile(t *testing.T) {
	f, err := parse(t, "-t 5 --dscp 7")
	testutil.OK(t, err)
	todo, err := f.sequence(nil)
	testutil.OK(t, err)
	if want := (survey.Options{Base: measurement.Spec{DSCP: 7}, Duration: 5}); todo != survey.Sequence(want) {
		t.Errorf("%+v, want %+v", todo, want)
	}
	for done := []survey.Step(nil); ; {
		test, ok := todo.Next(done)
		if !ok {
			break
		}
		if err := kind.Check(test.Spec).Err(); err != nil {
			t.Errorf("%s: %v", test.Name, err)
		}
		step := survey.Step{Test: test}
		step.Trial.Gate.Passed = true
		step.Trial.Metrics = measurement.Metrics{"goodput_bits_per_second": float64(test.Spec.Flows) * 1e9}
		done = append(done, step)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	for want, to := range map[string]Target{"no host is named": {"", 1}, "port 0": {"host", 0}, "as in fe80::1%eth0": {"fe80::1", 1}} {
		if err := new(Host).Check(to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", to, err, want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		arg, device  string
		name, onto   string
		port         uint16
		unacceptable bool
	}{
		{arg: "host", name: "host", port: measurement.DefaultPort},
		{arg: "host:99", name: "host", port: 99},
		{arg: "192.0.2.7%eth0", name: "192.0.2.7", onto: "eth0", port: measurement.DefaultPort},
		{arg: "192.0.2.7%eth0:99", name: "192.0.2.7", onto: "eth0", port: 99},
		{arg: "2001:db8::1", name: "2001:db8::1", port: measurement.DefaultPort},
		{arg: "[2001:db8::1%eth0]:99", name: "2001:db8::1", onto: "eth0", port: 99},
		{arg: "[2001:db8::1]", name: "2001:db8::1", port: measurement.DefaultPort},
		{arg: "[2001:db8::1%eth0]", name: "2001:db8::1", onto: "eth0", port: measurement.DefaultPort},
		{arg: "[2001:db8::1]:99", name: "2001:db8::1", port: 99},
		{arg: "fe80::1%eth0", name: "fe80::1%eth0", port: measurement.DefaultPort},
		{arg: "fe80::1%eth0", device: "eth1", unacceptable: true},
		{arg: "fe80::1", device: "eth0", name: "fe80::1%eth0", onto: "eth0", port: measurement.DefaultPort},
		{arg: "host%eth0", device: "eth0", name: "host", onto: "eth0", port: measurement.DefaultPort},
		{arg: "host%eth0", device: "eth1", unacceptable: true},
		{arg: "host%", unacceptable: true},
		{arg: "host:http", unacceptable: true},
		{arg: "host:99999", unacceptable: true},
		{arg: "host:0", unacceptable: true},
	} {
		f, err := parse(t, strings.TrimSuffix("--device="+c.device, "--device="))
		testutil.OK(t, err)
		got, err := f.target(c.arg, measurement.DefaultPort)
		if (err != nil) != c.unacceptable {
			t.Errorf("%s: %v", c.arg, err)
		}
		if err == nil && (got != (Target{c.name, c.port}) || value[string](f.options, "device") != c.onto) {
			t.Errorf("%s: %+v on %q", c.arg, got, value[string](f.options, "device"))
		}
	}
}

// An address on a link keeps its interface, without which a trace goes nowhere.
func TestResolveOnALink(t *testing.T) {
	at, err := (&Host{}).resolve(t.Context(), Target{"fe80::1%lo", 99}, netip.Addr{})
	if want := netip.MustParseAddrPort("[fe80::1%lo]:99"); err != nil || at != want {
		t.Errorf("%v, %v, want %v", at, err, want)
	}
}

func TestWhomAStockServerIs(t *testing.T) {
	for _, c := range []struct {
		line string
		args []string
		want Target
		err  string
	}{
		{"", []string{"host"}, Target{"host", measurement.DefaultPort}, ""},
		{"--ftp-server host --ftp-path /x", nil, Target{"host", ftpPort}, ""},
		{"--ftp-server host:2121 --ftp-path /x", nil, Target{"host", 2121}, ""},
		{"-p 99", []string{"host"}, Target{"host", 99}, ""},
		{"-p 99", []string{"host:99"}, Target{"host", 99}, ""},
		{"-p 99", []string{"host:98"}, Target{}, "do not name one port"},
		{"-p 2121 --ftp-server host --ftp-path /x", nil, Target{"host", 2121}, ""},
		{"-p 2121 --ftp-server host:21 --ftp-path /x", nil, Target{}, "do not name one port"},
		{"--ftp-server host", nil, Target{}, "give --ftp-path"},
		{"--ftp-server host --ftp-path /x", []string{"other"}, Target{}, "two hosts"},
		{"--ftp-user me", []string{"host"}, Target{}, "--ftp-server"},
	} {
		f, err := parse(t, c.line)
		testutil.OK(t, err)
		got, err := f.whom(c.args, strings.HasPrefix(c.line, "-p"))
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s %v: %v, %v", c.line, c.args, got, err)
		}
	}
}
