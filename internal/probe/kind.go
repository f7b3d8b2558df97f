package probe

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// kind says how the two ends do one kind of test. Its functions get specs that were
// checked and have their defaults.
type kind struct {
	// run does a test from this host.
	run func(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error)
	// preparesItself says that run calls [Request.AwaitCommonStart].
	preparesItself bool

	// planned is the longest that a test sends. It is nil for a kind that needs no
	// server and bounds itself.
	planned func(measurement.Spec) time.Duration
	// openEnded says that a test lasts as long as it moves bytes and its server allows;
	// planned is then the most that any server allows.
	openEnded bool
	// grace is how long after that a test may still deliver results; nil is [grace].
	grace func(measurement.Spec) time.Duration
	// files is how many open files the connections of a test take of the client; nil
	// is none worth counting.
	files func(measurement.Spec) int

	// serve makes the server's end, one for all tests of a server; nil where a server
	// takes no part.
	serve func(serverEnv) testServer
	// demand sets in a cost what the server's end of a whole test takes at most, beside
	// what every test takes.
	demand func(measurement.Spec, *admission.Cost)
	// withoutThreads says that its flows can do without the threads of demand.
	withoutThreads bool
	// atOnce is how many connections of a test a server takes at a time; nil is as many
	// as its flows need.
	atOnce func(measurement.Spec) int
	// sharesFlow says that its control connections all have the same flow number.
	sharesFlow bool
	// rate is the rate of payload that a spec asks for, in bit/s, 0 where it asks for
	// what the path carries. It is nil for a kind that has none.
	rate func(measurement.Spec) float64
	// least is how many bytes of payload the server's end of a test moves in
	// [stillTime], lest it is ended; nil is none.
	least func(measurement.Spec) int64
	// keepAlive says that the server has the kernel ask whether the client is still
	// there; nil is never.
	keepAlive func(measurement.Spec) bool
	// takeThread gives the calling goroutine, which is about to transfer on a
	// connection, what it needs until the returned function is called. It is nil where
	// the connection only waits for the end of the test.
	takeThread func(w *wire, o *opened) (release func(), err error)
}

// serverEnv is what a server gives to the kinds of tests that it serves.
type serverEnv struct {
	// Token, MaxRateBitsPerSecond, MaxDuration, Spin, FTPPorts and Log are those of
	// the server's options.
	Token                string
	MaxRateBitsPerSecond float64
	MaxDuration          time.Duration
	Spin                 bool
	FTPPorts             ftp.Ports
	Log                  *slog.Logger

	// Find is the test in progress to which a cookie from an address belongs, nil if
	// there is none.
	Find func(cookie [protocol.CookieBytes]byte, from netip.Addr) *session
	// Closing says that the server ends.
	Closing func() bool
	// AcceptUDP sends READY, waits for the flow's first UDP packet and connects a
	// socket to where it came from.
	AcceptUDP func(w *wire, o *opened, ready *protocol.Ready) (*sockets.Conn, error)
}

// testServer is the server's end of all tests of one kind. It may also be a
// [testBeginner], a [datagramServer], a [transactionServer] and an [io.Closer].
type testServer interface {
	// serve does one connection's part of a test. It sends READY when it is prepared.
	serve(w *wire, o *opened, ready *protocol.Ready) error
}

// testBeginner keeps something of each test.
type testBeginner interface {
	// begin prepares a test before its first connection is served, and may set its
	// state and cookie. The returned function is called after its last connection.
	begin(t *session) (end func() error)
}

// datagramServer answers packets that come to the server's own UDP port.
type datagramServer interface {
	// answerBytes is how many bytes answer a packet of a test, 0 for none.
	answerBytes(t *session, packet []byte, from netip.AddrPort) int
}

// transactionServer answers connections that are not the control connection of a test.
type transactionServer interface {
	// wrap returns a listener in place of ln, which it takes over or closes: its Accept
	// answers by itself what it can, and returns the other connections.
	wrap(ln net.Listener) (net.Listener, error)
	// serveTransaction answers a transaction whose first byte was read.
	serveTransaction(c *net.TCPConn) error
}

// cost is what the server's end of a whole test takes at most, from its spec alone.
// The spec has passed checkSpec.
func (k kind) cost(spec measurement.Spec) admission.Cost {
	n := int64(connections(spec))
	cost := admission.Cost{admission.Tests: 1, admission.Descriptors: n, admission.Bytes: testBytes + n*flowBytes}
	k.demand(spec, &cost)
	return cost
}

// mostConnections is how many connections of a test a server takes at a time.
func (k kind) mostConnections(spec measurement.Spec) int {
	if k.atOnce == nil {
		return connections(spec)
	}
	return k.atOnce(spec)
}

// askedRate is the rate of payload that a spec asks for, in bit/s, 0 where it asks
// for what the path carries.
func (k kind) askedRate(spec measurement.Spec) float64 {
	if k.rate == nil {
		return 0
	}
	return k.rate(spec)
}

// leastBytes is how many bytes of payload a test moves in [stillTime] at least.
func (k kind) leastBytes(spec measurement.Spec) int64 {
	if k.least == nil {
		return 0
	}
	return k.least(spec)
}
