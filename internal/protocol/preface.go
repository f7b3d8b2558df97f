package protocol

import (
	"bytes"
	"fmt"
	"io"
)

// Version of the native protocol.
const Version = 1

// PrefaceBytes is the length of the preface with which both ends begin:
//
//	f0 'h' 'o' 'p' 'b' 'n' 'c' 01
//
// Its first byte is outside [a-z2-7], the alphabet of the 37-byte cookie with
// which an iperf3 client begins, so that one port can serve both. The last
// byte is the version.
const PrefaceBytes = 8

// PrefaceMagic is the first byte of every native connection.
const PrefaceMagic = 0xf0

// errIPerf3 is what ReadPreface says of an end that answers as an iperf3 server:
// with the state in which it asks for parameters or, when it is busy, denies
// access (iperf_api.h). No client begins with either.
var errIPerf3 = fmt.Errorf("%w: the other end looks like an iperf3 server, which needs --iperf3", ErrMalformed)

const (
	iperf3Parameters = 9    // PARAM_EXCHANGE
	iperf3Denied     = 0xff // ACCESS_DENIED, -1
)

var preface = [PrefaceBytes]byte{PrefaceMagic, 'h', 'o', 'p', 'b', 'n', 'c', Version}

// VersionError says that the other end speaks another version.
type VersionError struct{ Theirs int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the other end speaks version %d of the protocol, this one version %d: use the same hopbench at both ends", e.Theirs, Version)
}

// WritePreface sends this end's preface.
func WritePreface(w io.Writer) error {
	_, err := w.Write(preface[:])
	return err
}

// ReadPreface reads and checks the other end's preface. It fails at the first
// byte that cannot belong to one, without waiting for the rest; that of a
// transaction is ErrTransaction, that of an iperf3 server errIPerf3.
func ReadPreface(r io.Reader) error {
	var b [PrefaceBytes]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return err
	}
	switch b[0] {
	case PrefaceMagic:
	case TransactionMagic:
		return ErrTransaction
	case iperf3Parameters, iperf3Denied:
		return errIPerf3
	default:
		return fmt.Errorf("%w: first byte is %#02x, not a hopbench connection", ErrMalformed, b[0])
	}
	if _, err := io.ReadFull(r, b[1:]); err != nil {
		return err
	}
	if !bytes.Equal(b[:PrefaceBytes-1], preface[:PrefaceBytes-1]) {
		return fmt.Errorf("%w: preface is % x, not that of hopbench", ErrMalformed, b)
	}
	if b[PrefaceBytes-1] != Version {
		return &VersionError{Theirs: int(b[PrefaceBytes-1])}
	}
	return nil
}

// AgentVersion is that of what a coordinator and its agent say to each other.
const AgentVersion = 1
