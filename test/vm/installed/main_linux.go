// Command installed has systemd run an agent that `hopbench agent install` installed, and
// the server whose unit packages have, as root, on a machine that is there for nothing
// else: test/vm's. The agent is joined by a run, killed, joined again, stopped, started and
// uninstalled, and then nothing of it may be left. The server does not start without a
// token, starts with one, serves who has it, is killed, comes back and stops.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/service"
)

const (
	program = "/usr/bin/hopbench"
	// The agent's host has this address towards another one, a network namespace from which
	// the agent is joined.
	host    = "10.99.0.1"
	other   = "10.99.0.2"
	node    = "far"
	address = host + ":5202"
	// patience is how long systemd and the agent may take for one thing on a machine that
	// is emulated.
	patience = time.Minute
)

// unit is a service of systemd, and where it listens.
type unit struct{ name, address string }

var (
	agent  = unit{service.Name, address}
	server = unit{service.ServerUnitName, net.JoinHostPort(host, strconv.Itoa(measurement.DefaultPort))}
)

// step is something to do or to see.
type step struct {
	what string
	do   func() error
}

func steps(all []step) error {
	for _, s := range all {
		began := time.Now()
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		fmt.Printf("%s: %.1f s\n", s.what, time.Since(began).Seconds())
	}
	return nil
}

func main() {
	err := test(context.Background())
	if err != nil {
		fmt.Println("installed:", err)
		said, _ := exec.Command("journalctl", "--no-pager", "-o", "cat", "-u", agent.name, "-u", server.name).CombinedOutput()
		fmt.Printf("%s", said)
		os.Exit(1)
	}
}

func test(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "installed")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := writeFiles(dir)
	if err != nil {
		return err
	}
	before, err := etc()
	if err != nil {
		return err
	}
	for _, command := range []string{
		"netns add " + node, "link add near type veth peer name " + node + " netns " + node,
		"address add " + host + "/24 dev near", "link set near up",
		"-n " + node + " address add " + other + "/24 dev " + node, "-n " + node + " link set " + node + " up", "-n " + node + " link set lo up",
	} {
		if err := do(ctx, "ip", strings.Fields(command)...); err != nil {
			return err
		}
	}
	var first, second int
	err = steps([]step{
		{"install the agent", func() error {
			return do(ctx, program, "agent", "install", "--listen", address, "--token-file", f.token)
		}},
		{"see that it runs with few rights", func() (err error) {
			first, err = agent.runs(ctx, 0)
			return errors.Join(err, humble(first, f.token))
		}},
		{"join it", func() error { return f.join(ctx) }},
		{"kill it, and see it come back", func() (err error) {
			if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
				return err
			}
			second, err = agent.runs(ctx, first)
			return err
		}},
		{"join it again", func() error { return f.join(ctx) }},
		{"install it once more in its own place", func() (err error) {
			if err := do(ctx, program, "agent", "install", "--listen", address, "--token-file", f.token, "--max-rate", "1G"); err != nil {
				return err
			}
			first, err = agent.runs(ctx, second)
			return errors.Join(err, far(ctx, "testbed", "check", f.testbed, "--experiment", f.experiment))
		}},
		{"stop it", func() error { return agent.stop(ctx) }},
		{"start it as the next start of the machine does", func() (err error) {
			if err := do(ctx, "systemctl", "start", agent.name); err != nil {
				return err
			}
			_, err = agent.runs(ctx, first)
			return err
		}},
		{"uninstall it", func() error { return do(ctx, program, "agent", "uninstall") }},
		{"find nothing of it", func() error { return nothing(ctx, before) }},
	})
	if err == nil {
		err = testServer(ctx)
	}
	if err == nil {
		fmt.Println("nothing is left")
	}
	return err
}

// do runs a program and shows what it said only if it failed.
func do(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// far runs hopbench on the other host.
func far(ctx context.Context, args ...string) error {
	return do(ctx, "ip", append([]string{"netns", "exec", node, program}, args...)...)
}

// properties asks systemd about the service.
func (u unit) properties(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "show", u.name).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("systemctl show: %w\n%s", err, out)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[name] = value
	}
	return all, nil
}

// await asks until a condition holds.
func await(what string, holds func() (bool, error)) error {
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		ok, err := holds()
		if err != nil || ok {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s: not after %v", what, patience)
		}
	}
}

// runs waits until the service listens, in a process other than that, and returns it.
func (u unit) runs(ctx context.Context, other int) (pid int, err error) {
	err = await("the service runs", func() (bool, error) {
		p, err := u.properties(ctx)
		if err != nil {
			return false, err
		}
		pid, _ = strconv.Atoi(p["MainPID"]) // 0 while there is none
		if p["ActiveState"] != "active" || pid == 0 || pid == other {
			return false, nil
		}
		c, err := net.Dial("tcp", u.address)
		if err != nil {
			return false, nil // not yet
		}
		return true, c.Close()
	})
	return pid, err
}

