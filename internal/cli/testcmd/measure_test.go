package testcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/direct"
	"github.com/hopbench/hopbench/internal/testbed/direct/directtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// measured is what one command line prints, over a fake path.
func measured(t *testing.T, ctx context.Context, line string, run direct.RunFunc) (stdout, stderr string, err error) {
	t.Helper()
	stream := event.NewStream()
	defer stream.Close()
	return measuredOn(t, ctx, stream, line, run)
}

// measuredOn is measured, with the stream of its events.
func measuredOn(t *testing.T, ctx context.Context, stream *event.Stream, line string, run direct.RunFunc) (stdout, stderr string, err error) {
	t.Helper()
	f, err := parse(t, line)
	testutil.OK(t, err)
	to, err := f.target("127.0.0.1:9", f.Port)
	testutil.OK(t, err)
	f.stream = stream
	return measuredTo(t, ctx, f, to, run)
}

// measuredTo is measured, of a host and with flags that were read.
func measuredTo(t *testing.T, ctx context.Context, f *testFlags, to Target, run direct.RunFunc) (stdout, stderr string, err error) {
	t.Helper()
	kinds, err := f.chooseKinds()
	testutil.OK(t, err)
	todo, err := f.sequence(kinds)
	testutil.OK(t, err)
	var out, errors bytes.Buffer
	err = measureHost(ctx, base.Streams{Out: &out, Err: &errors}, f, to, todo, run)
	return out.String(), errors.String(), err
}

// failing is a path on which every test fails.
func failing(err error) direct.RunFunc {
	return func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error) {
		return measurement.Outcome{}, err
	}
}

// Why a server cannot be used: nothing listens, nothing answers, or another program does.
var (
	errRefused   = &probe.Error{Op: "connect", Reason: probe.Refused, Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	errSilent    = &probe.Error{Op: "connect", Reason: probe.TimedOut, Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}}
	errMalformed = &probe.Error{Op: "connect", Reason: probe.Protocol, Err: protocol.ErrMalformed}
)

