package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/test/vm/image"
	"github.com/hopbench/hopbench/test/vm/report"
)

// programs are those that the tests and the kernel call.
var programs = []string{
	"sh", "cat", "echo", "env", "grep", "head", "id", "ls", "mkdir", "pwd", "seq", "sleep", "touch", "tr", "true", "mount",
	"setpriv", "sysctl", "unshare", "modprobe",
	"bridge", "ip", "iperf3", "nft", "ping", "ss", "tc", "traceroute", "tcptraceroute", "wg",
}

// buildImage writes the machine's file system.
func buildImage(ctx context.Context, file, work string, k kernel, suites []suite) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := image.NewArchive(f)
	for _, add := range []func() error{
		func() error { return addBase(a, work) },
		func() error { return addSuites(a, work, suites) },
		func() error { return addSystemd(a, suites) },
		func() error { return addModules(a, k) },
		ctx.Err,
		a.Close,
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// addBase adds what any suite needs.
func addBase(a *image.Archive, work string) error {
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
	users := fmt.Appendf(nil, "root:x:0:0::/:/bin/sh\ntester:x:%d:%d::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n", ordinary, ordinary)
	groups := fmt.Appendf(nil, "root:x:0:\ntester:x:%d:\nnogroup:x:65534:\n", ordinary)
	return errors.Join(
		addFile(a, "/init", filepath.Join(work, "init"), 0o755),
		addFile(a, programFolder+"hopbench", filepath.Join(work, "hopbench"), 0o755),
		a.File("/etc/passwd", 0o644, users),
		a.File("/etc/group", 0o644, groups),
		a.File("/etc/hosts", 0o644, []byte("127.0.0.1 localhost vm\n")),
		a.File("/etc/protocols", 0o644, []byte("ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n")), // nft says these names
	)
}

// addSuites adds the jobs and what they run.
func addSuites(a *image.Archive, work string, suites []suite) error {
	var jobs []report.Job
	for _, s := range suites {
		jobs = append(jobs, report.Job{Name: s.name, Argv: s.argv, Dir: "/src/" + s.pkg, User: s.user, Timeout: s.timeout, Systemd: s.systemd})
		if s.program != "" && !a.Has(s.argv[0]) {
			if err := addFile(a, s.argv[0], filepath.Join(work, path.Base(s.program)), 0o755); err != nil {
				return err
			}
		}
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
	return errors.Join(a.Directory("/src", 0o755), a.File("/jobs.json", 0o644, encoded))
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