// humble says what a process may that it should not.
func humble(pid int, token string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	var uid uint64
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		words := strings.Fields(value)
		switch name {
		case "Uid":
			if uid, err = strconv.ParseUint(words[0], 10, 32); err != nil {
				return err
			}
			// Those of DynamicUser= (systemd.exec(5)).
			if uid < 61184 || uid > 65519 {
				err = fmt.Errorf("its user is %d", uid)
			}
		case "CapEff", "CapBnd":
			if strings.Trim(words[0], "0") != "" {
				err = errors.Join(err, fmt.Errorf("%s is %s", name, words[0]))
			}
		case "NoNewPrivs", "Seccomp":
			if words[0] == "0" {
				err = errors.Join(err, fmt.Errorf("%s is 0", name))
			}
		}
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(token)
	if err == nil && (info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid == uint32(uid)) {
		err = fmt.Errorf("the token's file is %v", info.Mode())
	}
	return err
}

// files are those of a run whose source is the agent.
type files struct{ dir, token, experiment, testbed string }

func writeFiles(dir string) (files, error) {
	f := files{dir, "/etc/hopbench-token", filepath.Join(dir, "experiment.yaml"), filepath.Join(dir, "testbed.yaml")}
	return f, errors.Join(
		os.WriteFile(f.token, []byte("a token of this machine alone\n"), 0o600),
		os.WriteFile(f.experiment, []byte(`format: hopbench.experiment/1
name: installed
title: An installed agent
description: One path twice.
endpoints: [{name: service}, {name: here}]
source: service
destination: here
baseline: a
blocks: 1
paths:
  - {name: a, title: one, hops: [{type: link, name: l, delay: 1ms}]}
  - {name: b, title: the same, hops: [{type: link, name: l, delay: 1ms}]}
tests:
  - {name: latency, title: latency, kind: rr, protocol: tcp, duration: 300ms}
  - {name: flows, title: flows, kind: tcp, flows: 2, duration: 300ms, max_warmup: 100ms}
  - {name: packets, title: packets, kind: pps, rate: 1Mbit, duration: 300ms}
`), 0o600),
		os.WriteFile(f.testbed, fmt.Appendf(nil, `format: hopbench.testbed/1
name: installed
kind: hosts
token_file: %s
endpoints:
  service: {reach: "tls://%s"}
  here: {reach: local}
paths:
  a: {to: "%[3]s:5301"}
  b: {to: "%[3]s:5302"}
`, f.token, address, other), 0o600))
}

// join runs an experiment, whose trials must have measured something: whether they count
// is of no interest on an emulated machine.
func (f files) join(ctx context.Context) (err error) {
	out := filepath.Join(f.dir, "out")
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	if err := far(ctx, "run", f.experiment, "--testbed", f.testbed, "--out", out, "--seed", "1"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		return err
	}
	var r result.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	for _, t := range r.Trials {
		if len(t.Metrics) == 0 {
			return fmt.Errorf("%s measured nothing: %+v", t.ID, t.Gate.Findings)
		}
	}
	if n := len(r.Trials); n != 6 {
		return fmt.Errorf("%d trials, want 3 tests on 2 paths", n)
	}
	return nil
}

// stop has systemd stop the service, which must end well and at once.
func (u unit) stop(ctx context.Context) error {
	if err := do(ctx, "systemctl", "stop", u.name); err != nil {
		return err
	}
	p, err := u.properties(ctx)
	if err != nil {
		return err
	}
	if p["ActiveState"] != "inactive" || p["Result"] != "success" || p["ExecMainStatus"] != "0" {
		return fmt.Errorf("it is %s, %s, status %s", p["ActiveState"], p["Result"], p["ExecMainStatus"])
	}
	return u.silent()
}

// silent says that something listens where the service did.
func (u unit) silent() error {
	c, err := net.Dial("tcp", u.address)
	if err != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("something listens on %s", u.address), c.Close())
}

// etc lists what is in /etc/systemd.
func etc() (string, error) {
	var b strings.Builder
	err := filepath.WalkDir("/etc/systemd", func(name string, d fs.DirEntry, err error) error {
		fmt.Fprintln(&b, name)
		return err
	})
	return b.String(), err
}

// nothing says what is left of the agent: files, a unit, a process, a listener, its token.
func nothing(ctx context.Context, before string) error {
	after, err := etc()
	if err == nil && after != before {
		err = fmt.Errorf("/etc/systemd was\n%sand is\n%s", before, after)
	}
	p, asked := agent.properties(ctx)
	if asked == nil && p["LoadState"] != "not-found" {
		asked = fmt.Errorf("systemd still knows the unit: %s, %s", p["LoadState"], p["ActiveState"])
	}
	processes, listed := filepath.Glob("/proc/[0-9]*/exe")
	for _, name := range processes {
		if exe, err := os.Readlink(name); err == nil && strings.HasPrefix(exe, program) {
			listed = errors.Join(listed, fmt.Errorf("%s runs %s", name, exe))
		}
	}
	credentials, found := filepath.Glob("/run/credentials/" + agent.name + "*")
	if len(credentials) > 0 {
		found = errors.Join(found, fmt.Errorf("its token is left in %v", credentials))
	}
	return errors.Join(err, asked, listed, found, agent.silent(), os.Remove("/etc/hopbench-token"))
}
