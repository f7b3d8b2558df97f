// Command guest is the first process of the virtual machine of test/vm. It makes
// of the bare kernel what a distribution's start leaves behind, runs the jobs of
// /jobs.json one after the other, reports them (package report) and switches the
// machine off. If some of the jobs need systemd, it hands the machine over, as the first
// file system of a distribution does, and systemd runs this program for them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/test/vm/report"
)

// The process has several roles: the first process of a machine has to collect the
// orphans of all others, which would take the status of its own children from
// those who wait for them.
const (
	runnerRole  = "runner"  // runs the jobs that do not need systemd
	systemdRole = "systemd" // runs those that do, as a service
)

const systemd = "/usr/lib/systemd/systemd"

func main() {
	if len(os.Args) == 2 && (os.Args[1] == runnerRole || os.Args[1] == systemdRole) {
		err := run(os.Args[1] == systemdRole)
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
		}
		if os.Args[1] == systemdRole {
			switchOff()
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the first process of a virtual machine; `make test-vm` starts one")
		os.Exit(2)
	}
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	switchOff()
}

func switchOff() {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Fprintln(os.Stderr, "guest: switch off:", err)
	}
}

// start sets the machine up, has the jobs run, and collects what ends until
// they have.
func start() error {
	if err := setUp(); err != nil {
		return err
	}
	runner, err := os.StartProcess("/init", []string{"/init", runnerRole}, &os.ProcAttr{
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp"},
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for processes: %w", err)
		case pid == runner.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("the jobs ended with %v", status)
		case pid == runner.Pid:
			return handOver()
		}
	}
}

// handOver lets systemd take this process's place if the image has it.
func handOver() error {
	if _, err := os.Stat(systemd); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("start %s: %w", systemd, unix.Exec(systemd, []string{systemd}, nil))
}

// settings are those that Debian's packages make at the start: procps in
// /usr/lib/sysctl.d of version 12.
var settings = [][2]string{
	{"kernel/pid_max", "4194304"},
	{"fs/protected_fifos", "1"},
	{"fs/protected_hardlinks", "1"},
	{"fs/protected_regular", "2"},
	{"fs/protected_symlinks", "1"},
}

func setUp() error {
	for _, m := range []struct {
		kind, place string
		flags       uintptr
		data        string
	}{
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", unix.MS_NOSUID, "mode=0755"},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
		{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := unix.Mount(m.kind, m.place, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.place, err)
		}
	}
	// udev makes this node before its module is there, and opens it to all
	// (50-udev-default.rules, "static_node=net/tun"); opening it loads the module.
	if err := os.MkdirAll("/dev/net", 0o755); err != nil {
		return err
	}
	if err := unix.Mknod("/dev/net/tun", unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))); err != nil {
		return fmt.Errorf("make /dev/net/tun: %w", err)
	}
	if err := os.Chmod("/dev/net/tun", 0o666); err != nil { // whatever the mask
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if err := os.WriteFile("/proc/sys/"+s[0], []byte(s[1]), 0); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	if err := testutil.LoopbackUp(); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}

// run does the jobs, those that need systemd or the others.
func run(underSystemd bool) error {
	text, err := os.ReadFile("/jobs.json")
	if err != nil {
		return err
	}
	var jobs []report.Job
	if err := json.Unmarshal(text, &jobs); err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	line, err := openLine("/dev/ttyS1")
	if err != nil {
		return err
	}
	defer line.Close()
	events := json.NewEncoder(line)
	left := 0
	for i, job := range jobs {
		if job.Systemd != underSystemd {
			left++
			continue
		}
		if err := events.Encode(report.Event{Kind: report.Started, Job: i}); err != nil {
			return err
		}
		status, err := do(job, func(text string) error {
			return events.Encode(report.Event{Kind: report.Printed, Job: i, Text: text})
		})
		ended := report.Event{Kind: report.Ended, Job: i, Status: status}
		if err != nil {
			ended.Text = err.Error()
		}
		if err := events.Encode(ended); err != nil {
			return err
		}
	}
	if underSystemd || left == 0 {
		if err := events.Encode(report.Event{Kind: report.Done}); err != nil {
			return err
		}
	}
	// What the serial line still holds would be lost with the machine.
	if err := unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1); err != nil {
		return fmt.Errorf("drain the serial line: %w", err)
	}
	return nil
}

// openLine opens a serial line that passes bytes as they are.
func openLine(name string) (*os.File, error) {
	line, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
	if err == nil {
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(int(line.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up %s: %w", name, err), line.Close())
	}
	return line, nil
}

// do runs one job and gives print each line of its output. When its time is
// over it and its children are killed.
func do(job report.Job, print func(string) error) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), job.Timeout)
	defer cancel()
	output, input, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer output.Close()
	cmd := exec.CommandContext(ctx, job.Argv[0], job.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = job.Dir, input, input
	cmd.Env = append(os.Environ(), "HOPBENCH_TEST_NO_SKIP=1", "HOPBENCH_TEST_BINARY=/usr/bin/hopbench")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if job.User != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: job.User, Gid: job.User}
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	err = cmd.Start()
	input.Close()
	if err != nil {
		return 0, err
	}
	printed := make(chan error, 1)
	go func() { printed <- lines(output, print) }()
	err = cmd.Wait()
	// A program that went into another group may hold the output still.
	if err := output.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	if err := <-printed; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, err
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("not over after %v", job.Timeout)
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	}
	return 0, err
}

// lines cuts what is read into lines, and long lines into several.
func lines(r io.Reader, print func(string) error) error {
	in := bufio.NewReaderSize(r, report.MaxText)
	for {
		line, err := in.ReadSlice('\n')
		if n := len(line); n > 0 {
			if line[n-1] == '\n' {
				line = line[:n-1]
			}
			if err := print(string(line)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
