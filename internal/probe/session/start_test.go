package session

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// A common start that is over, at once (the zero time), or near is waited for, and no
// other.
func TestAwaitCommonStart(t *testing.T) {
	now := time.Now()
	for name, start := range map[string]time.Time{
		"none": {}, "over": now.Add(-time.Hour), "now": now, "near": now.Add(time.Millisecond), "beyond the last bit": now.Add(lateTimer + time.Millisecond),
	} {
		r := Request{Prepared: func(context.Context) (time.Time, error) { return start, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		begun, err := r.AwaitCommonStart(ctx)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		begun()
		begun()
		if time.Now().Before(start) {
			t.Errorf("%s: too early", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := Request{Prepared: func(context.Context) (time.Time, error) {
		cancel()
		return now.Add(time.Hour), nil
	}}
	if _, err := r.AwaitCommonStart(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that nobody waits for any more: %v", err)
	}
}

// Who waits until the deadline reads what did not come, and not "i/o timeout" alone.
func TestLateAnswer(t *testing.T) {
	err := (&ControlConn{Deadline: time.Now().Add(-time.Second)}).Over()
	if !errors.Is(err, ErrSilent) || !errors.Is(err, os.ErrDeadlineExceeded) || ReasonOf(err) != TimedOut {
		t.Errorf("%v, reason %s", err, ReasonOf(err))
	}
}
