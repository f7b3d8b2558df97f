package protocol

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
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

// TransactionCookie is the cookie of a crr test, the same at every server that
// holds the token:
//
//	first 16 bytes of HMAC-SHA256(token, label ‖ 00 ‖ session)
func TransactionCookie(token, session string) (cookie [CookieBytes]byte) {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(cookieLabel))
	h.Write([]byte{0})
	h.Write([]byte(session))
	copy(cookie[:], h.Sum(nil))
	return cookie
}

// mac = HMAC-SHA256(token, label ‖ 00 ‖ client nonce ‖ server nonce ‖ SHA-256(HELLO payload))
//
// The hash binds the test's identity to the proof.
func mac(token, label string, clientNonce, serverNonce, hello []byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write(clientNonce)
	h.Write(serverNonce)
	sum := sha256.Sum256(hello)
	h.Write(sum[:])
	return h.Sum(nil)
}

func newNonce() ([]byte, error) {
	nonce := make([]byte, NonceBytes)
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	return nonce, nil
}

// ClientHandshake opens a connection as its client: preface, HELLO with the
// identity id, and the mutual proof of token. The client proves first, so that
// a server gives nobody a MAC to guess the token from.
func ClientHandshake(rw io.ReadWriter, token string, id Identity) error {
	nonce, err := newNonce()
	if err != nil {
		return err
	}
	hello, err := Encode(TypeHello, Hello{Identity: id, Nonce: nonce})
	if err != nil {
		return err
	}
	if _, err := rw.Write(append(preface[:len(preface):len(preface)], hello...)); err != nil {
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
	proof := Proof{MAC: mac(token, clientLabel, nonce, challenge.Nonce, payload)}
	if err := WriteFrame(rw, TypeProof, proof); err != nil {
		return err
	}
	var accept Proof
	if err := Expect(rw, TypeAccept, MaxUnauthenticated, &accept); err != nil {
		return err
	}
	if !hmac.Equal(accept.MAC, mac(token, serverLabel, nonce, challenge.Nonce, payload)) {
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
	nonce, err := newNonce()
	if err != nil {
		return Identity{}, err
	}
	challenge, err := Encode(TypeChallenge, Challenge{Nonce: nonce})
	if err != nil {
		return Identity{}, err
	}
	if _, err := rw.Write(append(preface[:len(preface):len(preface)], challenge...)); err != nil {
		return Identity{}, err
	}
	var proof Proof
	if err := Expect(rw, TypeProof, MaxUnauthenticated, &proof); err != nil {
		return Identity{}, err
	}
	if !hmac.Equal(proof.MAC, mac(token, clientLabel, hello.Nonce, nonce, payload)) {
		refusal := &RemoteError{Reason: "unauthorized", Message: ErrUnauthorized.Error()}
		return Identity{}, errors.Join(fmt.Errorf("client: %w", ErrUnauthorized), WriteFrame(rw, TypeError, refusal))
	}
	return hello.Identity, WriteFrame(rw, TypeAccept, Proof{MAC: mac(token, serverLabel, hello.Nonce, nonce, payload)})
}

// channelMAC = HMAC-SHA256(token, label ‖ 00 ‖ binding)
func channelMAC(token, label string, binding []byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write(binding)
	return h.Sum(nil)
}

// ProveToAgent is the coordinator's part of the mutual proof of token over an
// encrypted channel. Binding is what both ends of that very channel know and nobody
// else does (RFC 9266): an end in between has two channels with different ones. The
// coordinator proves first, so that an agent gives nobody a MAC to guess the token
// from.
func ProveToAgent(rw io.ReadWriter, token string, binding []byte) error {
	if err := WriteFrame(rw, TypeProof, Proof{MAC: channelMAC(token, coordinatorLabel, binding)}); err != nil {
		return err
	}
	var accept Proof
	if err := Expect(rw, TypeAccept, MaxUnauthenticated, &accept); err != nil {
		return err
	}
	if !hmac.Equal(accept.MAC, channelMAC(token, agentLabel, binding)) {
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
	if !hmac.Equal(proof.MAC, channelMAC(token, coordinatorLabel, binding)) {
		refusal := &RemoteError{Reason: "unauthorized", Message: ErrUnauthorized.Error()}
		return errors.Join(fmt.Errorf("coordinator: %w", ErrUnauthorized), WriteFrame(rw, TypeError, refusal))
	}
	if err := admit(); err != nil {
		return errors.Join(err, WriteFrame(rw, TypeError, &RemoteError{Reason: "limit", Message: err.Error()}))
	}
	return WriteFrame(rw, TypeAccept, Proof{MAC: channelMAC(token, agentLabel, binding)})
}
