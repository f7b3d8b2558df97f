package testcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed/direct"
	"github.com/hopbench/hopbench/internal/testbed/direct/directtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// compared is the comparison that a command line asks for.
func compared(t *testing.T, to, line string) (*comparison, error) {
	t.Helper()
	f, err := parse(t, line)
	testutil.OK(t, err)
	whom, err := f.target(to, f.Port)
	testutil.OK(t, err)
	kinds, err := f.chooseKinds()
	if err != nil {
		return nil, err
	}
	return f.comparison(whom, kinds, slices.ContainsFunc(strings.Fields(line), func(word string) bool { return strings.HasPrefix(word, "--blocks") }))
}

func TestWaysAreNamedByWhatTellsThemApart(t *testing.T) {
	for _, c := range []struct{ to, line, want string }{
		{"10.0.0.7", "--versus 203.0.113.9", "10.0.0.7 203.0.113.9"},
		{"10.0.0.7", "--versus 203.0.113.9:5202", "10.0.0.7:5201 203.0.113.9:5202"},
		{"10.0.0.7", "--versus :5202", ":5201 :5202"},
		{"10.0.0.7", "--versus port=5202 -p 9", ":9 :5202"},
		{"10.0.0.7:99", "--versus 203.0.113.9", "10.0.0.7 203.0.113.9"},
		{"2001:db8::1", "--versus [2001:db8::2]:7", "[2001:db8::1]:5201 [2001:db8::2]:7"},
		{"10.0.0.7", "--versus bind=10.0.5.2", "bind=any bind=10.0.5.2"},
		{"10.0.0.7", "-B 10.0.5.2 --versus bind=any", "bind=10.0.5.2 bind=any"},
		{"10.0.0.7", "--versus device=eth1", "device=any device=eth1"},
		{"10.0.0.7%eth0", "--versus %eth1", "device=eth0 device=eth1"},
		{"10.0.0.7", "--versus 203.0.113.9%eth1", "10.0.0.7,device=any 203.0.113.9,device=eth1"},
		{"fe80::1%eth0", "--versus fe80::1%eth1", "fe80::1%eth0 fe80::1%eth1"},
		{"fe80::1%eth0", "--versus fe80::2%eth0 --only ping", "fe80::1%eth0 fe80::2%eth0"},
		{"10.0.0.7%eth0", "--versus fe80::1%eth1", "10.0.0.7,device=eth0 fe80::1%eth1,device=any"},
		{"10.0.0.7", "--versus fe80::1,device=eth1", "10.0.0.7,device=any fe80::1%eth1,device=eth1"},
		{"10.0.0.7", "--versus dscp=EF", "dscp=0 dscp=46"},
		{"10.0.0.7", "-S 0xb8 --versus dscp=0", "dscp=46 dscp=0"},
		{"10.0.0.7", "--versus bind=10.0.5.2,dscp=8 --versus bind=10.0.5.3", "bind=any,dscp=0 bind=10.0.5.2,dscp=8 bind=10.0.5.3,dscp=0"},
	} {
		got, err := compared(t, c.to, c.line)
		if err != nil {
			t.Errorf("%s %s: %v", c.to, c.line, err)
			continue
		}
		if called := strings.Join(wayNames(got.ways), " "); called != c.want {
			t.Errorf("%s %s: %s, want %s", c.to, c.line, called, c.want)
		}
		// A name says what it stands for.
		for i, name := range wayNames(got.ways) {
			if again, err := got.ways[0].other(name); err != nil || again != got.ways[i] {
				t.Errorf("%s became %+v (%v), was %+v", name, again, err, got.ways[i])
			}
		}
	}
}

func TestImpossibleComparisonsAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--versus=":                                  "names nothing",
		"--versus bind=":                             "names nothing",
		"--versus 10.0.0.8,":                         "names nothing",
		"--versus 10.0.0.8,10.0.0.9":                 "names HOST twice",
		"--versus %eth1,device=eth2":                 "names device twice",
		"--versus device=eth2,%eth1":                 "names device twice",
		"--versus port=5203,10.0.0.8:5202":           "names port twice",
		"--versus fe80::1%eth1,device=eth2":          "is an address on the link of eth1",
		"--versus fe80::1":                           "as in fe80::1%eth0",
		"--versus :0":                                "not a port",
		"--versus mtu=1400":                          "none of bind, device, dscp and port",
		"--versus :http":                             "not a port",
		"--versus port=99999":                        "not a port",
		"--versus dscp=64":                           "not a code point",
		"--versus host%":                             "no interface",
		"--versus 10.0.0.7":                          "is the same path as HOST",
		"--versus :5201":                             "is the same path as HOST",
		"--versus dscp=0":                            "is the same path as HOST",
		"--versus :5202 --versus 10.0.0.7:5202":      "is the same path as --versus :5202",
		"--versus 10.0.0.8 --only trace":             "nothing of trace is compared",
		"--versus dscp=8 --only tcp,ping":            "ping takes no dscp",
		"--versus device=eth1 --only ping":           "ping takes no device",
		strings.Repeat("--versus dscp=8 ", mostWays): "compare at most",
	} {
		if _, err := compared(t, "10.0.0.7", line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", line, err, want)
		}
	}
}

// What tells the ways apart is theirs, and what they share is the tests'.
func TestComparisonsAreWholeExperiments(t *testing.T) {
	c, err := compared(t, "10.0.0.7", "--versus dscp=46 --device lo -w 64K -C bbr -P 8 -R")
	testutil.OK(t, err)
	plan := c.e.Plan(1)
	if len(plan.Trials) != 12 || c.e.Baseline != "dscp=0" || !strings.HasSuffix(c.e.Name, "dscp=46 against dscp=0, to 10.0.0.7") {
		t.Errorf("%q: %d trials against %s", c.e.Name, len(plan.Trials), c.e.Baseline)
	}
	want := measurement.Spec{Kind: measurement.TCP, Flows: 8, Direction: measurement.Receive, Device: "lo", WindowBytes: 65536, CongestionControl: "bbr"}.Defaults()
	for _, trial := range plan.Trials {
		if trial.Spec != want {
			t.Fatalf("%+v, want %+v", trial.Spec, want)
		}
	}
	c, err = compared(t, "10.0.0.7", "--versus 10.0.0.8 --blocks 10")
	testutil.OK(t, err)
	if tests := c.e.TestInfos(); len(tests) != 2 || tests[0].Spec.Duration != 2 || tests[1].Name != "rr" || c.e.Blocks != 10 {
		t.Errorf("%d blocks of %+v", c.e.Blocks, tests)
	}
}

// versusMeasured is what a comparison prints over fake paths.
func versusMeasured(t *testing.T, ctx context.Context, line string, run direct.RunFunc) (stdout, stderr string, err error) {
	t.Helper()
	stream := event.NewStream()
	defer stream.Close()
	return versusMeasuredOn(t, ctx, stream, line, run)
}

// versusMeasuredOn is versusMeasured, with the stream of its events.
func versusMeasuredOn(t *testing.T, ctx context.Context, stream *event.Stream, line string, run direct.RunFunc) (stdout, stderr string, err error) {
	t.Helper()
	c, err := compared(t, "127.0.0.2:9", line)
	testutil.OK(t, err)
	c.flags.stream = stream
	var out, shown bytes.Buffer
	c.watch = func(*store.Head, string, *live.Progress) *live.Neighbours { return &live.Neighbours{} }
	err = c.measure(ctx, base.Streams{Out: &out, Err: &shown}, run)
	return out.String(), shown.String(), err
}

// slower makes the path to an address carry less, and later; no two blocks are alike.
func slower(than netip.Addr) direct.RunFunc {
	return func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		o, err := directtest.Path(ctx, r, progress)
		block := int(r.ID[2] - '1')
		share := 1 + []float64{3, 1, 4, 1, 5, 9, 2}[block]/1000
		if r.Target.Addr() == than {
			share = 0.8 + []float64{2, 7, 1, 8, 2, 8, 1}[block]/1000
		}
		switch r.Spec.Kind {
		case measurement.TCP:
			o.Metrics["goodput_bits_per_second"] *= share
		case measurement.RR:
			o.Metrics["rtt_p50_seconds"] /= share
		}
		return o, err
	}
}

var third = netip.MustParseAddr("127.0.0.3")

