package session

import (
	"context"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
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
	// Prepared, if not nil, is called when a tcp, udp, pps, rr or crr test, or the load of a load
	// test, has made its connections, and before any other kind of test begins. What was
	// prepared starts at the moment that it returns, or at once when that is zero or past, and ends with its error.
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
