package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/survey"
)

// parse reads the flags of a `hopbench test`.
func parse(t *testing.T, line string) (*testFlags, func(string) bool, error) {
	t.Helper()
	f := &testFlags{}
	c := &cobra.Command{}
	c.SetOut(io.Discard)
	f.define(c)
	err := c.ParseFlags(strings.Fields(line))
	return f, c.Flags().Changed, err
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
		{"--upload --spin", "", "no one kind of test takes --upload (ftp) and --spin (rr)"},
		{"--only tcp,udp,tcp -R", "tcp udp", ""},
		{"--only rr --only load", "rr load", ""},
		{"--only crr -P 16", "crr", ""},
		{"-l 1400", "", "add -u"},
		{"--only speed", "", "they are tcp, udp, pps, rr, crr, load, ftp, mtu, ping, trace"},
		{"-u --only udp", "", "leave one of them out"},
		{"-u --spin", "", "--spin has no meaning for udp; it is for rr"},
		{"--only rr,mtu -C bbr", "", "--congestion has no meaning for rr, mtu; it is for tcp, load"},
		{"-R --spin", "", "--reverse (tcp, udp, pps, load) and --spin (rr)"},
	} {
		f, given, err := parse(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		kinds, err := f.chooseKinds(given)
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
		{"-P 4 -t 2.5 -R -O 1 -w 64K -M 1400 -C bbr -Z -m --cport 9000 --dscp EF --device eth0", measurement.Spec{
			Kind: measurement.TCP, Flows: 4, Duration: 2.5, Direction: measurement.Receive, MaxWarmup: 1, WindowBytes: 65536, MSSBytes: 1400,
			CongestionControl: "bbr", SendMethod: measurement.SendZerocopy, MPTCP: true, SourcePort: 9000, DSCP: 46, Device: "eth0"}},
		{"--copy --bidir -S 0x20", measurement.Spec{
			Kind: measurement.TCP, Direction: measurement.Both, CopyPayload: true, SendMethod: measurement.SendCopy, DSCP: 8}},
		{"-P 4 -b 1G", measurement.Spec{Kind: measurement.TCP, Flows: 4, PacingBitsPerSecond: 250e6}},
		{"--only load -b 800M", measurement.Spec{Kind: measurement.Load, PacingBitsPerSecond: 100e6}},
		{"-u -P 4 -b 1Gbit -l 1200 --gso on --gro off", measurement.Spec{
			Kind: measurement.UDP, Flows: 4, RateBitsPerSecond: 1e9, PacketBytes: 1200, GSO: measurement.On, GRO: measurement.Off}},
		{"-u -b 0 --gso auto --iperf3", measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3}},
		{"--only pps --loss-bound 0.1%", measurement.Spec{Kind: measurement.PPS, LossBound: 0.001}},
		{"--only rr -l 1000 --protocol udp --requests-per-second 100 --in-flight 3 --timeout 500ms --spin", measurement.Spec{
			Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 1000, ResponseBytes: 1000, RequestsPerSecond: 100, InFlight: 3, Timeout: 0.5, Spin: true}},
		{"--only crr --request 10 --response 2kB", measurement.Spec{Kind: measurement.CRR, RequestBytes: 10, ResponseBytes: 2000}},
		{"-c 3 -l 8", measurement.Spec{Kind: measurement.Ping, Count: 3, PayloadBytes: 8, Interval: 0.02}},
		{"-c 3 -i 1", measurement.Spec{Kind: measurement.Ping, Count: 3, Interval: 1}},
		{"--only trace --protocol icmp --max-hops 4", measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverICMP, MaxHops: 4}},
		{"--only ftp -P 8 --file 100MB", measurement.Spec{Kind: measurement.FTP, Flows: 8, FileBytes: 100e6, Direction: measurement.Receive}},
		{"--upload", measurement.Spec{Kind: measurement.FTP, Flows: 1, FileBytes: 1e9, Direction: measurement.Send}},
		{"--ftp-path /x --ftp-crc32 0000002A", measurement.Spec{Kind: measurement.FTP, FilePath: "/x", FileCRC32: "0000002a"}},
		{"--only mtu --timeout 1", measurement.Spec{Kind: measurement.MTU, Timeout: 1}},
	} {
		f, given, err := parse(t, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		kinds, err := f.chooseKinds(given)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		todo, err := f.sequence(kinds, given)
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

// Each option is a flag, and a kind that it is said to be for shows a trace of
// it in its spec, so that no flag is taken and ignored.
func TestEveryOptionHasAnEffect(t *testing.T) {
	values := map[string]string{
		"flows": "3", "reverse": "true", "bidir": "true", "duration": "77", "omit": "7", "window": "1M", "mss": "1000", "congestion": "x",
		"zerocopy": "true", "copy": "true", "mptcp": "true", "iperf3": "true", "dscp": "7", "tos": "4", "device": "d", "cport": "77",
		"length": "777", "gso": "on", "gro": "on", "loss-bound": "7%", "protocol": "icmp", "request": "77", "response": "77",
		"requests-per-second": "77", "in-flight": "77", "spin": "true", "interval": "7", "count": "7", "timeout": "7", "max-hops": "7", "rate": "7M",
		"upload": "true", "file": "7M", "ftp-path": "/x", "ftp-crc32": "0000002a", "ftp-user": "u", "ftp-password-file": "f", "ftp-server": "h",
	}
	// These say whom to ask and as who, which is no part of a spec.
	whom := []string{"ftp-user", "ftp-password-file", "ftp-server"}
	for _, o := range options() {
		if values[o.flag] == "" {
			t.Errorf("give the test a value for --%s", o.flag)
			continue
		}
		f, given, err := parse(t, "--"+o.flag+"="+values[o.flag])
		if err != nil {
			t.Errorf("--%s: %v", o.flag, err)
			continue
		}
		for _, k := range o.kinds {
			shown := o.flag == "interval" && k != measurement.Ping || slices.Contains(whom, o.flag) // the interval is the summary's
			if f.specOf(k, given) == (measurement.Spec{Kind: k}).Defaults() && !shown {
				t.Errorf("--%s does nothing to %s", o.flag, k)
			}
		}
		if !slices.IsSortedFunc(o.kinds, func(a, b measurement.Kind) int {
			return slices.Index(measurement.Kinds(), a) - slices.Index(measurement.Kinds(), b)
		}) {
			t.Errorf("the kinds of --%s are not in the usual order: %v", o.flag, o.kinds)
		}
	}
}

// What no end could do is told before anything is sent.
func TestImpossibleSpecsAreRefused(t *testing.T) {
	for _, line := range []string{"-P 100000", "-M 5", "-u -l 70000", "-u --bidir --only udp", "--only udp --protocol tcp", "--only rr --in-flight 99999", "--only rr --protocol icmp"} {
		f, given, err := parse(t, line)
		if err != nil {
			t.Fatal(err)
		}
		kinds, err := f.chooseKinds(given)
		if err == nil {
			_, err = f.sequence(kinds, given)
		}
		if err == nil {
			t.Errorf("%s was accepted", line)
		}
	}
}

func TestNoFlagsAreTheProfile(t *testing.T) {
	f, given, err := parse(t, "-t 5 --dscp 7")
	if err != nil {
		t.Fatal(err)
	}
	todo, err := f.sequence(nil, given)
	if err != nil {
		t.Fatal(err)
	}
	if want := (survey.Options{Base: measurement.Spec{DSCP: 7}, Duration: 5}); todo != sequence(want) {
		t.Errorf("%+v, want %+v", todo, want)
	}
	for done := []survey.Step(nil); ; {
		test, ok := todo.Next(done)
		if !ok {
			break
		}
		if err := probe.CheckSpec(test.Spec); err != nil {
			t.Errorf("%s: %v", test.Name, err)
		}
		step := survey.Step{Test: test}
		step.Trial.Gate.Passed = true
		step.Trial.Metrics = measurement.Metrics{"goodput_bits_per_second": float64(test.Spec.Flows) * 1e9}
		done = append(done, step)
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		arg, device  string
		name, onto   string
		port         uint16
		unacceptable bool
	}{
		{arg: "host", name: "host", port: defaultPort},
		{arg: "host:99", name: "host", port: 99},
		{arg: "192.0.2.7%eth0", name: "192.0.2.7", onto: "eth0", port: defaultPort},
		{arg: "192.0.2.7%eth0:99", name: "192.0.2.7", onto: "eth0", port: 99},
		{arg: "2001:db8::1", name: "2001:db8::1", port: defaultPort},
		{arg: "[2001:db8::1%eth0]:99", name: "2001:db8::1", onto: "eth0", port: 99},
		{arg: "fe80::1%eth0", name: "fe80::1%eth0", onto: "eth0", port: defaultPort},
		{arg: "host%eth0", device: "eth0", name: "host", onto: "eth0", port: defaultPort},
		{arg: "host%eth0", device: "eth1", unacceptable: true},
		{arg: "host%", unacceptable: true},
		{arg: "host:http", unacceptable: true},
		{arg: "host:99999", unacceptable: true},
	} {
		f := &testFlags{port: defaultPort, device: c.device}
		got, err := f.target(c.arg)
		if (err != nil) != c.unacceptable {
			t.Errorf("%s: %v", c.arg, err)
		}
		if err == nil && (got != (target{c.name, c.port}) || f.device != c.onto) {
			t.Errorf("%s: %+v on %q", c.arg, got, f.device)
		}
	}
}