func TestProfileInText(t *testing.T) {
	out, progress, err := measured(t, t.Context(), "", directtest.Path)
	testutil.OK(t, err)
	for _, want := range []string{"path to 127.0.0.1 (127.0.0.1:9)", "\n1 flow ", "\n4 flows ", "\n16 flows ", "\n4 flows, reverse ", "\nRTT under load ", "\nUDP ",
		"transfer time ratio", "3.60", "filled by 4 flows: 16 bring 0.0 %", "note: 4 flows: the senders' counters"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if progress != "" {
		t.Errorf("progress where there is no terminal: %q", progress)
	}
}

func TestProfileInJSON(t *testing.T) {
	out, _, err := measured(t, t.Context(), "--json -b 1G", directtest.Path)
	testutil.OK(t, err)
	var r result.Result
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() {
		t.Fatalf("%v in\n%s", err, out)
	}
	if !r.Complete || len(r.Trials) != len(r.Tests) || r.Planned != len(r.Trials) || len(r.Cells) == 0 {
		t.Errorf("complete %v, %d trials, %d tests, %d planned, %d cells", r.Complete, len(r.Trials), len(r.Tests), r.Planned, len(r.Cells))
	}
	if r.Testbed.Kind != "hosts" || len(r.Attributions) == 0 || r.Trials[0].Fingerprint == nil {
		t.Errorf("testbed %+v, %d attributions, fingerprint %v", r.Testbed, len(r.Attributions), r.Trials[0].Fingerprint)
	}
	if len(r.RFC6349) != 4 { // 1, 4 and 16 flows, and 4 back
		t.Fatalf("%d ratings", len(r.RFC6349))
	}
	for _, q := range r.RFC6349 {
		if q.IdealSource != result.IdealGiven || q.TransferTimeRatio == nil || q.TCPEfficiency == nil {
			t.Errorf("%+v", q)
		}
	}
}

func TestProfileInMarkdown(t *testing.T) {
	out, _, err := measured(t, t.Context(), "--markdown", directtest.Path)
	if err != nil || !strings.Contains(out, "| 4 flows, reverse |") || !strings.Contains(out, "|---|---:|---:|---:|") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A step that fails is a line; the others go on, and the exit status tells.
func TestProfileGoesOnAfterAFailure(t *testing.T) {
	run := func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		if r.Spec.Kind == measurement.MTU || r.Spec.Protocol == measurement.OverUDP && r.Spec.Kind == measurement.RR {
			return measurement.Outcome{}, &probe.Error{Op: "test", Reason: probe.TimedOut, Err: errors.New("UDP seems to be filtered")}
		}
		return directtest.Path(ctx, r, progress)
	}
	out, _, err := measured(t, t.Context(), "", run)
	if err == nil || !strings.Contains(err.Error(), "2 of 10 tests gave no result that counts") || base.Status(err, new(bytes.Buffer)) != base.ExitFailed {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"no result: test: timeout: UDP seems to be filtered", "\nidle RTT, TCP ", "\nRTT under load "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestNoServerEndsWhatNeedsOne(t *testing.T) {
	mute := fmt.Errorf("%w (%w)", protocol.ErrNoServer, os.ErrDeadlineExceeded)
	for name, c := range map[string]struct {
		err  error
		says string // "" does not end it
	}{
		"a silent program": {&probe.Error{Op: "connect", Reason: probe.TimedOut, Err: mute}, "what answers at that port is not a hopbench serve"},
		"nothing listens":  {errRefused, "run hopbench serve"},
		"nothing answers":  {errSilent, "any firewall between"},
		"another token":    {&probe.Error{Op: "connect", Reason: probe.Unauthorized, Err: errors.New("the tokens differ")}, "give --token-file"},
		"another program":  {errMalformed, "add --iperf3"},
		"UDP is refused":   {&probe.Error{Op: "udp", Reason: probe.Refused, Err: &net.OpError{Op: "read", Net: "udp", Err: syscall.ECONNREFUSED}}, ""},
		"one kind refused": {&probe.Error{Op: "x", Reason: probe.Unsupported, Err: errors.New("it has none")}, ""},
	} {
		ran := 0
		out, _, err := measured(t, t.Context(), "", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			ran++
			if r.Spec.Kind == measurement.Trace || r.Spec.Kind == measurement.Ping {
				return directtest.Path(ctx, r, progress)
			}
			return measurement.Outcome{}, fmt.Errorf("wrapped: %w", c.err)
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		hint := strings.Contains(out, "No server could be used at 127.0.0.1, port 9")
		said := strings.Contains(strings.Join(strings.Fields(out), " "), c.says)
		if ends := c.says != ""; hint != ends || (ran == 3) != ends || !said {
			t.Errorf("%s: %d tests, hint %v, %q %v:\n%s", name, ran, hint, c.says, said, out)
		}
	}
}

// Whoever asks a stock server is not told to.
func TestNoStockServer(t *testing.T) {
	mute := fmt.Errorf("%w (%w)", iperf3.ErrNoServer, os.ErrDeadlineExceeded)
	for _, c := range []struct {
		err  *probe.Error
		says string
	}{
		{errRefused, "run iperf3 -s"},
		{&probe.Error{Op: "connect", Reason: probe.TimedOut, Err: mute}, "what answers at that port is not an iperf3"},
		{&probe.Error{Op: "connect", Reason: probe.Unauthorized, Err: errors.New("no")}, "--iperf3-open"},
	} {
		out, _, err := measured(t, t.Context(), "--iperf3 -P 1", failing(c.err))
		// Its row has the reason, which no note repeats.
		if err == nil || !strings.Contains(out, c.says) || strings.Contains(out, "add --iperf3") || strings.Count(out, c.err.Error()[:15]) != 1 {
			t.Errorf("%v: %v\n%s", c.err, err, out)
		}
	}
}

// Where nothing answers at the address of a name, one of the other version of IP is told: a server
// on loopback is at 127.0.0.1, and localhost is ::1 first.
func TestNameWithAddressesOfBothVersions(t *testing.T) {
	v6, v4 := netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		line  string
		err   error
		first netip.Addr
		says  string
	}{
		{"--only rr", errRefused, v6, "The tests went to ::1; a.name has the address 127.0.0.1, too, which -4 uses."},
		{"--only rr", errRefused, v4, "The tests went to 127.0.0.1; a.name has the address ::1, too, which -6 uses."},
		{"--only rr -6", errRefused, v6, ""},
		{"--only rr", errMalformed, v6, ""},
	} {
		f, err := parse(t, c.line)
		testutil.OK(t, err)
		f.lookUp = func(_ context.Context, network, _ string) ([]netip.Addr, error) {
			return map[string][]netip.Addr{"ip": {c.first}, "ip4": {v4}, "ip6": {v6}}[network], nil
		}
		f.stream = event.NewStream()
		out, _, err := measuredTo(t, t.Context(), f, Target{"a.name", 9}, failing(c.err))
		f.stream.Close()
		said := strings.Join(strings.Fields(out), " ")
		if err == nil || !strings.Contains(said, "No server could be used at a.name") || !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "The tests went to") {
			t.Errorf("%s, %v: %v\n%s", c.line, c.first, err, out)
		}
	}
}

// A server that serves anyone refuses a proof, as one with another token does.
func TestTokenThatTheServerDoesNotHave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	testutil.OK(t, os.WriteFile(file, []byte("secret"), 0o600))
	differ := &probe.Error{Op: "connect", Reason: probe.Unauthorized, Err: errors.New("the two ends do not share the same token")}
	out, _, err := measured(t, t.Context(), "--only rr --token-file "+file, failing(differ))
	if said := strings.Join(strings.Fields(out), " "); err == nil || !strings.Contains(said, "or it has none") || !strings.Contains(said, base.TokenFileEnv) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A test that could not connect where another did is repeated with it, and no server is said
// to be missing.
func TestOneTestThatCouldNotConnect(t *testing.T) {
	failed := false
	out, _, err := measured(t, t.Context(), "--only tcp,rr --blocks 6", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		if !failed {
			failed = true
			return measurement.Outcome{}, errSilent
		}
		return directtest.Path(ctx, r, progress)
	})
	if err == nil || !strings.Contains(err.Error(), "1 of 12 tests gave no result that counts") || strings.Contains(out, "No server could be used") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What to do is of the server that the test needs, whatever others of the command line need.
func TestNoServerOfTheTest(t *testing.T) {
	for _, c := range []struct {
		line      string
		err       *probe.Error
		says, not string
	}{
		{"--ftp-server h --ftp-path f", &probe.Error{Op: "log in", Reason: probe.Unauthorized, Err: errors.New("530")}, "--ftp-user", "token"},
		{"--ftp-server h --ftp-path f", errRefused, "start the FTP server", "hopbench serve"},
		{"--only rr,tcp --iperf3", errMalformed, "is not a hopbench serve of this version, which rr needs", "not an iperf3"},
	} {
		out, _, err := measured(t, t.Context(), c.line, func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind == measurement.TCP {
				return directtest.Path(ctx, r, progress)
			}
			return measurement.Outcome{}, c.err
		})
		if said := strings.Join(strings.Fields(out[max(strings.Index(out, "note:"), 0):]), " "); err == nil || !strings.Contains(said, c.says) || strings.Contains(said, c.not) {
			t.Errorf("%s, %v: %v\n%s", c.line, c.err, err, out)
		}
	}
}

// Interrupted, it shows what it has.
func TestInterruptedProfileShowsWhatItHas(t *testing.T) {
	for _, flags := range []string{"", "--json"} {
		ctx, cancel := context.WithCancel(t.Context())
		out, _, err := measured(t, ctx, flags, func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind == measurement.TCP {
				cancel()
				return measurement.Outcome{}, ctx.Err()
			}
			return directtest.Path(ctx, r, progress)
		})
		if err == nil || !strings.Contains(err.Error(), "stopped after 3 tests") {
			t.Errorf("%v", err)
		}
		if !strings.Contains(out, "idle RTT") || strings.Contains(out, "1 flow") || flags != "" && !strings.Contains(out, `"complete": false`) {
			t.Errorf("%s:\n%s", flags, out)
		}
	}
}

