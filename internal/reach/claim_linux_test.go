package reach

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
