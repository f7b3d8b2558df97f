package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/lab/filter"
)

// Check finds out what this machine can do by building a throw-away lab and
// trying each feature in it. The findings that everything else depends on come
// first.
func Check(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	findings := []Finding{kernelFinding()}
	l, err := Start(ctx, Topology{Nodes: []Node{{Name: "probe"}}}, Options{})
	findings = append(findings, namespaceFinding(err))
	if err == nil {
		answer, probeErr := l.request(ctx, message{Op: opProbe, Node: "probe"}, nil, nil)
		if closeErr := l.Close(); probeErr == nil {
			probeErr = closeErr
		}
		findings = append(findings, featureFindings(answer.Environment, probeErr)...)
	}
	findings = append(findings, hostFindings()...)
	for i := range findings {
		if findings[i].OK {
			findings[i].Mend = ""
		}
	}
	return findings
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
		f.Detail = fmt.Sprintf("a lab came up and down as user %d (%s=%s)", os.Geteuid(), maxUserNamespaces, hostSetting(maxUserNamespaces))
		return f
	}
	f.Detail = err.Error()
	switch {
	case hostSetting(maxUserNamespaces) == "0":
		f.Mend = fmt.Sprintf("sudo sysctl -w %s=15000", maxUserNamespaces)
	case hostSetting(unprivilegedClone) == "0":
		f.Mend = fmt.Sprintf("sudo sysctl -w %s=1", unprivilegedClone)
	case hostSetting(apparmorRestriction) == "1":
		executable, err := os.Executable()
		if err != nil {
			executable = "/usr/bin/hopbench"
		}
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			executable = resolved
		}
		f.Mend = "write this to /etc/apparmor.d/hopbench and run `sudo apparmor_parser -r /etc/apparmor.d/hopbench`, or run hopbench with sudo:\n" +
			AppArmorProfile(executable)
	default:
		f.Mend = "run it on the host rather than in a container, or start the container with --security-opt seccomp=unconfined"
	}
	return f
}

// featureFindings words what the probes of a lab found: an empty text is success.
func featureFindings(found map[string]string, err error) []Finding {
	if err != nil {
		return []Finding{{Name: "features", Required: true, Detail: fmt.Sprintf("they could not be tried: %v", err), Mend: "run `hopbench doctor` again; if it stays so, report it"}}
	}
	module := func(config, name string) string {
		return fmt.Sprintf("a kernel with %s; where it is a module: sudo modprobe %s", config, name)
	}
	var findings []Finding
	add := func(feature, name, good, mend string, required bool) {
		why, tried := found[feature]
		f := Finding{Name: name, OK: tried && why == "", Required: required, Detail: good}
		if !f.OK {
			f.Detail, f.Mend = why, mend
			if !tried {
				f.Detail = "not tried, because veth does not work"
			}
		}
		findings = append(findings, f)
	}
	add(featureVeth, "veth", "links between nodes", module("CONFIG_VETH", "veth"), true)
	add(featureTBF, "tbf", "egress metering", module("CONFIG_NET_SCH_TBF", "sch_tbf"), true)
	add(featureTAP, "TAP devices", "fast cables",
		module("CONFIG_TUN", "tun")+"; /dev/net/tun must be open to this user (in a container: --device /dev/net/tun). Without it cables use packet sockets, which are slower", false)
	add(featurePacket, "packet sockets", "cables where there is no TAP device", module("CONFIG_PACKET", "af_packet"), false)
	add(featureCubic, "congestion control", DefaultCongestionControl+" is there", module("CONFIG_TCP_CONG_CUBIC", "tcp_cubic"), true)
	add(featurePing, "ping in the lab", "ICMP echo without privileges", "nothing: nodes then use raw sockets, which they may", false)
	add(featureNetem, "netem", "the kernel's own impairments", "nothing: cables do its work", false)
	add(featureVXLAN, "vxlan", "tunnels between nodes", module("CONFIG_VXLAN", "vxlan"), false)
	for _, f := range filter.Features() {
		add(f.Name, f.Name, f.Serves, module(f.Config, f.Module), false)
	}
	add(featureWG, "wireguard", "tunnels of type wireguard", module("CONFIG_WIREGUARD", "wireguard")+"; tunnels of type vxlan do without it", false)
	add(featureBridge, "bridge", "software switches of endpoints with accelerated: false", module("CONFIG_BRIDGE", "bridge"), false)
	if why := found[featureProc]; why != "" {
		findings = append(findings, Finding{Name: "settings in nodes", Detail: why, Mend: "run it on the host rather than in a container"})
	}
	return findings
}

// hostFindings are about the machine itself.
func hostFindings() []Finding {
	cores := runtime.NumCPU()
	findings := []Finding{{
		Name: "processors", OK: cores >= 2, Detail: fmt.Sprintf("%d", cores),
		Mend: "at least 2; with one, both ends and the path compete for it and the figures say little",
	}}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		megabytes := (uint64(info.Freeram) + uint64(info.Bufferram)) * uint64(info.Unit) >> 20
		if available := memAvailable(); available > 0 {
			megabytes = available
		}
		findings = append(findings, Finding{
			Name: "memory", OK: megabytes >= 1024, Detail: fmt.Sprintf("%d MiB available", megabytes),
			Mend: "at least 1024 MiB: end other programs",
		})
	}
	ping := Finding{Name: "ping from the host", OK: true, Detail: "ICMP echo without privileges"}
	if err := hostPing(); err != nil {
		ping.OK, ping.Detail = false, err.Error()
		ping.Mend = `sudo sysctl -w net.ipv4.ping_group_range="0 2147483647" (only for tests between hosts; the lab does not need it)`
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
