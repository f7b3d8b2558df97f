//go:build !linux

package lab

import (
	"context"
	"iter"
	"runtime"
	"slices"
)

// Check finds that the lab needs Linux, and what else this system can do.
func Check(context.Context) iter.Seq[Finding] {
	findings := []Finding{
		{Name: "Linux", Required: true, Detail: errNotLinux.Error(), Remedy: "everything but the lab works here, as far as the lines below say"},
		{Name: "serve, test, run", OK: true, Detail: "every kind of test but what the lines below say, iperf3, and experiments on real hosts"},
		{Name: "agent", OK: true, Detail: "hopbench agent --listen"},
	}
	echoes := unixEchoes
	if runtime.GOOS == "windows" {
		echoes = windowsEchoes
	}
	return slices.Values(slices.Concat(findings, echoes, common))
}

var (
	windowsEchoes = []Finding{
		{Name: "ping", OK: true, Detail: "by the IP Helper API, without administrator's rights"},
		{Name: "trace", OK: true, Detail: "by the IP Helper API, with ICMP echo requests whatever protocol is asked for"},
		{Name: "agent over ssh", Detail: "needs a Unix", Remedy: "run `hopbench agent --listen` here, and reach it by tls://"},
	}
	unixEchoes = []Finding{
		{Name: "ping", OK: true, Detail: "by a raw or datagram ICMP socket"},
		{Name: "trace", OK: true, Detail: "by a raw or datagram ICMP socket, with ICMP echo requests whatever protocol is asked for"},
		{Name: "agent over ssh", OK: true, Detail: "reach: ssh://HOST in a testbed file"},
	}
	common = []Finding{
		{Name: "TTL on arrival", OK: true, Detail: "read where this host is the source; unknown where it is the destination"},
		{Name: "mtu", Detail: "needs ICMP errors on the socket, which Linux has", Remedy: "have a Linux host be the source and the destination of mtu tests"},
		{Name: "options of sockets", Detail: "congestion control, DSCP, MSS, pacing, an interface and CPUs of a test can be chosen on Linux only"},
		{Name: "fast paths", Detail: "packets one by one and payload copied: high rates are those of this system's calls, not of the path"},
		{Name: "drops, softirq", Detail: "counted on Linux only"},
	}
)
