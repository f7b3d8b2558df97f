package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/hopbench/hopbench/internal/protocol"
)

// Reason is why a test gave no outcome, in one word that programs may rely on.
type Reason string

// The reasons.
const (
	Refused      Reason = "refused"      // nothing listens there, or a firewall answered
	Unreachable  Reason = "unreachable"  // no route, or a router forbids it
	Vanished     Reason = "vanished"     // the other end closed or reset the connection
	TimedOut     Reason = "timeout"      // the other end did not answer in time
	Protocol     Reason = "protocol"     // the other end does not speak this protocol
	Unauthorized Reason = "unauthorized" // the tokens differ
	Limit        Reason = "limit"        // the server's own limits forbid it
	Unsupported  Reason = "unsupported"  // this host or the other one cannot do it
	Local        Reason = "local"        // this host lacks an address, a port, a descriptor or memory, or its agent ended
	Cancelled    Reason = "cancelled"    // the caller ended it
	Failed       Reason = "failed"       // anything else; Err says what
)

// Error is the error of every test that gave no outcome.
type Error struct {
	Op     string // what was tried
	Reason Reason
	Err    error
	// Further says that the test had a connection before, and lacked one more: there is
	// a server, but something, such as a limit of a firewall, allows no more of them.
	Further bool
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Op, e.Reason, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// OfPath says that the path between the two ends, or what is on it, is why a test
// gave no outcome, as far as the ends can tell; else it was one of the ends, or it is
// not known.
func (r Reason) OfPath() bool {
	switch r {
	case Refused, Unreachable, Vanished, TimedOut:
		return true
	}
	return false
}

// Transient says that one of the ends is why a test gave no outcome, and that the next test
// may have one.
func (r Reason) Transient() bool { return r == Protocol || r == Local }

// ErrSilent is the cause of a timeout that no system call reported. To errors.Is it is
// also [os.ErrDeadlineExceeded], of which a user only reads "i/o timeout".
var ErrSilent error = silence{}

type silence struct{}

func (silence) Error() string { return "the other end stopped answering" }

func (silence) Is(target error) bool { return target == os.ErrDeadlineExceeded } //nolint:errorlint // as errors.Is does

// Wrap wraps err as an *Error of the operation op, unless it is one already.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if known := new(Error); errors.As(err, &known) {
		return err
	}
	return &Error{Op: op, Reason: ReasonOf(err), Err: err}
}

// Further is the error of a connection that a test opens when it has one already.
func Further(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Reason: ReasonOf(err), Err: err, Further: true}
	if known, ok := err.(*Error); ok { //nolint:errorlint // whose reason is not to be said twice
		e.Err = known.Err
	}
	return e
}

// OfFlow is Further of a flow's connection, counted from 0.
func OfFlow(flow, flows int, err error) error {
	return Further(fmt.Sprintf("open flow %d of %d", flow+1, flows), err)
}

// ReasonOf is the reason that an error of a test has, or would have.
func ReasonOf(err error) Reason {
	var known *Error
	var remote *protocol.RemoteError
	var version *protocol.VersionError
	var network net.Error
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &known):
		return known.Reason
	case errors.As(err, &remote):
		switch r := Reason(remote.Reason); r {
		case Unauthorized, Limit, Protocol, TimedOut, Unsupported, Unreachable, Vanished, Local:
			return r
		}
		return Failed
	case is(protocol.ErrUnauthorized):
		return Unauthorized
	case is(protocol.ErrMalformed), errors.As(err, &version):
		return Protocol
	case is(context.Canceled):
		return Cancelled
	case is(syscall.ECONNREFUSED):
		return Refused
	case is(syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM):
		return Local
	case is(syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.EACCES): // EACCES is ICMPv6's "administratively prohibited"
		return Unreachable
	case is(context.DeadlineExceeded, os.ErrDeadlineExceeded, syscall.ETIMEDOUT, ErrSilent):
		return TimedOut
	case is(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, net.ErrClosed):
		return Vanished
	case errors.As(err, &network) && network.Timeout():
		return TimedOut
	}
	return Failed
}
