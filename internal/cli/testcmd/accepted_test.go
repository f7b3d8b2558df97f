package testcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/survey"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Whatever the command line or an experiment file accepts, two ends can do: no spec
// that loads is refused as wrong when it runs, by this end or the other. What this
// host cannot do (a protocol that its kernel lacks, a limit of the server's) is no
// disagreement. Each test takes a moment; its other values are any.
func TestWhatIsAcceptedRuns(t *testing.T) {
	native, stock := serveForTests(t)
	for name, value := range map[string]string{"rapid.checks": "40", "rapid.shrinktime": "5s", "rapid.nofailfile": "true"} {
		setting := flag.Lookup(name).Value
		was := setting.String()
		t.Cleanup(func() { _ = setting.Set(was) })
		testutil.OK(t, setting.Set(value))
	}
	var ran [2]int // from flags, from files
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kind.All()).Draw(t, "kind")
		way := rapid.IntRange(0, 1).Draw(t, "flags or file")
		for _, spec := range []func(*rapid.T, measurement.Kind) []measurement.Spec{flagSpecs, fileSpecs}[way](t, k.Name) {
			if !brief(spec) {
				continue
			}
			ran[way]++
			target := native
			if spec.Tool == measurement.IPerf3 {
				target = stock
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_, err := probe.Run(ctx, probe.Request{Spec: spec, Target: target}, nil)
			cancel()
			if refused(err) {
				t.Fatalf("accepted, but: %v\n%+v", err, spec)
			}
			if err != nil {
				t.Logf("%s: %v", spec.Kind, err)
			}
		}
	})
	if min(ran[0], ran[1]) < 3 {
		t.Errorf("of the specs drawn, only %d of flags and %d of files were accepted and brief", ran[0], ran[1])
	}
}

// refused says whether a test failed because of what was asked, and not because of
// this host: a port that is taken, or too much load for the moment that it takes.
func refused(err error) bool {
	var failure *probe.Error
	if !errors.As(err, &failure) || failure.Reason != probe.Failed && failure.Reason != probe.Protocol || errors.Is(err, syscall.EADDRINUSE) {
		return false
	}
	for _, load := range []string{"too busy", "overload", "was served"} {
		if strings.Contains(err.Error(), load) {
			return false
		}
	}
	return true
}

// serveForTests is a server for the tests of this program, and one for those of
// iperf3, whose clients cannot all be served at the same time.
func serveForTests(t *testing.T) (native, stock netip.AddrPort) {
	serve := func() netip.AddrPort {
		server, err := probe.NewServer(probe.ServerOptions{Open: true})
		testutil.OK(t, err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- server.Serve(ctx, ln) }()
		t.Cleanup(func() { stop(); <-done })
		return ln.Addr().(*net.TCPAddr).AddrPort()
	}
	return serve(), serve()
}

// brief says whether a test ends soon and asks little of this machine.
func brief(s measurement.Spec) bool {
	return s.ExpectedDuration() < 4 && kind.Connections(s) <= 1200 && s.FileBytes <= 10e6 && s.Timeout <= 1
}

// drawn draws a value of a type between two bounds, as text of an experiment file.
// Times are short: a test is to take a moment.
func drawn(t *rapid.T, o kind.Option, k measurement.Kind) string {
	limits := o.For(k)
	switch o.Type {
	case kind.Truth:
		return strconv.FormatBool(rapid.Bool().Draw(t, o.Name))
	case kind.Word:
		return rapid.SampledFrom(limits.Words).Draw(t, o.Name)
	case kind.Time:
		return fmt.Sprintf("%dms", rapid.IntRange(200, 300).Draw(t, o.Name))
	case kind.Share:
		return fmt.Sprintf("%d%%", rapid.IntRange(1, 50).Draw(t, o.Name))
	case kind.Name:
		return map[string]string{"congestion_control": "reno", "device": "lo"}[o.Name]
	}
	bounds := map[string][2]int{
		"rate": {100e6, 1e9}, "pacing": {100e6, 1e9}, "source_port": {10_000, 20_000}, "count": {1, 3}, "file": {300_000, 5_000_000},
		"send_buffer": {4_000, 8 << 20}, "receive_buffer": {4_000, 8 << 20}, "window": {4_000, 8 << 20}, "requests_per_second": {100, 20_000},
		"flows": {1, 8},
	}
	low, high := int(limits.Least), int(limits.Most)
	if b, ok := bounds[o.Name]; ok {
		low, high = b[0], b[1]
	}
	if k == measurement.CRR && o.Name == "flows" {
		high = 1200
	}
	n := rapid.OneOf(rapid.IntRange(low, high), rapid.Just(low), rapid.Just(high)).Draw(t, o.Name)
	unit := map[kind.Type]string{kind.Size: "B", kind.Rate: "bit"}[o.Type]
	return strconv.Itoa(n) + unit
}

