package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suite is one job of the machine: a test binary, or a command of the product.
type suite struct {
	name    string
	pkg     string            // whose tests run, "" for a command
	user    uint32            // who runs them
	pattern string            // which tests, as -test.run takes it; "" for all
	parts   []string          // of TestScripts; nil where there are none
	except  map[string]string // tests left out, and why
	argv    []string          // the command
	program string            // package that it is built from, "" for what the machine has
	systemd bool              // whether it runs under systemd; those that do are the last
	says    []string          // what the command must print
	never   []string          // what it must not
	files   []string          // of this folder, which it finds in /src
	timeout time.Duration

	tests []string // those that must have a result
}

// The users in the machine: an ordinary one, and root.
const (
	ordinary = 1000
	root     = 0
)

// allSuites is what runs, in this order.
func allSuites() []suite {
	return []suite{
		{
			name: "hopbench doctor", user: ordinary, argv: []string{"hopbench", "doctor"}, timeout: time.Minute,
			says: []string{
				"ok       user namespaces", "ok       TAP devices", "ok       vxlan", "ok       connection counting",
				"ok       netem", "ok       wireguard", // which many a build machine's kernel lacks
			},
		},
		{
			name: "the lab without root", pkg: "internal/lab", user: ordinary, timeout: 9 * time.Minute,
			except: map[string]string{
				"TestPublishedLabIsPrivate": "is about root's labs, see below",
				"TestUnprivileged":          "runs others as an ordinary user, as all are here",
				"TestIDPSSeesAndStops":      "inspects in user space, all of the kernel's part is in TestRuleFile, and takes a fifth of the whole time",
			},
		},
		{
			name: "the lab as root", pkg: "internal/lab", user: root, timeout: time.Minute,
			pattern: "^(TestPublishedLabIsPrivate|TestPublishedLabIsForItsNamespaces|TestReachesThroughRouters|TestEgressIsMetered|TestWireGuard|TestCloseLeavesNothing)$",
		},
		{
			name: "packet filters", pkg: "internal/lab/filter", user: root, timeout: time.Minute,
		},
		{
			// What depends on the kernel: devices and sockets.
			name: "link emulators", pkg: "internal/linkem", user: ordinary, timeout: 5 * time.Minute,
			pattern: "^(TestPlantedShares|TestDelayIsNeverLess|TestPortHandedOver|TestPortFromWrongFile|TestPortClosedUnderIt|TestDeviceRemovedUnderIt|TestDeviceDownAndUp|TestEndsWithContextWhileBusy|TestInspectorDecides)$",
		},
		{
			name: "a run with WireGuard", user: ordinary, timeout: 3 * time.Minute,
			argv: []string{"hopbench", "run", "/src/wireguard.yaml", "--seed", "1", "--out", "/tmp/wireguard"},
			says: []string{"trial 6/6"}, never: []string{"does not count", "was broken"}, files: []string{"wireguard.yaml"},
		},
		{
			// The other scripts and tests ask for more traffic in a short time
			// than is possible under emulation, or for nothing of the kernel.
			name: "the built program", pkg: "test/script", user: ordinary, timeout: 3 * time.Minute,
			pattern: "^TestScripts$", parts: []string{"lab"},
		},
		{
			name: "the installed agent and server", user: root, timeout: 3 * time.Minute, systemd: true,
			program: "./test/vm/installed", says: []string{"nothing is left"},
		},
	}
}

// programFolder is where the machine has the programs that are built for it.
const programFolder = "/usr/bin/"

// prepare builds the binaries into the folder work and finds the tests that
// each suite has to run.
func prepare(ctx context.Context, work string, o options) ([]suite, error) {
	all, programs := allSuites(), map[string]string{"init": "./test/vm/guest", "hopbench": "./cmd/hopbench"}
	if words := strings.Fields(o.program); len(words) > 0 {
		all = []suite{{name: o.program, user: root, program: words[0], argv: words[1:], timeout: o.timeout}}
	}
	for i, s := range all {
		if s.program != "" {
			name := path.Base(s.program)
			programs[name] = s.program
			all[i].argv = append([]string{programFolder + name}, s.argv...)
		}
	}
	for output, pkg := range programs {
		if _, err := command(ctx, ".", "go", "build", "-o", filepath.Join(work, output), pkg); err != nil {
			return nil, err
		}
	}
	var suites []suite
	for _, s := range all {
		if s.pkg == "" {
			suites = append(suites, s)
			continue
		}
		binary := filepath.Join(work, binaryOf(s.pkg))
		if _, err := os.Stat(binary); errors.Is(err, fs.ErrNotExist) {
			if _, err := command(ctx, ".", "go", "test", "-c", "-o", binary, "./"+s.pkg); err != nil {
				return nil, err
			}
		}
		if err := s.choose(ctx, binary, o.only); err != nil {
			return nil, err
		}
		if len(s.tests) > 0 {
			suites = append(suites, s)
		}
	}
	return suites, nil
}

// choose asks the binary for its tests.
func (s *suite) choose(ctx context.Context, binary string, only *regexp.Regexp) error {
	pattern := s.pattern
	if pattern == "" {
		pattern = "^Test"
	}
	listed, err := command(ctx, s.pkg, binary, "-test.list", pattern)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(listed) {
		if _, left := s.except[name]; left || !strings.HasPrefix(name, "Test") || only != nil && !only.MatchString(name) {
			continue
		}
		s.tests = append(s.tests, name)
	}
	run := "^(" + strings.Join(s.tests, "|") + ")$"
	if slices.Contains(s.tests, "TestScripts") {
		run += "/^(" + strings.Join(s.parts, "|") + ")$"
		for _, part := range s.parts {
			s.tests = append(s.tests, "TestScripts/"+part)
		}
	}
	for name := range s.except {
		if !slices.Contains(strings.Fields(listed), name) {
			return fmt.Errorf("%s: leaves out %s, which is not there", s.name, name)
		}
	}
	s.argv = []string{
		"/tests/" + binaryOf(s.pkg), "-test.v=test2json", "-test.run", run,
		"-test.timeout", (s.timeout - 5*time.Second).String(),
	}
	return nil
}

func binaryOf(pkg string) string { return strings.ReplaceAll(pkg, "/", "-") + ".test" }
