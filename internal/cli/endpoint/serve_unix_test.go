//go:build unix

package endpoint

import (
	"bufio"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A token that systemd gave to this service is nobody else's, although its mode, which has the mask of
// its access control list, looks like that.
func TestTokenThatOthersCanRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	const token = "long enough to be no cause of a warning"
	testutil.OK(t, os.WriteFile(file, []byte(token), 0o600))
	testutil.OK(t, os.Chmod(file, 0o440))
	for folder, warned := range map[string]bool{"": true, t.TempDir(): true, filepath.Dir(file): false, filepath.Dir(file) + "/": false} {
		t.Setenv("CREDENTIALS_DIRECTORY", folder)
		var said strings.Builder
		if warnOfToken(&said, file, token); (said.Len() > 0) != warned {
			t.Errorf("with credentials in %q: %q", folder, said.String())
		}
	}
}

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
