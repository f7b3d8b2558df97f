// Package wine_test runs the Windows binary, under Wine, against this system: as a client
// and as a server, its agent as the source and as the destination of an experiment, and the
// tests of packages that have code of their own for Windows. So the system calls, the
// transfers and the facts of a Windows host are tested without a Windows.
//
// Wine 8 lacks two things that a Go program wants. bcryptprimitives.dll, without
// which none starts, is linked here with binutils' ld; SIO_UDP_NETRESET, without which package net
// opens no UDP socket, is not, so servers serve TCP alone and no test is over
// UDP. It has IcmpSendEcho2Ex, but not Icmp6SendEcho2.
package wine_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	testutil.Enter()
	var err error
	if shared, err = os.MkdirTemp("", "hopbench-wine"); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := os.RemoveAll(shared); err != nil {
		panic(err)
	}
	os.Exit(status)
}

// shared is the folder of what is made once for all tests.
var shared string

func TestWindowsClient(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 2)
	w := newWine(t, c.Source())
	exe := build(t, "windows")
	if out := w.run(t, exe, "version"); !bytes.Contains(out, []byte("windows/amd64")) {
		t.Fatalf("version says\n%s", out)
	}
	target := c.Target(false).String()
	port := serve(t, c.Destination(), target, build(t, "linux"))
	for _, test := range []struct {
		name   string
		trials int
		args   []string
	}{
		{"sends", 2, []string{"--only", "rr,tcp", "--flows", "2"}},
		{"receives", 1, []string{"--only", "tcp", "--flows", "2", "--reverse"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--port", port, "--duration", "200ms"}, test.args...)
			trials := w.test(t, exe, target, args...)
			if len(trials) != test.trials {
				t.Fatalf("%d trials, want %d", len(trials), test.trials)
			}
			for _, trial := range trials {
				checkTrial(t, trial)
			}
		})
	}
	t.Run("ping", func(t *testing.T) {
		trial := w.test(t, exe, target, "--only", "ping", "--count", "20", "--interval", "20ms")[0]
		// Two routers took one each of what Linux starts with.
		if got := trial.Source.ReceivedTTL; got != 62 {
			t.Errorf("answers arrived with a time to live of %d", got)
		}
		if trial.Effective["ping_received"] != "20" || trial.Metrics["loss_fraction"] != 0 || trial.Metrics["rtt_min_seconds"] <= 0 {
			t.Errorf("%v, %v", trial.Effective, trial.Metrics)
		}
	})
	for _, protocol := range []string{"icmp", "tcp"} {
		t.Run("trace "+protocol, func(t *testing.T) {
			trial := w.test(t, exe, target, "--only", "trace", "--protocol", protocol, "--port", port)[0]
			var hops []string
			for i, hop := range trial.Hops {
				hops = append(hops, hop.Address)
				if hop.Reached != (i == 2) || hop.RTT <= 0 {
					t.Errorf("hop %d is %+v", i+1, hop)
				}
			}
			if want := []string{c.Hop(1, false).String(), c.Hop(2, false).String(), target}; !slices.Equal(hops, want) {
				t.Errorf("the hops are %v, want %v (%q)", hops, want, trial.Facts)
			}
			// That the probes are not what was asked for is said.
			said := slices.ContainsFunc(trial.Facts, func(f string) bool { return strings.Contains(f, "ICMP echo requests only") })
			if trial.Effective["trace_protocol"] != "icmp" || said != (protocol == "tcp") {
				t.Errorf("%v, %q", trial.Effective, trial.Facts)
			}
		})
	}
}

