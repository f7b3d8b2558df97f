package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/message"
	"golang.org/x/sys/unix"
)

// Check finds out what this machine can do by building a throw-away lab and
// trying each feature in it, and yields each finding as it is made. The findings that
// everything else depends on come first.
func Check(ctx context.Context) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		found := func(findings ...Finding) bool {
			for _, f := range findings {
				if f.OK {
					f.Remedy = ""
				}
				if !yield(f) {
					return false
				}
			}
			return true
		}
		if !found(kernelFinding()) {
			return
		}
		l, err := Start(ctx, Topology{Nodes: []Node{{Name: "probe"}}}, Options{})
		var features []Finding
		if err == nil {
			probed, probeErr := call[message.Features](ctx, l, message.Probe, "probe")
			if closeErr := l.Close(); probeErr == nil {
				probeErr = closeErr
			}
			features = featureFindings(probed, probeErr)
		}
		if found(namespaceFinding(err)) && found(features...) {
			found(hostFindings()...)
		}
	}
}

func kernelFinding() Finding {
	f := Finding{Name: "kernel", OK: true}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		f.OK, f.Detail = false, err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("Linux %s %s", unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))
	return f
}

func namespaceFinding(err error) Finding {
	f := Finding{Name: "user namespaces", Required: true, OK: err == nil}
	if err == nil {
		f.Detail = fmt.Sprintf("a lab came up and down as user %d (%s=%s)", os.Geteuid(), apply.MaxUserNamespaces, apply.HostSetting(apply.MaxUserNamespaces))
		return f
	}
	f.Detail = err.Error()
	switch {
	case apply.HostSetting(apply.MaxUserNamespaces) == "0":
		f.Remedy = fmt.Sprintf("sudo sysctl -w %s=15000", apply.MaxUserNamespaces)
	case errors.Is(err, unix.EAGAIN):
		f.Remedy = "raise ulimit -u, or pids.max of the control group (of a container --pids-limit)"
	case apply.RootLacksSetfcap():
		f.Remedy = "run it as another user, or with CAP_SETFCAP (in a container --cap-add SETFCAP)"
	case apply.InChroot():
		f.Remedy = "run it outside of the chroot"
	case apply.HostSetting(apply.UnprivilegedClone) == "0":
		f.Remedy = fmt.Sprintf("sudo sysctl -w %s=1", apply.UnprivilegedClone)
	case apply.HostSetting(apply.ApparmorRestriction) == "1":
		executable, err := os.Executable()
		if err != nil {
			executable = "/usr/bin/hopbench"
		}
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			executable = resolved
		}
		f.Remedy = "write this to /etc/apparmor.d/hopbench and run `sudo apparmor_parser -r /etc/apparmor.d/hopbench`, or run hopbench with sudo:\n" +
			apply.AppArmorProfile(executable)
	default:
		f.Remedy = "run it on the host rather than in a container, or start the container with --privileged, or with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
	}
	return f
}

// featureFindings words what the probes of a lab found.
func featureFindings(probed message.Features, err error) []Finding {
	if err != nil {
		return []Finding{{Name: "features", Required: true, Detail: fmt.Sprintf("they could not be tried: %v", err), Remedy: "run `hopbench doctor` again; if it stays so, report it"}}
	}
	var findings []Finding
	for _, f := range apply.Features() {
		why := probed.Found[f.Name]
		finding := Finding{Name: f.Name, OK: why == "", Required: f.Required, Detail: cmp.Or(why, f.Serves), Remedy: f.Remedy}
		findings = append(findings, finding)
	}
	if len(probed.Facts) > 0 {
		findings = append(findings, Finding{Name: "settings in nodes", Detail: strings.Join(probed.Facts, "; "), Remedy: "run it on the host rather than in a container"})
	}
	return findings
}

// hostFindings are about the machine itself.
func hostFindings() []Finding {
	cores := runtime.NumCPU()
	findings := []Finding{{
		Name: "CPUs", OK: cores >= 2, Detail: fmt.Sprintf("%d", cores),
		Remedy: "at least 2; with one, both ends and the path compete for it and the figures say little",
	}}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		megabytes := (uint64(info.Freeram) + uint64(info.Bufferram)) * uint64(info.Unit) >> 20
		if available := memAvailable(); available > 0 {
			megabytes = available
		}
		findings = append(findings, Finding{
			Name: "memory", OK: megabytes >= 1024, Detail: fmt.Sprintf("%d MiB available", megabytes),
			Remedy: "at least 1024 MiB: end other programs",
		})
	}
	ping := Finding{Name: "ping from the host", OK: true, Detail: "ICMP echo, as this user"}
	if err := apply.HostPing(); err != nil {
		ping.OK, ping.Detail = false, err.Error()
		ping.Remedy = `sudo sysctl -w net.ipv4.ping_group_range="0 2147483647" (only for tests between hosts; the lab does not need it)`
	}
	return append(findings, ping)
}

// memAvailable is MemAvailable of /proc/meminfo in MiB, 0 when it is not there.
func memAvailable() uint64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kilobytes uint64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes >> 10
		}
	}
	return 0
}
