package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/test/vm/image"
	"github.com/hopbench/hopbench/test/vm/report"
)

// suite is one job of the machine: a test binary, or a command of the product.
type suite struct {
	name    string
	pkg     string            // whose tests run, "" for a command
	user    uint32            // who runs them
	pattern string            // which tests, as -test.run takes it; "" for all
	parts   []string          // of TestScripts; nil where there are none
	except  map[string]string // tests left out, and why
	skips   map[string]string // tests that may skip, and why
	argv    []string          // the command
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
			says: []string{"ok       user namespaces", "ok       netem", "ok       wireguard", "ok       vxlan", "ok       TAP devices", "ok       connection counting"},
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
			pattern: "^(TestPublishedLabIsPrivate|TestReachesThroughRouters|TestEgressIsMetered|TestWireGuard|TestCloseLeavesNothing)$",
		},
		{
			name: "packet filters", pkg: "internal/lab/filter", user: root, timeout: time.Minute,
		},
		{
			// What depends on the kernel: devices and sockets.
			name: "cables", pkg: "internal/cable", user: ordinary, timeout: 5 * time.Minute,
			pattern: "^(TestFlowOf|TestPlantedShares|TestDelayIsNeverLess|TestPortHandedOver|TestPortFromWrongFile|TestPortClosedUnderIt|TestDeviceRemovedUnderIt|TestDeviceDownAndUp|TestEndsWithContextWhileBusy|TestInspectorDecides)$",
		},
		{
			name: "a run with WireGuard", user: ordinary, timeout: 3 * time.Minute,
			argv: []string{"hopbench", "run", "/src/wireguard.yaml", "--seed", "1", "--out", "/tmp/wireguard"},
			says: []string{"trial 6/6"}, never: []string{"does not count"}, files: []string{"wireguard.yaml"},
		},
		{
			// The other scripts and tests ask for more traffic in a short time
			// than is possible under emulation, or for nothing of the kernel.
			name: "the built program", pkg: "test/script", user: ordinary, timeout: 3 * time.Minute,
			pattern: "^TestScripts$", parts: []string{"lab"},
		},
	}
}

// programs are those that the tests and the kernel call.
var programs = []string{
	"sh", "cat", "echo", "env", "grep", "head", "id", "ls", "mkdir", "pwd", "seq", "sleep", "tr", "true", "mount",
	"setpriv", "sysctl", "unshare", "modprobe",
	"bridge", "ip", "iperf3", "nft", "ping", "ss", "tc", "traceroute", "tcptraceroute", "wg",
}

// prepare builds the binaries into the folder work and finds the tests that
// each suite has to run.
func prepare(ctx context.Context, work string, only *regexp.Regexp) ([]suite, error) {
	for output, pkg := range map[string]string{"init": "./test/vm/guest", "hopbench": "./cmd/hopbench"} {
		if _, err := command(ctx, ".", "go", "build", "-o", filepath.Join(work, output), pkg); err != nil {
			return nil, err
		}
	}
	var suites []suite
	for _, s := range allSuites() {
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
		if err := s.choose(ctx, binary, only); err != nil {
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
	for _, name := range strings.Fields(listed) {
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

// buildImage writes the machine's file system.
func buildImage(ctx context.Context, file, work string, k kernel, suites []suite) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := image.NewArchive(f)
	if err := a.MergeUsr(); err != nil {
		return err
	}
	for _, name := range []string{"/proc", "/sys", "/dev", "/run", "/tmp"} {
		if err := a.Directory(name, 0o755); err != nil {
			return err
		}
	}
	for _, name := range programs {
		if err := a.Program(name); err != nil {
			return fmt.Errorf("%s: %w; .ci/run names the packages that have what is needed", name, err)
		}
	}
	var jobs []report.Job
	for _, s := range suites {
		jobs = append(jobs, report.Job{Name: s.name, Argv: s.argv, Dir: "/src/" + s.pkg, User: s.user, Timeout: s.timeout})
		for _, file := range s.files {
			if err := addFile(a, "/src/"+file, filepath.Join("test", "vm", file), 0o644); err != nil {
				return err
			}
		}
		if s.pkg == "" || a.Has("/tests/"+binaryOf(s.pkg)) {
			continue
		}
		if err := addTests(a, work, s.pkg); err != nil {
			return err
		}
	}
	encoded, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	if err := errors.Join(
		addFile(a, "/init", filepath.Join(work, "init"), 0o755),
		addFile(a, "/usr/bin/hopbench", filepath.Join(work, "hopbench"), 0o755),
		a.File("/jobs.json", 0o644, encoded),
		a.File("/etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0::/:/bin/sh\ntester:x:%d:%d::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", ordinary, ordinary)),
		a.File("/etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\ntester:x:%d:\nnogroup:x:65534:\n", ordinary)),
		a.File("/etc/protocols", 0o644, []byte("ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n")), // nft and traceroute say names
		a.File("/etc/hosts", 0o644, []byte("127.0.0.1 localhost vm\n")),
		addModules(a, k),
	); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.Close()
}

// addTests adds a package's test binary, and its test data where it is run.
func addTests(a *image.Archive, work, pkg string) error {
	if err := addFile(a, "/tests/"+binaryOf(pkg), filepath.Join(work, binaryOf(pkg)), 0o755); err != nil {
		return err
	}
	if err := a.Directory("/src/"+pkg, 0o755); err != nil {
		return err
	}
	data := filepath.Join(pkg, "testdata")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return addFile(a, "/src/"+filepath.ToSlash(name), name, 0o644)
	})
}

func addFile(a *image.Archive, name, source string, permissions uint32) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return a.File(name, permissions, content)
}

// moduleFolders are the modules that a lab can come to use, the kernel's whole
// network but for the drivers of devices. Which of them are loaded is left to
// the kernel, as on any machine.
var moduleFolders = []string{"kernel/net/", "kernel/crypto/", "kernel/lib/", "kernel/arch/", "kernel/drivers/net/"}

var moduleDrivers = []string{"kernel/drivers/net/ethernet/", "kernel/drivers/net/wwan/"}

func addModules(a *image.Archive, k kernel) error {
	f, err := os.Open(filepath.Join(k.modules, "modules.dep"))
	if err != nil {
		return err
	}
	defer f.Close()
	modules, err := image.ReadModules(f)
	if err != nil {
		return err
	}
	within := func(file string, folders []string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(file, folder) })
	}
	files, err := modules.Needed(func(file string) bool { return within(file, moduleFolders) && !within(file, moduleDrivers) })
	if err != nil {
		return err
	}
	lists, err := filepath.Glob(filepath.Join(k.modules, "modules.*"))
	if err != nil {
		return err
	}
	for _, list := range lists {
		files = append(files, filepath.Base(list))
	}
	for _, file := range files {
		if err := addFile(a, "/usr/lib/modules/"+k.release+"/"+file, filepath.Join(k.modules, file), 0o644); err != nil {
			return err
		}
	}
	return nil
}
