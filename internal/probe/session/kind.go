// Package session is what all kinds of tests share, at both ends: what a test is asked
// for ([Request]), how a client connects ([Connect]), the control connection, what a
// server gives to a kind of test ([ServerEnv]) and what it expects of one ([Kind]).
package session

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Kind says how the two ends do one kind of test. Its functions get specs that were
// checked and have their defaults.
type Kind struct {
	// Run does a test from this host.
	Run func(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error)
	// PreparesItself says that run calls [Request.AwaitCommonStart].
	PreparesItself bool

	// Planned is the longest that a test sends. It is nil for a kind that needs no
	// server and bounds itself.
	Planned func(measurement.Spec) time.Duration
	// OpenEnded says that a test lasts as long as it moves bytes and its server allows;
	// planned is then the most that any server allows.
	OpenEnded bool
	// Grace is how long after that a test may still deliver results; nil is [grace].
	Grace func(measurement.Spec) time.Duration
	// Files is how many open files the connections of a test take of the client; nil
	// is none worth counting.
	Files func(measurement.Spec) int

	// NewServer makes the server's end, one for all tests of a server; nil where a server
	// takes no part.
	NewServer func(ServerEnv) Server
	// Demand sets in a cost what the server's end of a whole test takes at most, besides
	// what every test takes.
	Demand func(measurement.Spec, *admission.Cost)
	// WithoutThreads says that its flows can do without the threads of demand.
	WithoutThreads bool
	// AtOnce is how many connections of a test a server takes at a time; nil is as many
	// as its flows need.
	AtOnce func(measurement.Spec) int
	// SharesFlow says that its control connections all have the same flow number.
	SharesFlow bool
	// Rate is the rate of payload that a spec asks for, in bit/s, 0 where it asks for
	// what the path carries. It is nil for a kind that has none.
	Rate func(measurement.Spec) float64
	// Least is how many bytes of payload the server's end of a test moves in
	// [StillTime], lest it is ended; nil is none.
	Least func(measurement.Spec) int64
	// KeepAlive says that the server has the kernel ask whether the client is still
	// there; nil is never.
	KeepAlive func(measurement.Spec) bool
	// TakeThread gives the calling goroutine, which is about to transfer on a
	// connection, what it needs until the returned function is called. It is nil where
	// the connection only waits for the end of the test.
	TakeThread func(w *ControlConn, o *Flow) (release func(), err error)
	// Refused is called once a client was told why the server ends its test, before its
	// connection is closed; nil for nothing to be done.
	Refused func(w *ControlConn)
}

// ServerEnv is what a server gives to the kinds of tests that it serves.
type ServerEnv struct {
	// Token, MaxDuration, Spin, Clock, FTPPorts and Log are those of the server's options.
	Token       string
	MaxDuration time.Duration
	Spin        bool
	Clock       Clock
	FTPPorts    ftp.Ports
	Log         *slog.Logger

	// Find is the test in progress to which a cookie from an address belongs, nil if
	// there is none.
	Find func(cookie [protocol.CookieBytes]byte, from netip.Addr) *Test
	// Closing says that the server ends.
	Closing func() bool
	// AcceptUDP sends READY, waits for the flow's first UDP packet and connects a
	// socket to where it came from.
	AcceptUDP func(w *ControlConn, o *Flow, ready *protocol.Ready) (*sockets.Conn, error)
}

// Clock is one that a process tells others the time by, a clock.Monotonic.
type Clock interface {
	Now() time.Duration
	Of(t time.Time) time.Duration
}

// Server is the server's end of all tests of one kind. It may also be a
// [testBeginner], a [datagramServer], a [transactionServer] and an [io.Closer].
type Server interface {
	// Serve does one connection's part of a test. It sends READY when it is prepared.
	Serve(w *ControlConn, o *Flow, ready *protocol.Ready) error
}

// Beginner keeps something of each test.
type Beginner interface {
	// Begin prepares a test before its first connection is served, and may set its
	// state and cookie. The returned function is called after its last connection.
	Begin(t *Test) (end func() error)
}

// DatagramServer answers packets that come to the server's own UDP port.
type DatagramServer interface {
	// AnswerBytes is how many bytes answer a packet of a test, 0 for none.
	AnswerBytes(t *Test, packet []byte, from netip.AddrPort) int
}

// TransactionServer answers connections that are not the control connection of a test.
type TransactionServer interface {
	// Wrap returns a listener in place of ln, which it takes over or closes: its Accept
	// answers by itself what it can, and returns the other connections.
	Wrap(ln net.Listener) (net.Listener, error)
	// ServeTransaction answers a transaction whose first byte was read.
	ServeTransaction(c *net.TCPConn) error
}

// Cost is what the server's end of a whole test takes at most, from its spec alone.
// The spec has passed checkSpec.
func (k Kind) Cost(spec measurement.Spec) admission.Cost {
	n := int64(kind.Connections(spec))
	cost := admission.Cost{admission.Tests: 1, admission.Descriptors: n, admission.Bytes: TestBytes + n*FlowBytes}
	k.Demand(spec, &cost)
	return cost
}

// MostConnections is how many connections of a test a server takes at a time.
func (k Kind) MostConnections(spec measurement.Spec) int {
	if k.AtOnce == nil {
		return kind.Connections(spec)
	}
	return k.AtOnce(spec)
}

// AskedRate is the rate of payload that a spec asks for, in bit/s, 0 where it asks
// for what the path carries.
func (k Kind) AskedRate(spec measurement.Spec) float64 {
	if k.Rate == nil {
		return 0
	}
	return k.Rate(spec)
}

// LeastBytes is how many bytes of payload a test moves in [StillTime] at least.
func (k Kind) LeastBytes(spec measurement.Spec) int64 {
	if k.Least == nil {
		return 0
	}
	return k.Least(spec)
}
