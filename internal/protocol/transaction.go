package protocol

import (
	"fmt"
	"io"
)

// TransactionMagic is the first byte of a connection that carries one
// transaction of a crr test. Like PrefaceMagic it is outside the alphabet of an
// iperf3 client's cookie.
const TransactionMagic = 0xf1

// TransactionBytes is the length of what comes before the request:
//
//	f1 and the 16-byte cookie of READY
const TransactionBytes = 1 + CookieBytes

// ErrTransaction is what ReadPreface says of a connection that begins with
// TransactionMagic, which it has then read; ReadCookie reads on.
// Anywhere but at a server's port it is a violation of the format.
var ErrTransaction = fmt.Errorf("%w: the connection carries a transaction", ErrMalformed)

// PutTransaction writes the head of a transaction to the first
// TransactionBytes of b.
func PutTransaction(b, cookie []byte) {
	b[0] = TransactionMagic
	copy(b[1:TransactionBytes], cookie)
}

// ParseTransaction returns the cookie in the head of a transaction, if b
// begins with a whole one.
func ParseTransaction(b []byte) (cookie [CookieBytes]byte, ok bool) {
	if len(b) < TransactionBytes || b[0] != TransactionMagic {
		return cookie, false
	}
	return [CookieBytes]byte(b[1:]), true
}

// ReadCookie reads the rest of the head of a transaction.
func ReadCookie(r io.Reader) (cookie [CookieBytes]byte, err error) {
	_, err = io.ReadFull(r, cookie[:])
	return cookie, err
}
