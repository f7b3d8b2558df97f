package session

import (
	"context"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Request is one test to be done from this host.
type Request struct {
	// ID is the trial's id; it names the test on the wire and in logs.
	ID   string           `json:"id"`
	Spec measurement.Spec `json:"spec"`
	// Target is the server: its address and port. Ping and trace use the
	// address (and trace over TCP the port).
	Target netip.AddrPort `json:"target"`
	// Source, when valid, is the local address to send from.
	Source netip.Addr `json:"source,omitzero"`
	// Token is the shared secret that both ends prove; may be empty.
	Token string `json:"token,omitempty"`
	// FTPUser and FTPPassword are those of the stock FTP server that an ftp test
	// with a FilePath has as its Target; without a user it is anonymous.
	FTPUser     string `json:"ftp_user,omitempty"`
	FTPPassword string `json:"ftp_password,omitempty"`
	// Pairs of hosts that do this test at the same time and are reported
	// together, 0 or 1 for this one alone. The outcome of one of several has
	// itself as its only Pair, with the round-trip times over time, because
	// few samples of each flow are kept.
	Pairs int `json:"pairs,omitempty"`
	// Prepared, if not nil, is called when a tcp, udp, pps, rr or crr test has made its
	// connections, and before any other kind of test begins. The test starts at the moment that
	// it returns, or at once when that is zero or past, and ends with its error.
	Prepared func(context.Context) (start time.Time, err error) `json:"-"`
	// MaxRateBitsPerSecond is the most payload that this end lets the whole test
	// move, as a server's own bound; 0 does not bound it.
	MaxRateBitsPerSecond float64 `json:"-"`

	// Hooks are of a test that is part of another; they may be nil.
	Hooks *Hooks `json:"-"`
	// Placed says that the test's threads at this end may be told where to run.
	Placed bool `json:"-"`
}

// AwaitCommonStart waits until the test may start.
func (r Request) AwaitCommonStart(ctx context.Context) error {
	if r.Prepared == nil {
		return nil
	}
	start, err := r.Prepared(ctx)
	if err == nil {
		err = waitUntil(ctx, start)
	}
	return Wrap("wait for the common start", err)
}

// lateTimer is by how much the runtime's timers may be late, and lateSleep by how much a
// thread's own sleep: the last bit is waited for with the processor kept.
const (
	lateTimer = 2 * time.Millisecond
	lateSleep = 60 * time.Microsecond
)

// waitUntil waits for a moment, to some microseconds where a processor is free.
func waitUntil(ctx context.Context, moment time.Time) error {
	if left := time.Until(moment); left > lateTimer {
		timer := time.NewTimer(left - lateTimer)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for left := time.Until(moment); left > 0; left = time.Until(moment) {
		sockets.Sleep(left - lateSleep)
	}
	return nil
}
