// Command vm runs the lab's functional tests under the kernel of a stock
// distribution, Debian's linux-image-cloud-amd64, in a virtual machine that has
// no disk: the kernel's first file system compares the test binaries, the programs
// that they hold the lab with, and the kernel's modules. What the CPU
// does is emulated (qemu's TCG), so that it works in any container; nothing that
// is measured in it says anything of speed.
//
// It needs Debian, apt, qemu-system-x86 and kmod, and no root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/hopbench/hopbench/test/vm/report"
)

type options struct {
	cache   string
	only    *regexp.Regexp // tests to run, nil for all
	timeout time.Duration
	console bool
	program string // to run instead of the suites, "" for none
}

func main() {
	o := options{}
	flag.StringVar(&o.cache, "cache", "", "folder that keeps the unpacked kernel (default hopbench-vm in the user's cache)")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long the machine may run")
	flag.BoolVar(&o.console, "console", false, "print the kernel's messages though nothing failed")
	flag.StringVar(&o.program, "program", "", "run this program as root, and nothing else: a package of this repository and its arguments")
	flag.Func("run", "run only tests whose names match this regular expression", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// run builds the machine, boots it and judges what its tests said.
func run(ctx context.Context, o options) (err error) {
	if o.cache == "" {
		folder, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		o.cache = filepath.Join(folder, "hopbench-vm")
	}
	work, err := os.MkdirTemp("", "hopbench-vm")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	start := time.Now()
	k, err := fetchKernel(ctx, o.cache)
	if err != nil {
		return fmt.Errorf("get the kernel: %w", err)
	}
	m := machine{kernel: k.image, initrd: filepath.Join(work, "initrd"), console: filepath.Join(work, "console")}
	suites, err := prepare(ctx, work, o)
	if err != nil {
		return err
	}
	if err := buildImage(ctx, m.initrd, work, k, suites); err != nil {
		return fmt.Errorf("build the machine's file system: %w", err)
	}
	fmt.Printf("kernel %s, machine built in %.0f s\n", k.release, time.Since(start).Seconds())

	start = time.Now()
	v := verdict{suites: suites, w: os.Stdout, count: map[report.Outcome]int{}}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	machineErr := m.run(ctx, v.take)
	v.finish()
	console, err := os.ReadFile(m.console)
	if err != nil {
		return errors.Join(machineErr, err)
	}
	v.kernel(string(console))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		machineErr = fmt.Errorf("the machine was not done after %v", o.timeout)
	}
	if o.console || machineErr != nil || len(v.problems) > 0 {
		fmt.Printf("\n--- the kernel's console\n%s\n---\n", console)
	}
	for _, p := range v.problems {
		fmt.Println("problem:", p)
	}
	fmt.Printf("\nvirtual machine: %d passed, %d failed, %d skipped in %.0f s\n",
		v.count[report.Pass], v.count[report.Fail], v.count[report.Skip], time.Since(start).Seconds())
	if machineErr != nil {
		return machineErr
	}
	if n := len(v.problems); n > 0 {
		return fmt.Errorf("%d problems, see above", n)
	}
	return nil
}

// command runs a program to its end and returns what it printed.
func command(ctx context.Context, folder, name string, arguments ...string) (string, error) {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir = folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "LC_ALL=C")
	text, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", c, err, text)
	}
	return string(text), nil
}