// What moved until a test failed is shown beside its failure.
func TestAFailedTestShowsWhatMoved(t *testing.T) {
	out, _, err := measured(t, t.Context(), "--only tcp -P 1", func(_ context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
		r.Watch(time.Now().Add(-time.Second), []session.ReadFlow{func() (session.FlowCount, bool) { return session.FlowCount{Bytes: 1e9}, true }})()
		return measurement.Outcome{}, errors.New("flow 1 of 1: vanished: EOF")
	})
	if err == nil || !strings.Contains(out, "no result: ") || !strings.Contains(out, "1 flow, until then ") || !strings.Contains(out, " acknowledged in 1.") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// What is shown of a test while it goes on, and of one that is stopped, has the test's name and
// block also when the tests are repeated.
func TestRepeatedTestsAreNamedWhileTheyGoOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tests := 0
	out, _, err := measured(t, ctx, "--only tcp -P 1 -i 0.1 --blocks 3", func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
		ended := r.Watch(time.Now().Add(-time.Second), []session.ReadFlow{func() (session.FlowCount, bool) { return session.FlowCount{Bytes: 1e9}, true }})
		defer ended()
		if tests++; tests == 2 {
			cancel()
			return measurement.Outcome{}, ctx.Err()
		}
		return directtest.Path(ctx, r, progress)
	})
	for _, want := range []string{"\n1 flow (1/3)      live: ", "\n1 flow (2/3)      live: ", "\n1 flow (2/3), stopped "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "stopped after 1 test") {
		t.Errorf("%v", err)
	}
}

func TestSingleTestsAreNotRated(t *testing.T) {
	out, _, err := measured(t, t.Context(), "--only tcp,rr -P 2 -R", directtest.Path)
	if err != nil || strings.Contains(out, "RFC 6349") || !strings.Contains(out, "\n2 flows, reverse ") || !strings.Contains(out, "\nlatency ") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A test that is repeated and kept is a run, with a report.
func TestKeptTests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	out, progress, err := measured(t, t.Context(), "--only tcp,rr --blocks 6 -o "+dir, directtest.Path)
	if err != nil || !strings.Contains(out, "1 flow (6/6)") || !strings.Contains(out, "95 % interval") || !strings.Contains(progress, "report.html") {
		t.Errorf("%v:\n%s\n%s", err, out, progress)
	}
	r, err := runs.Load(t.Context(), dir)
	if err != nil || !r.Complete || len(r.Trials) != 12 || len(r.Tests) != 2 || len(r.Attributions) != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
}

