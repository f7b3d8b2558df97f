package session

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/thread"
)

// Request is one test to be done from this host.
type Request struct {
	// ID is the trial's id; it names the test on the wire and in logs.
	ID string `json:"id"`
	// The outcome of one of several pairs (Spec.Pairs) has itself as its only Pair, with the
	// round-trip times over time, because few samples of each flow are kept.
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
	// Prepared, if not nil, is called when a tcp, udp, pps, rr or crr test has made its
	// connections, and before any other kind of test begins. The test starts at the moment that
	// it returns, or at once when that is zero or past, and ends with its error.
	Prepared func(context.Context) (start time.Time, err error) `json:"-"`
	// MaxRateBitsPerSecond is the most payload that this end lets the whole test
	// move, as a server's own bound; 0 does not bound it.
	MaxRateBitsPerSecond float64 `json:"-"`

	// Sampled, unless nil, has an agent send samples of the test's flows to its
	// coordinator.
	Sampled *Sampled `json:"sampled,omitempty"`
	// Watch, if not nil, gets what reads the flows of a test that moves payload over TCP,
	// when it has started. What it returns is called when they have ended.
	Watch func(start time.Time, flows []ReadFlow) (ended func()) `json:"-"`

	// EndSteady lets a test of throughput over TCP end as soon as its throughput was steady
	// for Duration, in place of when MaxWarmup and Duration have passed.
	EndSteady bool `json:"-"`

	// Hooks are of a test that is part of another; they may be nil.
	Hooks *Hooks `json:"-"`
	// Placed says that the test's threads at this end may be told where to run.
	Placed bool `json:"-"`
}

// Sampled is whose samples those of a test are: which pair of the trial, from 1, and
// which attempt at it.
type Sampled struct {
	Seat    int `json:"seat"`
	Attempt int `json:"attempt"`
}

// FlowCount is what a flow has counted since it started.
type FlowCount struct {
	// Bytes are those that reached the other end of the flow: this end received them, or
	// the other end's kernel acknowledged them. Headers of frames are among the latter.
	Bytes int64
	// RTT and CongestionWindow, in bytes, are the sender's, 0 where they are not known.
	RTT              time.Duration
	CongestionWindow int64
	// Retransmits are segments.
	Retransmits int64
}

// ReadFlow reads what a flow has counted, also once it has ended; false where this end
// cannot know.
type ReadFlow func() (FlowCount, bool)

// AwaitCommonStart waits until the test may start. Until begun is called, by the same
// goroutine, the caller gets a CPU before other programs do, as far as this user may have
// that: what happens at the common moment comes in between, and nothing else. A second
// call of begun does nothing.
func (r Request) AwaitCommonStart(ctx context.Context) (begun func(), err error) {
	if r.Prepared == nil {
		return func() {}, nil
	}
	start, err := r.Prepared(ctx)
	if err == nil {
		err = almost(ctx, start)
	}
	if err != nil {
		return nil, Wrap("wait for the common start", err)
	}
	if time.Until(start) <= 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	first, release := thread.First()
	precise := thread.PreciseTimers()
	begun = sync.OnceFunc(func() {
		release()
		precise()
		runtime.UnlockOSThread()
	})
	late := lateSleep
	if !first {
		late = lateWake
	}
	for left := time.Until(start); left > 0; left = time.Until(start) {
		thread.Sleep(left - late)
	}
	return begun, nil
}

// lateTimer is by how much the runtime's timers may be late on a busy machine, and
// lateSleep by how much a thread's own sleep: the last bit is waited for with the CPU
// kept. One that gets no CPU ahead of other programs may be so late on a busy machine
// as lateWake, and wakes so much earlier.
const (
	lateTimer = 20 * time.Millisecond
	lateSleep = 60 * time.Microsecond
	lateWake  = 500 * time.Microsecond
)

// almost waits until shortly before a moment.
func almost(ctx context.Context, moment time.Time) error {
	left := time.Until(moment)
	if left <= lateTimer { // also of the zero time, from which nothing may be taken away
		return nil
	}
	timer := time.NewTimer(left - lateTimer)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
