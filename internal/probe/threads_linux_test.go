package probe_test

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A client that may have few threads does what it can with fewer, refuses the rest
// before it begins, and says which limit it is; it never dies of it.
func TestClientOfFewThreads(t *testing.T) {
	testutil.Need(t, os.Geteuid() == 0, "root, to become a user whose threads are counted")
	const nobody, threads = 64_321, 60
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, c := range []struct {
		spec    measurement.Spec
		refused bool
	}{
		{measurement.Spec{Kind: measurement.TCP, Flows: 20, PacingBitsPerSecond: 20e6}, false},
		{measurement.Spec{Kind: measurement.TCP, Flows: 64, PacingBitsPerSecond: 20e6}, false},
		{measurement.Spec{Kind: measurement.CRR, Flows: 20}, false},
		{measurement.Spec{Kind: measurement.CRR, Flows: 400}, false},
		{measurement.Spec{Kind: measurement.RR, InFlight: kind.MaxInFlight}, false},
		{measurement.Spec{Kind: measurement.UDP, Flows: 20, RateBitsPerSecond: 1e7, PacketBytes: 500}, false},
		{measurement.Spec{Kind: measurement.UDP, Flows: 64, RateBitsPerSecond: 1e7, PacketBytes: 500}, true},
		{measurement.Spec{Kind: measurement.UDP, Flows: 1024, RateBitsPerSecond: 1e7, PacketBytes: 500}, true},
		{measurement.Spec{Kind: measurement.Load, Flows: 100, IdleDuration: 0.1, RequestsPerSecond: 500}, false},
	} {
		c.spec.Duration, c.spec.MaxWarmup = 0.3, 0.05
		printed, err := runFewThreads(t, nobody, threads, probe.Request{Target: target, Spec: c.spec})
		refused := err != nil && servertest.ContainsAll(printed, "unsupported", "ulimit -u", "pids.max")
		late := err != nil && strings.Contains(printed, "timeout") // the host is busy
		if refused != c.refused || err != nil && !refused && !late {
			t.Errorf("%s of %d flows: %v, %s", c.spec.Kind, c.spec.Flows, err, printed)
		}
	}
}

// runFewThreads does a request in a process of a user of its own that may have so
// many threads, and returns what it prints as errors.
func runFewThreads(t *testing.T, user uint32, threads uint64, req probe.Request) (string, error) {
	t.Helper()
	var printed bytes.Buffer
	c := servertest.Client(t, req)
	c.Stderr = &printed
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	var old unix.Rlimit
	testutil.OK(t, unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &old))
	// A child inherits it, and root's own threads are not counted.
	few := unix.Rlimit{Cur: threads, Max: old.Max}
	testutil.OK(t, unix.Prlimit(0, unix.RLIMIT_NPROC, &few, nil))
	err := c.Start()
	testutil.OK(t, unix.Prlimit(0, unix.RLIMIT_NPROC, &old, nil))
	if err == nil {
		err = c.Wait()
	}
	return strings.TrimSpace(printed.String()), err
}

// One bound is for all flows of a process.
func TestTakeThreads(t *testing.T) {
	var taken []func()
	giveBack := func() {
		for _, f := range taken {
			f()
		}
	}
	for ok := true; ok; {
		var one func()
		ok, one = session.TakeThreads(1)
		taken = append(taken, one)
	}
	if again, _ := session.TakeThreads(1); again {
		t.Error("one more was")
	}
	if _, err := session.NeedThreads(1); err == nil {
		t.Error("one that is needed was")
	}
	// A tcp test does without: its flows share the poller, at both ends.
	target := servertest.Serve(t, probe.ServerOptions{})
	out, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: servertest.ShortTCP(2, measurement.Both)}, nil)
	if err != nil || out.Effective["flow_scheduling"] != session.Scheduling(false) {
		t.Errorf("%v, %v", out.Effective, err)
	}
	giveBack()
	if ok, giveBack := session.TakeThreads(len(taken) - 1); !ok {
		t.Error("they were not given back")
	} else {
		giveBack()
	}
}