// Who hears that a run is over finds its report.
func TestReportIsWrittenWhenTheRunHasEnded(t *testing.T) {
	for _, line := range []string{"--only rr", "--only rr --versus 127.0.0.3"} {
		dir, stream := filepath.Join(t.TempDir(), "kept"), event.NewStream()
		reader, found := stream.Follow(), make(chan error, 1)
		go func() {
			for {
				events, err := reader.Next(t.Context())
				if err != nil {
					found <- err
					return
				}
				if i := slices.IndexFunc(events, func(e event.Event) bool { return e.Code == event.RunEnded }); i >= 0 {
					_, err := os.Stat(filepath.Join(dir, runs.ResultFile))
					found <- err
					return
				}
			}
		}()
		run := measuredOn
		if strings.Contains(line, "--versus") {
			run = versusMeasuredOn
		}
		_, _, err := run(t, t.Context(), stream, line+" -o "+dir, directtest.Path)
		testutil.OK(t, err)
		stream.Close()
		if err := <-found; err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Tests that are repeated have their medians below the summary in Markdown, too.
func TestRepeatedTestsInMarkdown(t *testing.T) {
	out, _, err := measured(t, t.Context(), "--only tcp,rr --blocks 6 --markdown", directtest.Path)
	if err != nil || !strings.Contains(out, "| 1 flow (6/6) |") || !strings.Contains(out, "95 % interval") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A kept profile is rated whenever it is read, one that was stopped is not whole.
func TestKeptProfile(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "kept")
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := measured(t, ctx, "-b 1G --out "+dir, func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if stopped && r.Spec.Kind == measurement.Load {
				cancel()
				return measurement.Outcome{}, ctx.Err()
			}
			return directtest.Path(ctx, r, progress)
		})
		cancel()
		r, loadErr := runs.Load(t.Context(), dir)
		if loadErr != nil || (err != nil) != stopped {
			t.Fatalf("stopped %v: %v, %v", stopped, err, loadErr)
		}
		if r.Complete == stopped || len(r.RFC6349) != 4 || r.RFC6349[0].IdealSource != result.IdealGiven {
			t.Errorf("stopped %v: complete %v, %d trials of %d, ratings %+v", stopped, r.Complete, len(r.Trials), r.Planned, r.RFC6349)
		}
	}
}

// Stopped in its first test, a run with a folder says so like one without, and leaves no folder.
func TestStoppedBeforeAnythingIsKept(t *testing.T) {
	for _, line := range []string{"--only rr", "--only rr --versus 127.0.0.3"} {
		dir := filepath.Join(t.TempDir(), "kept")
		ctx, cancel := context.WithCancel(t.Context())
		stop := func(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind == measurement.Trace { // of the path, before a test
				return directtest.Path(ctx, r, progress)
			}
			cancel()
			return measurement.Outcome{}, ctx.Err()
		}
		run := measured
		if strings.Contains(line, "--versus") {
			run = versusMeasured
		}
		_, progress, err := run(t, ctx, line+" -o "+dir, stop)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "stopped after 0 ") || strings.Contains(progress, "report.html") {
			t.Errorf("%s: %v\n%s", line, err, progress)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its folder: %v", line, err)
		}
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	testutil.OK(t, os.WriteFile(file, []byte("secret\r\n"), 0o600))
	empty := filepath.Join(dir, "empty")
	testutil.OK(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv(base.TokenFileEnv, file)
	f, err := parse(t, "")
	if err != nil || f.TokenFile != file {
		t.Errorf("%v, token file %q", err, f.TokenFile)
	}
	if token, err := base.ReadToken(f.TokenFile); token != "secret" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if _, err := base.ReadToken(empty); err == nil || base.Status(err, new(bytes.Buffer)) != base.ExitUsage {
		t.Errorf("an empty token: %v", err)
	}
	huge := filepath.Join(dir, "huge")
	testutil.OK(t, os.WriteFile(huge, nil, 0o600))
	testutil.OK(t, os.Truncate(huge, 1<<40)) // of which nothing is on the disk
	for name, read := range map[string]func(string) (string, error){"token": base.ReadToken, "password": readPassword} {
		if _, err := read(huge); err == nil || base.Status(err, new(bytes.Buffer)) != base.ExitUsage {
			t.Errorf("a %s of a terabyte: %v", name, err)
		}
	}
	if _, err := base.ReadToken(filepath.Join(dir, "none")); err == nil {
		t.Error("a token from nowhere")
	}
}
