package reach

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// An agent that is stopped says nothing, and may be of the coordinator that asks.
func TestAStoppedAgentHasTheHost(t *testing.T) {
	testutil.InNamespaces(t, syscall.CLONE_NEWNET, func(t *testing.T) {
		l, err := net.ListenUnix("unix", claimed)
		testutil.OK(t, err)
		defer l.Close()
		_, err = ClaimHost(t.Context(), "this one")
		wantError(t, err, fmt.Sprintf("an agent on this host (process %d)", os.Getpid()), "it is stopped", "may be this one")
	})
}

// Nobody who ends waits for the next try.
func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		if !pause(ctx) || time.Since(began) != retryPause {
			t.Errorf("a pause of %v in place of %v", time.Since(began), retryPause)
		}
		cancel()
		began = time.Now()
		if pause(ctx) || time.Since(began) != 0 {
			t.Errorf("it goes on after %v, although it was ended", time.Since(began))
		}
	})
}
