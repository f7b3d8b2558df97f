package protocol

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// NonceBytes is the length of the random numbers that both ends contribute.
const NonceBytes = 32

// ErrUnauthorized says that the other end does not hold the same token.
var ErrUnauthorized = errors.New("the two ends do not share the same token")

// ErrNoServer says that what took the connection stays silent where a server answers.
var ErrNoServer = errors.New("something took the connection, and does not answer as hopbench serve does; is another program at that port?")

// The labels separate the roles, so that neither end's proof can be reflected
// as the other's, and pin the version.
const (
	clientLabel = "hopbench/1 client proves token"
	serverLabel = "hopbench/1 server proves token"
	cookieLabel = "hopbench/1 cookie of transactions"

	coordinatorLabel = "hopbench/1 coordinator proves token"
	agentLabel       = "hopbench/1 agent proves token"
)

// mac = HMAC-SHA256(token, label ‖ 00 ‖ parts)
func mac(token, label string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(label))
	h.Write([]byte{0})
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// TransactionCookie is the cookie of a crr test, the same at every server that
// holds the token: the first 16 bytes of a MAC of the session.
func TransactionCookie(token, session string) [CookieBytes]byte {
	return [CookieBytes]byte(mac(token, cookieLabel, []byte(session)))
}

// testMAC = mac(token, label, client nonce ‖ server nonce ‖ SHA-256(HELLO payload))
//
// The hash binds the test's identity to the proof.
func testMAC(token, label string, clientNonce, serverNonce, hello []byte) []byte {
	sum := sha256.Sum256(hello)
	return mac(token, label, clientNonce, serverNonce, sum[:])
}

func newNonce() []byte {
	nonce := make([]byte, NonceBytes)
	_, _ = rand.Read(nonce) // documented never to fail
	return nonce
}

// ClientHandshake opens a connection as its client: preface, HELLO with the
// identity id, and the mutual proof of token. The client proves first, so that
// a server gives nobody a MAC to guess the token from.
func ClientHandshake(rw io.ReadWriter, token string, id Identity) error {
	nonce := newNonce()
	hello, err := Encode(TypeHello, Hello{Identity: id, Nonce: nonce})
	if err != nil {
		return err
	}
	if _, err := rw.Write(slices.Concat(preface[:], hello)); err != nil {
		return err
	}
	if err := ReadPreface(rw); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w (%w)", ErrNoServer, err)
		}
		return err
	}
	var challenge Challenge
	if err := Expect(rw, TypeChallenge, MaxUnauthenticated, &challenge); err != nil {
		return err
	}
	payload := hello[HeaderBytes:]
	proof := Proof{MAC: testMAC(token, clientLabel, nonce, challenge.Nonce, payload)}
	if err := WriteFrame(rw, TypeProof, proof); err != nil {
		return err
	}
	var accept Proof
	if err := Expect(rw, TypeAccept, MaxUnauthenticated, &accept); err != nil {
		return err
	}
	if !hmac.Equal(accept.MAC, testMAC(token, serverLabel, nonce, challenge.Nonce, payload)) {
		return fmt.Errorf("server: %w", ErrUnauthorized)
	}
	return nil
}

// ServerHandshake answers ClientHandshake after the client's preface was read.
// When the client's proof is wrong it tells the client so and returns
// ErrUnauthorized.
func ServerHandshake(rw io.ReadWriter, token string) (Identity, error) {
	t, payload, err := ReadFrame(rw, MaxUnauthenticated)
	if err != nil {
		return Identity{}, err
	}
	var hello Hello
	if err := Decode(t, payload, TypeHello, &hello); err != nil {
		return Identity{}, err
	}
	nonce := newNonce()
	challenge, err := Encode(TypeChallenge, Challenge{Nonce: nonce})
	if err != nil {
		return Identity{}, err
	}
	if _, err := rw.Write(slices.Concat(preface[:], challenge)); err != nil {
		return Identity{}, err
	}
	var proof Proof
	if err := Expect(rw, TypeProof, MaxUnauthenticated, &proof); err != nil {
		return Identity{}, err
	}
	if !hmac.Equal(proof.MAC, testMAC(token, clientLabel, hello.Nonce, nonce, payload)) {
		return Identity{}, errors.Join(fmt.Errorf("client: %w", ErrUnauthorized), refuse(rw, "unauthorized", ErrUnauthorized))
	}
	return hello.Identity, WriteFrame(rw, TypeAccept, Proof{MAC: testMAC(token, serverLabel, hello.Nonce, nonce, payload)})
}

// ProveToAgent is the coordinator's part of the mutual proof of token over an
// encrypted channel. Binding is what both ends of that very channel know and nobody
// else does (RFC 9266): an end in between has two channels with different ones. The
// coordinator proves first, so that an agent gives nobody a MAC to guess the token
// from.
func ProveToAgent(rw io.ReadWriter, token string, binding []byte) error {
	if err := WriteFrame(rw, TypeProof, Proof{MAC: mac(token, coordinatorLabel, binding)}); err != nil {
		return err
	}
	var accept Proof
	if err := Expect(rw, TypeAccept, MaxUnauthenticated, &accept); err != nil {
		return err
	}
	if !hmac.Equal(accept.MAC, mac(token, agentLabel, binding)) {
		return fmt.Errorf("agent: %w", ErrUnauthorized)
	}
	return nil
}

// ProveToCoordinator answers ProveToAgent. When the coordinator's proof is wrong it
// tells it so and returns ErrUnauthorized; when admit, which is asked after the proof,
// returns an error, that is what the coordinator is told.
func ProveToCoordinator(rw io.ReadWriter, token string, binding []byte, admit func() error) error {
	var proof Proof
	if err := Expect(rw, TypeProof, MaxUnauthenticated, &proof); err != nil {
		return err
	}
	if !hmac.Equal(proof.MAC, mac(token, coordinatorLabel, binding)) {
		return errors.Join(fmt.Errorf("coordinator: %w", ErrUnauthorized), refuse(rw, "unauthorized", ErrUnauthorized))
	}
	if err := admit(); err != nil {
		return errors.Join(err, refuse(rw, "limit", err))
	}
	return WriteFrame(rw, TypeAccept, Proof{MAC: mac(token, agentLabel, binding)})
}

// refuse tells the other end why the connection ends.
func refuse(w io.Writer, reason string, why error) error {
	return WriteFrame(w, TypeError, &RemoteError{Reason: reason, Message: why.Error()})
}
