package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hopbench/hopbench/test/vm/image"
)

// Where systemd's own files are.
const (
	systemdFolder = "/usr/lib/systemd/"
	unitFolder    = systemdFolder + "system/"
)

// jobsUnit has systemd run the jobs that are meant for it; the guest switches the machine
// off after them. Its output is the kernel's console.
const jobsUnit = `[Unit]
Description=The jobs that need systemd

[Service]
Type=oneshot
ExecStart=/init systemd
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TMPDIR=/tmp
StandardOutput=file:/dev/console
StandardError=file:/dev/console
TimeoutStartSec=infinity
`

// addSystemd adds systemd as this machine has it, with the journal and all targets, and no
// other unit but that of the jobs: what a distribution's start comes to without a disk.
func addSystemd(a *image.Archive, suites []suite) error {
	if !slices.ContainsFunc(suites, func(s suite) bool { return s.systemd }) {
		return nil
	}
	for _, name := range []string{systemdFolder + "systemd", systemdFolder + "systemd-journald", "systemctl", "journalctl"} {
		if err := a.Program(name); err != nil {
			return fmt.Errorf("%s: %w; Debian's package systemd has it", name, err)
		}
	}
	targets, err := filepath.Glob(unitFolder + "*.target")
	if err != nil {
		return err
	}
	journal := []string{"systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"}
	for _, name := range journal {
		targets = append(targets, unitFolder+name)
	}
	for _, file := range targets {
		content, err := os.ReadFile(file) // of a link, what it points to
		if err != nil {
			return err
		}
		if err := a.File(file, 0o644, content); err != nil {
			return err
		}
	}
	return errors.Join(
		a.Link(unitFolder+"sysinit.target.wants/"+journal[0], "../"+journal[0]),
		a.Link(unitFolder+"sockets.target.wants/"+journal[1], "../"+journal[1]),
		a.Link(unitFolder+"sockets.target.wants/"+journal[2], "../"+journal[2]),
		a.Link("/etc/systemd/system/default.target", unitFolder+"multi-user.target"),
		a.File("/etc/systemd/system/jobs.service", 0o644, []byte(jobsUnit)),
		a.Link("/etc/systemd/system/multi-user.target.wants/jobs.service", "../jobs.service"),
		// Without it this is the first start ever, at which systemd enables units of its own.
		a.File("/etc/machine-id", 0o444, []byte("0123456789abcdef0123456789abcdef\n")),
	)
}
