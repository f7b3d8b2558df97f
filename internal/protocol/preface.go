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
// transaction is ErrTransaction.
func ReadPreface(r io.Reader) error {
	var b [PrefaceBytes]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return err
	}
	if b[0] == TransactionMagic {
		return ErrTransaction
	}
	if b[0] != PrefaceMagic {
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