func TestComparisonOfTwoWays(t *testing.T) {
	out, progress, err := versusMeasured(t, t.Context(), "--versus 127.0.0.3", slower(third))
	testutil.OK(t, err)
	if !strings.Contains(progress, "127.0.0.3 against 127.0.0.2: 2 paths × 2 tests × 6 blocks, about 49 s\n") || !strings.Contains(progress, "block 6/6") {
		t.Errorf("progress:\n%s", progress)
	}
	when := regexp.MustCompile(`(?m)^.* · 6 blocks · (.*) · seed \d+$`)
	reporttest.Golden(t, "versus.txt", when.ReplaceAll([]byte(out), []byte("WHEN · 6 blocks · $1 · SEED")))
}

func TestComparisonInJSONAndMarkdown(t *testing.T) {
	out, _, err := versusMeasured(t, t.Context(), "--versus 127.0.0.3 --blocks 7 -q --json --matters rtt=50us", slower(third))
	testutil.OK(t, err)
	var r result.Result
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() {
		t.Fatalf("%v in\n%s", err, out)
	}
	if !r.Complete || len(r.Trials) != 28 || len(r.Paths) != 2 || !r.Paths[0].Baseline || r.Paths[1].Dest != "127.0.0.3:9" || r.Experiment.Matters == nil {
		t.Errorf("complete %v, %d trials, paths %+v", r.Complete, len(r.Trials), r.Paths)
	}
	for _, c := range r.Costs {
		if c.Primary && (c.Verdict != result.Costs || c.Path != "127.0.0.3" || c.Baseline != "127.0.0.2") {
			t.Errorf("%+v", c)
		}
	}
	out, _, err = versusMeasured(t, t.Context(), "--versus 127.0.0.3 --markdown -V", slower(third))
	if err != nil || !strings.Contains(out, "| 1 flow, 127.0.0.3 (6/6) |") || !strings.Contains(out, "\n# 127.0.0.3 against 127.0.0.2\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// Every test of a way is sent as the way says, and to where it says.
func TestWaysReachTheirTests(t *testing.T) {
	for line, want := range map[string]string{
		"--versus bind=127.0.0.1,dscp=46": "127.0.0.1 127.0.0.2:9 lo 46",
		"--versus 127.0.0.3:7":            "invalid IP 127.0.0.3:7 lo 8",
		"--versus device=any":             "invalid IP 127.0.0.2:9  8",
	} {
		tests := map[string]int{}
		_, _, err := versusMeasured(t, t.Context(), "--device lo --dscp CS1 --only rr,udp "+line, func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind != measurement.Trace {
				tests[fmt.Sprintf("%v %v %s %d", r.Source, r.Target, r.Spec.Device, r.Spec.DSCP)]++
			}
			return directtest.Path(ctx, r, progress)
		})
		if err != nil || len(tests) != 2 || tests[want] != 12 || tests["invalid IP 127.0.0.2:9 lo 8"] != 12 {
			t.Errorf("%s: %v, %v", line, err, tests)
		}
	}
}

// A comparison that is kept is a run, with a report.
func TestKeptComparison(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	_, progress, err := versusMeasured(t, t.Context(), "--versus 127.0.0.3 -o "+dir, slower(third))
	if err != nil || !strings.Contains(progress, filepath.Join(dir, "report.html")) {
		t.Errorf("%v:\n%s", err, progress)
	}
	if r, err := runs.Load(t.Context(), dir); err != nil || !r.Complete || len(r.Trials) != 24 {
		t.Errorf("%v, %+v", err, r)
	}
}

// Stopped, it reports what it has, and says that it does not go on.
func TestInterruptedComparison(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	out, _, err := versusMeasured(t, ctx, "--versus 127.0.0.3", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		if r.Spec.Kind == measurement.Trace { // of the path, before a test
			return directtest.Path(ctx, r, progress)
		}
		if done++; done > 5 {
			cancel()
			return measurement.Outcome{}, ctx.Err()
		}
		return slower(third)(ctx, r, progress)
	})
	if err == nil || !strings.Contains(err.Error(), "stopped after 5 of 24 trials; a comparison by hopbench test is not resumed") || !strings.Contains(out, "5 of 24 trials") ||
		!strings.Contains(out, "! The comparison was stopped after 1 of") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// Without a server there is nothing to compare, unless it is the path that fails later.
func TestComparisonNeedsAServerAtEachEnd(t *testing.T) {
	for _, from := range []int{1, 2} {
		ran := 0
		out, _, err := versusMeasured(t, t.Context(), "--versus 127.0.0.3", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind == measurement.Trace { // of the path, before a test
				return directtest.Path(ctx, r, progress)
			}
			ran++
			if r.Target.Addr() == third && int(r.ID[2]-'0') >= from {
				return measurement.Outcome{}, errRefused
			}
			return directtest.Path(ctx, r, progress)
		})
		if none := err != nil && strings.Contains(err.Error(), "no server could be used on the path 127.0.0.3"); none != (from == 1) || (ran == 24) != (from == 2) {
			t.Errorf("from block %d: %d tests, %v", from, ran, err)
		}
		if from == 2 && (err != nil || !strings.Contains(out, "broke 5 of 6 trials")) {
			t.Errorf("a path that fails: %v\n%s", err, out)
		}
	}
	_, _, err := versusMeasured(t, t.Context(), "--versus 127.0.0.3", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		if r.Spec.Kind == measurement.RR {
			return measurement.Outcome{}, &probe.Error{Op: "rr", Reason: probe.Unsupported, Err: errors.New("it has none")}
		}
		return directtest.Path(ctx, r, progress)
	})
	if err == nil || !strings.Contains(err.Error(), "none of 6 trials of latency on the path 127.0.0.2 counts") {
		t.Errorf("a test that nobody has: %v", err)
	}
}