// fileSpecs are the specs of an experiment file of one test, none if it is refused.
func fileSpecs(t *rapid.T, k measurement.Kind) []measurement.Spec {
	keys := map[string]string{}
	for _, o := range kind.Options() {
		short := o.InLength && o.Name != "file" // else a test takes seconds
		if o.InFile && o.Takes(k) && !o.Several && (short || rapid.IntRange(0, 3).Draw(t, "with "+o.Name) == 0) {
			keys[o.Name] = drawn(t, o, k)
		}
	}
	if _, ok := keys["file"]; k == measurement.FTP && !ok {
		keys["file"] = "3MB"
	}
	var text strings.Builder
	text.WriteString("format: hopbench.experiment/1\nname: drawn\nendpoints: [{name: a}, {name: b}]\nsource: a\ndestination: b\nbaseline: p\n" +
		"paths: [{name: p, hops: [{type: link}]}, {name: q, hops: [{type: link}]}]\ntests:\n  - name: it\n    kind: " + string(k) + "\n")
	for _, o := range kind.Options() {
		if value, ok := keys[o.Name]; ok {
			fmt.Fprintf(&text, "    %s: %s\n", o.Name, value)
		}
	}
	e, err := experiment.Load("drawn.yaml", []byte(text.String()))
	if err != nil {
		t.Logf("%v", err)
		return nil
	}
	return []measurement.Spec{e.Plan(1).Trials[0].Spec}
}

// flagSpecs are the specs of a command line for one kind of test, none if it is
// refused.
func flagSpecs(t *rapid.T, k measurement.Kind) []measurement.Spec {
	args := []string{"--only", string(k)}
	for _, f := range kind.Flags() {
		if !f.Takes(k) || strings.HasPrefix(f.Name, "ftp-") {
			continue // those are about a stock server
		}
		o := kind.Option{Name: f.Name, Type: f.Type, Limits: kind.Limits{Least: 1, Most: 2000, Words: f.Words}}
		for _, s := range f.Settings {
			if slices.Contains(s.Kinds, k) && len(s.Options) > 0 {
				typ := o.Type
				o, _ = kind.Find(k, s.Options[0])
				o.Type = typ
			}
		}
		needed := slices.Contains([]string{"duration", "omit", "file", "count", "interval"}, f.Name)
		if !needed && rapid.IntRange(0, 3).Draw(t, "with --"+f.Name) > 0 {
			continue
		}
		text := drawn(t, o, k)
		if f.Type == kind.TOS {
			text = "32"
		}
		args = append(args, "--"+f.Name+"="+text)
	}
	f := &testFlags{}
	c := Command(base.Streams{})
	c.ResetFlags()
	f.define(c)
	err := c.ParseFlags(args)
	if err == nil {
		err = c.ValidateFlagGroups()
	}
	var todo survey.Sequence
	if err == nil {
		var kinds []measurement.Kind
		if kinds, err = f.chooseKinds(); err == nil {
			todo, err = f.sequence(kinds)
		}
	}
	if err != nil {
		t.Logf("%v: %v", args, err)
		return nil
	}
	test, _ := todo.Next(nil)
	return []measurement.Spec{test.Spec}
}
