//go:build unix

package endpoint

import (
	"bufio"
	"net/netip"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// SIGTERM lets a running test end, turns new ones away and ends the server with 0.
func TestSIGTERMDrains(t *testing.T) {
	r, w, err := os.Pipe()
	testutil.OK(t, err)
	defer r.Close()
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- serve(ctx, w, serveFlags{maxClients: 4, maxFlows: 4, maxDuration: time.Minute, bind: "127.0.0.1"}, nil)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	until := func(want string) []string {
		t.Helper()
		for lines.Scan() {
			if m := regexp.MustCompile(want).FindStringSubmatch(lines.Text()); m != nil {
				return m
			}
		}
		t.Fatalf("the server never says %q", want)
		return nil
	}
	address := until(`serving on (127\.0\.0\.1:\d+),`)[1]
	// Not as commands of this process, which would end of the signal, too.
	test := func(duration measurement.Seconds) error {
		_, err := probe.Run(t.Context(), probe.Request{Spec: measurement.Spec{Kind: measurement.RR, Duration: duration}, Target: netip.MustParseAddrPort(address)}, nil)
		return err
	}
	running := make(chan error, 1)
	go func() { running <- test(1.5) }()
	until(`: began$`)
	testutil.OK(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	until(`ending: no new tests; 1 test in progress`)
	if err := test(0.1); err == nil || !strings.Contains(err.Error(), "limit: the other end says: this server is ending: no new tests") {
		t.Errorf("a new test ends with %v", err)
	}
	if err := <-running; err != nil {
		t.Errorf("the running test ends with %v", err)
	}
	for lines.Scan() { // to the end, so that nobody waits for a full pipe
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