// Names that lead to one address, and addresses and interfaces that are not here, are told
// before anything is sent.
func TestWaysThatAreOnePath(t *testing.T) {
	for line, want := range map[string]string{
		"--versus ::ffff:127.0.0.2":       "are the same path: both are 127.0.0.2:9",
		"--versus bind=192.0.2.1":         "no address of this host",
		"--versus bind=x":                 "no address to send from",
		"--versus device=nosuchdevice0":   "no network interface of this host",
		"--versus [::1]:9,bind=127.0.0.1": "find an address of ::1 to which 127.0.0.1 can send",
	} {
		_, _, err := versusMeasured(t, t.Context(), line, failing(errors.New("something was sent")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", line, err, want)
		}
	}
}

func TestCompletionOfWays(t *testing.T) {
	for typed, want := range map[string]string{
		"": "bind=", "10.0.0.8,": "10.0.0.8,dscp=", "dscp=": "dscp=AF41", "bind=10.0.5.2,dscp=": "bind=10.0.5.2,dscp=EF",
	} {
		if got, _ := completeVersus(nil, nil, typed); !slices.Contains(got, want) {
			t.Errorf("%q: %q, want %q among them", typed, got, want)
		}
	}
	if got, _ := completeVersus(nil, nil, "bind=1"); len(got) > 0 {
		t.Errorf("an address: %q", got)
	}
}

func TestLocalAddressOfTheOtherVersionOfIP(t *testing.T) {
	f, err := parse(t, "-6")
	testutil.OK(t, err)
	if _, err := f.resolve(t.Context(), Target{"::1", 9}, third); err == nil || !strings.Contains(err.Error(), "the other version of IP") || base.Status(err, new(bytes.Buffer)) != base.ExitUsage {
		t.Errorf("%v", err)
	}
}

// What is no way must never be taken for one.
func FuzzVersus(f *testing.F) {
	for _, seed := range []string{"10.0.0.8", "[::1%eth0]:9,bind=10.0.5.2", "device=eth1,dscp=EF", ":5202", "%", ",=,", "bind=any"} {
		f.Add(seed)
	}
	first := way{Target: Target{"h", 1}}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := first.other(text)
		if err != nil {
			return
		}
		if w.Name == "" || w.dscp < 0 || w.dscp > 63 {
			t.Fatalf("%q became %+v", text, w)
		}
	})
}

// Ways that traces cannot tell apart are named, where traces could.
func TestWaysThatTracesDoNotTellApart(t *testing.T) {
	for line, want := range map[string]bool{
		"--versus bind=127.0.0.1": true, "--versus 127.0.0.3": false, "--versus bind=127.0.0.1,dscp=46": false, "--versus device=lo": false,
	} {
		out, _, err := versusMeasured(t, t.Context(), "--only rr "+line, func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			o, err := directtest.Path(ctx, r, progress)
			if r.Spec.Kind == measurement.Trace {
				o.Hops = []measurement.TraceHop{{TTL: 1, Address: r.Target.Addr().String(), Reached: true}}
			}
			return o, err
		})
		if err != nil || strings.Contains(out, "show the same hops") != (want && runtime.GOOS == "linux") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}
