package probe_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/thread"
)

// confined are the lists of CPUs of those threads of this process that may not
// run on all that the process may, as the kernel says it.
func confined(t *testing.T) (lists []string) {
	t.Helper()
	listOf := func(file string) string {
		status, err := os.ReadFile(file)
		if err != nil {
			return "" // the thread has ended
		}
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		list, _, _ := strings.Cut(rest, "\n")
		return list
	}
	all := listOf("/proc/self/status")
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	testutil.OK(t, err)
	for _, task := range tasks {
		if list := listOf(task); list != "" && list != all && !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
	}
	return lists
}

// The threads of the two ends keep to CPUs of their own while the test runs, or to
// one where that is asked for, and are free afterwards; otherwise this does not end.
func TestEndsArePlaced(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	one := len(thread.AllowedCPUs()) == 1
	for name, spec := range map[string]measurement.Spec{
		"rr over TCP":     {Kind: measurement.RR},
		"rr over UDP":     {Kind: measurement.RR, Protocol: measurement.OverUDP},
		"open loop":       {Kind: measurement.RR, RequestsPerSecond: 1000},
		"crr":             {Kind: measurement.CRR},
		"crr of several":  {Kind: measurement.CRR, Flows: 3},
		"rr, colocated":   {Kind: measurement.RR, Colocate: true},
		"crr, colocated":  {Kind: measurement.CRR, Colocate: true},
		"crr without any": {Kind: measurement.CRR, ResponseBytes: measurement.MaxAnsweredAtOnce + 1},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Duration, spec.MaxWarmup = 0.5, 0.05
			want, lists := measurement.PlacementSeparate, 2
			switch {
			case !spec.Defaults().Placed():
				want, lists = measurement.PlacementNone, 0
			case spec.Colocate || one:
				want, lists = measurement.PlacementSame, 1
			}
			if one {
				lists = 0 // who may run on one CPU only is not confined by that
			}
			run := func(ctx context.Context, spec measurement.Spec) (measurement.Outcome, error) {
				return probe.Run(ctx, probe.Request{ID: "placed", Spec: spec, Target: target, Token: servertest.Token}, nil)
			}
			out, err := run(servertest.Context(t), spec)
			testutil.OK(t, err)
			if got := out.Effective["placement"]; got != want {
				t.Errorf("the ends were %s, want %s", got, want)
			}
			free := func() {
				for len(confined(t)) > 0 {
					// Who accepts connections notices with the next one that the test is over.
					c, err := net.Dial("tcp", target.String())
					testutil.OK(t, err)
					_ = c.Close()
				}
			}
			free()
			said := strings.Contains(strings.Join(out.Facts, "; "), "share the one CPU")
			if said != (want == measurement.PlacementSame && !spec.Colocate) {
				t.Errorf("facts: %q", out.Facts)
			}
			if lists == 0 {
				return
			}
			// It lasts until the threads were seen where they belong.
			spec.Duration = 60
			ctx, seen := context.WithCancel(servertest.Context(t))
			defer seen()
			ended := make(chan error, 1)
			go func() {
				_, err := run(ctx, spec)
				ended <- err
			}()
			for len(confined(t)) != lists {
				select {
				case err := <-ended:
					t.Fatalf("%d sets of CPUs were never seen: %v", lists, err)
				default:
					runtime.Gosched()
				}
			}
			seen()
			<-ended
			free()
		})
	}
}