// A Windows host keeps what it measured, and reads it again: also what Linux has kept.
func TestWindowsReads(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 1)
	w := newWine(t, c.Source())
	windows, linux, dir, target := build(t, "windows"), build(t, "linux"), t.TempDir(), c.Target(false).String()
	port := serve(t, c.Destination(), target, linux)
	ofWindows, ofLinux := filepath.Join(dir, "of windows"), filepath.Join(dir, "of linux")
	measure := []string{"test", target, "--port", port, "--only", "rr", "--protocol", "tcp", "--duration", "200ms", "--blocks", "3", "--quiet", "--out"}
	w.run(t, slices.Concat([]string{windows}, measure, []string{onWindows(ofWindows)})...)
	if said, err := c.Source().Output(t, linux, append(measure, ofLinux)...); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, folder := range []string{ofWindows, ofLinux} {
		for _, name := range []string{"report.html", "result.json", "trials.csv"} {
			testutil.OK(t, os.Remove(filepath.Join(folder, name)))
		}
		if said := w.run(t, windows, "report", onWindows(folder)); !bytes.Contains(said, []byte("RTT p50")) {
			t.Errorf("report:\n%s", said)
		}
		w.run(t, windows, "export", onWindows(folder))
		var r result.Result
		b, err := os.ReadFile(filepath.Join(folder, "result.json"))
		testutil.OK(t, err)
		testutil.OK(t, json.Unmarshal(b, &r))
		if len(r.Trials) != 3 {
			t.Errorf("%d trials", len(r.Trials))
		}
		for _, name := range []string{"report.html", "trials.csv", "run.xlsx"} {
			if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if said := w.run(t, windows, "compare", onWindows(ofWindows), onWindows(ofLinux)); !bytes.Contains(said, []byte("B compared with A")) {
		t.Errorf("compare:\n%s", said)
	}
	if said := w.run(t, windows, "results", onWindows(dir)); bytes.Count(said, []byte("of windows")) != 1 || bytes.Count(said, []byte("of linux")) != 1 {
		t.Errorf("results:\n%s", said)
	}
}

// onWindows is a file of this system as Windows names it.
func onWindows(file string) string { return `Z:` + strings.ReplaceAll(file, "/", `\`) }

// A Windows host is the far end of tests. Where it has no UDP, as under Wine, it serves those
// over TCP, and says why the others are refused.
func TestWindowsServer(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 2)
	w := newWine(t, c.Source())
	linux, address := build(t, "linux"), c.Hop(1, false).Prev().String()
	port := w.start(t, build(t, "windows"), "serve", "--open", "--bind", address, "--port", "0")
	test := func(args ...string) (string, error) {
		return c.Destination().Output(t, linux, append([]string{"test", address, "--port", port, "--json", "--quiet"}, args...)...)
	}
	for _, args := range [][]string{
		{"--only", "rr,crr,tcp", "--flows", "2", "--duration", "200ms"},
		{"--only", "tcp", "--flows", "2", "--reverse", "--duration", "200ms"},
		{"--only", "load", "--protocol", "tcp", "--duration", "200ms"},
		{"--only", "ftp", "--file", "1MB"},
	} {
		said, err := test(args...)
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, said)
			continue
		}
		var r result.Result
		testutil.OK(t, json.Unmarshal([]byte(said), &r))
		for _, trial := range r.Trials {
			if !trial.Gate.Passed || trial.Destination.HostID == trial.Source.HostID {
				t.Errorf("%s: %+v, the ends are %+v and %+v", trial.Test, trial.Gate.Findings, trial.Source, trial.Destination)
			}
		}
	}
	if said, err := test("--only", "pps"); err == nil || !strings.Contains(said, "has no UDP") {
		t.Errorf("a test over UDP: %v\n%s", err, said)
	}
}

// The service manager starts an agent that was installed, which a coordinator joins, and
// ends it. Nothing is left then.
func TestWindowsService(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 1)
	w := newWine(t, c.Source())
	windows, dir, host := build(t, "windows"), t.TempDir(), c.Hop(1, false).Prev().String()
	// Wine ends its services when no other program runs.
	w.start(t, windows, "serve", "--open", "--bind", host, "--port", "0")
	token, inventory := filepath.Join(dir, "token"), filepath.Join(dir, "testbed.yaml")
	testutil.OK(t, os.WriteFile(token, []byte("a token of this test"), 0o600))
	testutil.WriteFile(t, inventory, fmt.Appendf(nil, `format: hopbench.testbed/1
name: wine
kind: hosts
token_file: %s
endpoints:
  windows: {reach: "tls://%s"}
  linux: {reach: local}
paths:
  a: {to: "%s:5201"}
  b: {to: "%[3]s:5202"}
`, token, host, c.Target(false)))
	experiment := filepath.Join(dir, "experiment.yaml")
	testutil.WriteFile(t, experiment, []byte(oneTest))
	install := []string{windows, "agent", "install", "--token-file", `Z:` + strings.ReplaceAll(token, "/", `\`), "--listen", host}
	// For a moment after its start Wine's service manager is busy with its own services.
	w.until(t, "the agent is installed", func() error { _, err := w.try(t, install...); return err })
	linux := build(t, "linux")
	w.until(t, "a coordinator joins the agent", func() error {
		said, err := c.Destination().Output(t, linux, "testbed", "check", inventory, "--experiment", experiment)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, said)
		}
		return err
	})
	out := filepath.Join(dir, "out")
	if said, err := c.Destination().Output(t, linux, "run", experiment, "--testbed", inventory, "--out", out); err != nil {
		t.Errorf("run: %v\n%s", err, said)
	}
	w.run(t, windows, "agent", "uninstall")
	if said, err := w.try(t, windows, "agent", "uninstall"); err == nil {
		t.Errorf("it is uninstalled a second time: %s", said)
	}
	c.Source().Do(t, func() {
		if conn, err := net.Dial("tcp", host+":5202"); err == nil {
			t.Errorf("something listens still: %v", conn.Close())
		}
	})
}

const oneTest = `format: hopbench.experiment/1
name: service
title: An agent that is a service
endpoints: [{name: windows}, {name: linux}]
source: windows
destination: linux
baseline: a
blocks: 1
paths:
  - {name: a, hops: [{type: link}]}
  - {name: b, hops: [{type: link}]}
tests:
  - {name: latency, kind: rr, duration: 300ms}
`

// What only Windows runs of some packages is tested there.
func TestWindowsPackages(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 1)
	w := newWine(t, c.Source())
	for _, name := range []string{"filelock", "probe/icmp/iphelper"} {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "package.test.exe")
			goTool(t, "windows", "test", "-c", "-o", binary, "../../internal/"+name)
			if said := w.run(t, binary, "-test.v"); !bytes.HasSuffix(bytes.TrimSpace(said), []byte("PASS")) {
				t.Errorf("%s", said)
			}
		})
	}
}

// A Windows host is the source of an experiment on real hosts, and the destination of
// another: an agent that a coordinator at the other end reaches over TLS.
func TestWindowsAgent(t *testing.T) {
	testutil.Need(t, runtime.GOOS == "linux" && runtime.GOARCH == "amd64", "Linux on amd64, to run Wine")
	c := chaintest.New(t, 2)
	w := newWine(t, c.Source())
	dir := t.TempDir()
	token, windows, linux := filepath.Join(dir, "token"), build(t, "windows"), build(t, "linux")
	testutil.OK(t, os.WriteFile(token, []byte("a token of this test"), 0o600))
	port := w.start(t, windows, "agent", "--listen", ":0", "--token-file", onWindows(token))
	here, there := c.Hop(1, false).Prev(), c.Target(false)
	hops := []string{c.Hop(1, false).String(), c.Hop(2, false).String(), there.String()}
	for _, test := range []struct {
		source, destination string
		to                  netip.Addr
		hops                []string
	}{
		{"windows", "linux", there, hops},
		// The other sides of the same two routers.
		{"linux", "windows", here, []string{there.Prev().String(), c.Hop(2, false).Prev().String(), here.String()}},
	} {
		t.Run("from "+test.source, func(t *testing.T) {
			dir := t.TempDir()
			experiment, inventory, out := filepath.Join(dir, "experiment.yaml"), filepath.Join(dir, "testbed.yaml"), filepath.Join(dir, "out")
			testutil.WriteFile(t, experiment, fmt.Appendf(nil, twoSystems, test.source, test.destination))
			testutil.WriteFile(t, inventory, fmt.Appendf(nil, `format: hopbench.testbed/1
name: wine
kind: hosts
token_file: %s
endpoints:
  windows: {reach: "tls://%s:%s"}
  linux: {reach: local}
paths:
  a: {to: "%s:5201"}
  b: {to: "%[4]s:5202"}
`, token, here, port, test.to))
			for _, args := range [][]string{
				{"testbed", "check", inventory, "--experiment", experiment},
				{"run", experiment, "--testbed", inventory, "--out", out},
			} {
				if said, err := c.Destination().Output(t, linux, args...); err != nil {
					t.Fatalf("%s: %v\n%s", args[0], err, said)
				}
			}
			checkRun(t, filepath.Join(out, "result.json"), test.hops)
		})
	}
}

// checkRun checks the trials of an experiment whose paths have these hops.
func checkRun(t *testing.T, file string, want []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	testutil.OK(t, err)
	var r result.Result
	testutil.OK(t, json.Unmarshal(b, &r))
	if len(r.Trials) != 12 {
		t.Fatalf("%d trials, want 2 blocks of 3 tests on 2 paths", len(r.Trials))
	}
	for _, trial := range r.Trials {
		var hops []string
		for _, hop := range trial.Fingerprint.Hops {
			hops = append(hops, hop.Address)
		}
		if !trial.Fingerprint.Matches || !slices.Equal(hops, want) {
			t.Errorf("%s: %+v", trial.ID, trial.Fingerprint)
		}
		if trial.Gate.Broken {
			t.Errorf("%s: the path is to blame: %+v", trial.ID, trial.Gate.Findings)
		}
	}
}

const twoSystems = `format: hopbench.experiment/1
name: two-systems
title: Windows and Linux
description: One path twice.
endpoints: [{name: windows}, {name: linux}]
source: %s
destination: %s
baseline: a
blocks: 2
paths:
  - {name: a, title: one, hops: [{type: link, name: l, delay: 1ms}]}
  - {name: b, title: the same, hops: [{type: link, name: l, delay: 1ms}]}
tests:
  - {name: latency, title: latency, kind: rr, protocol: tcp, duration: 300ms}
  - {name: ping, title: ping, kind: ping, count: 20, interval: 10ms}
  - {name: flows, title: flows, kind: tcp, flows: 2, duration: 500ms, max_warmup: 200ms}
`

// test runs tests on Windows and returns their trials.
func (w *wine) test(t *testing.T, exe, target string, args ...string) []measurement.Trial {
	t.Helper()
	var r result.Result
	d := json.NewDecoder(bytes.NewReader(w.run(t, append([]string{exe, "test", target, "--json", "--quiet"}, args...)...)))
	d.DisallowUnknownFields()
	testutil.OK(t, d.Decode(&r))
	return r.Trials
}

func checkTrial(t *testing.T, trial measurement.Trial) {
	t.Helper()
	if !trial.Gate.Passed {
		t.Errorf("%s does not count: %+v", trial.Test, trial.Gate.Findings)
	}
	if windows, linux := trial.Source, trial.Destination; windows.CPUs != linux.CPUs || windows.HostID == "" || windows.HostID == linux.HostID {
		t.Errorf("%s: the ends are %+v and %+v", trial.Test, windows, linux)
	}
	for _, flow := range trial.Flows {
		if flow.ReceivedBytes <= 0 {
			t.Errorf("%s: nothing was received on %+v", trial.Test, flow)
		}
		// What Wine's sockets do not tell is said, and not shown as zero.
		unknown := slices.ContainsFunc(trial.Facts, func(f string) bool { return strings.Contains(f, "does not tell retransmits") })
		if (flow.Final == nil) != unknown {
			t.Errorf("%s: TCP_INFO is %v and the facts are %q", trial.Test, flow.Final, trial.Facts)
		}
		_, claimed := trial.Metrics["retransmitted_segments"]
		if unknown && claimed {
			t.Errorf("%s: retransmits are claimed although they are unknown", trial.Test)
		}
	}
}

// wine is an installation of Wine with a prefix, its Windows, of its own, on a
// node of a network.
type wine struct {
	node    *chaintest.Node
	program string
	env     []string
}

func newWine(t *testing.T, node *chaintest.Node) *wine {
	t.Helper()
	// Debian's wine64 is not on PATH: the package wine puts a script there.
	program, err := exec.LookPath("wine64")
	if err != nil {
		program, err = exec.LookPath("/usr/lib/wine/wine64")
	}
	testutil.Need(t, err == nil, "wine64 (Debian's package of that name)")
	prefix := filepath.Join(t.TempDir(), "prefix")
	w := &wine{node, program, wineEnv(prefix)}
	t.Cleanup(func() { w.end(t) })
	made, err := boot(program)
	if err == nil {
		err = command(nil, "cp", "-a", made, prefix)
	}
	testutil.OK(t, err)
	return w
}

func wineEnv(prefix string) []string {
	return append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=", "DISPLAY=")
}

// boot makes a prefix that tests take copies of, since that takes ten times as long.
func boot(program string) (prefix string, err error) {
	prefix = filepath.Join(shared, "prefix")
	if _, err := os.Stat(prefix); err == nil {
		return prefix, nil
	}
	env := wineEnv(prefix)
	if err := command(env, program, "wineboot.exe", "--init"); err != nil {
		return "", err
	}
	library := filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); errors.Is(err, fs.ErrNotExist) {
		// ProcessPrng and RtlGenRandom, whose real name this is, take and return
		// the same.
		if err := command(nil, "ld", "-m", "i386pep", "--shared", "-e", "0", "-o", library, "testdata/bcryptprimitives.def"); err != nil {
			return "", err
		}
	}
	server := filepath.Join(filepath.Dir(program), "wineserver")
	_ = command(env, server, "-k") // its status says that there was none left to stop
	_ = command(env, server, "-w")
	return prefix, nil
}

// command runs a program of this system, with an environment other than this process's if
// one is given. What it says goes to a file, since Wine's services inherit the descriptors
// and outlive it: a pipe would stay open.
func command(env []string, name string, args ...string) error {
	said, err := os.CreateTemp(shared, "said")
	if err != nil {
		return err
	}
	defer said.Close()
	c := exec.Command(name, args...)
	c.Env, c.Stdout, c.Stderr = env, said, said
	if err := c.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return nil
}

// end stops the processes of the prefix, and them alone, and waits for them.
func (w *wine) end(t *testing.T) {
	for _, option := range []string{"-k", "-w"} {
		c := exec.Command(filepath.Join(filepath.Dir(w.program), "wineserver"), option)
		c.Env = w.env
		var exit *exec.ExitError
		// Its status says that there was no server left to stop.
		if out, err := c.CombinedOutput(); err != nil && !errors.As(err, &exit) {
			t.Errorf("wineserver %s: %v\n%s", option, err, out)
		}
	}
}

// until tries something again and again until it works.
func (w *wine) until(t *testing.T, what string, works func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := works()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after a minute: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond) // between two tries
	}
}

func (w *wine) run(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := w.try(t, args...)
	if err != nil {
		t.Fatalf("wine64 %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// try is run of a program that may fail; then the error has all that it said.
func (w *wine) try(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, w.program, args...)
	c.Env = w.env
	// Files, since Wine's services inherit the descriptors and outlive the
	// command: a pipe would stay open.
	dir := t.TempDir()
	var outputs [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		f, err := os.Create(filepath.Join(dir, name))
		testutil.OK(t, err)
		defer f.Close()
		outputs[i] = f
	}
	c.Stdout, c.Stderr = outputs[0], outputs[1]
	var failed error
	w.node.Do(t, func() { failed = c.Start() })
	if failed == nil {
		failed = c.Wait()
	}
	out, err := os.ReadFile(outputs[0].Name())
	testutil.OK(t, err)
	if failed != nil {
		complaints, err := os.ReadFile(outputs[1].Name())
		return nil, fmt.Errorf("%w\n%s%s%v", failed, out, complaints, err)
	}
	return out, nil
}

// start starts a program that listens, and returns its port.
func (w *wine) start(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command(w.program, args...)
	c.Env = w.env
	return startServer(t, w.node, c, os.Kill)
}

// build builds hopbench for a system, once.
func build(t *testing.T, system string) string {
	t.Helper()
	binary := filepath.Join(shared, "hopbench-"+system+".exe")
	if _, err := os.Stat(binary); err != nil {
		goTool(t, system, "build", "-o", binary, "../../cmd/hopbench")
	}
	return binary
}

// goTool runs the go command for a system.
func goTool(t *testing.T, system string, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS="+system)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// serve starts a server on a node and returns its port.
func serve(t *testing.T, node *chaintest.Node, address, binary string) string {
	t.Helper()
	return startServer(t, node, exec.Command(binary, "serve", "--open", "--bind", address, "--port", "0"), os.Interrupt)
}

// startServer starts a server on a node, which the signal ends with the test, and returns
// its port.
func startServer(t *testing.T, node *chaintest.Node, c *exec.Cmd, signal os.Signal) string {
	t.Helper()
	out, err := c.StderrPipe()
	testutil.OK(t, err)
	node.Do(t, func() { err = c.Start() })
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := c.Process.Signal(signal); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil && signal != os.Kill {
			t.Errorf("the server ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	found := regexp.MustCompile(`:(\d+)`).FindStringSubmatch(line)
	if err != nil || found == nil {
		t.Fatalf("the server says %q, %v", line, err)
	}
	return found[1]
}
