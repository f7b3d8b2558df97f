// Package join is what a machine needs to join a fleet, and what its coordinator keeps for
// that: a token, which admits to the fleet, and the broker's key, by whose digest agents know
// that nobody stands between. Neither needs an authority that signs.
package join

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// format is the version of join files.
const format = "hopbench.join/1"

// DefaultPort is the TCP port of a fleet's broker.
const DefaultPort = 5203

// MaxFileBytes bounds a join file.
const MaxFileBytes = 32 << 10

// tokenBytes is how much of a token is random.
const tokenBytes = 32

// proofLabel keeps a proof from being one of anything else.
const proofLabel = "hopbench/1 join"

// File is a join file: whoever has it may join.
type File struct {
	Format string `json:"format"`
	Fleet  string `json:"fleet"`
	Token  string `json:"token"` // hex
	// BrokerSHA256 is the digest of the broker's public key (SubjectPublicKeyInfo of
	// RFC 5280), hex.
	BrokerSHA256 string `json:"broker_sha256"`
	// Cluster is there where the broker is a NATS cluster, whose servers have keys of their own.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// ClusterPort is the TCP port of the servers of a NATS cluster.
const ClusterPort = 4222

// Cluster is a NATS cluster at which a fleet joins.
type Cluster struct {
	// CA are the certificates, as PEM, of who signs those of its servers; the system's if empty.
	CA string `json:"ca,omitempty"`
}

// check says why nobody can be verified.
func (c *Cluster) check() error {
	if c == nil || c.CA == "" {
		return nil
	}
	if len(c.CA) > MaxFileBytes/2 || !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CA)) {
		return fmt.Errorf("the cluster's CA is no certificate (PEM) of at most %d bytes", MaxFileBytes/2)
	}
	return nil
}

// Parse reads a join file. Errors say what to do.
func Parse(text []byte) (File, error) {
	var f File
	if len(text) > MaxFileBytes {
		return f, fmt.Errorf("a join file has at most %d bytes, and this has more: give the file that the coordinator wrote", MaxFileBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&f)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			err = nil
		} else {
			err = errors.New("something follows the document")
		}
	}
	switch {
	case err != nil:
		return File{}, fmt.Errorf("it is no join file (%w): give the file that the coordinator wrote", err)
	case f.Format != format:
		return File{}, fmt.Errorf("it has format %.40q, and this hopbench reads %s: use the same hopbench at both ends", f.Format, format)
	}
	if err := subject.CheckName(f.Fleet); err != nil {
		return File{}, fmt.Errorf("fleet: %w", err)
	}
	if err := f.Cluster.check(); err != nil {
		return File{}, err
	}
	for _, field := range []struct{ name, text string }{{"token", f.Token}, {"broker_sha256", f.BrokerSHA256}} {
		if raw, err := hex.DecodeString(field.text); err != nil || len(raw) != tokenBytes {
			return File{}, fmt.Errorf("its %s is not %d hexadecimal digits: copy the file as a whole", field.name, 2*tokenBytes)
		}
	}
	return f, nil
}

// Proof is what an agent says to be admitted under a name with a key (an nkey's public
// half), in hex:
//
//	HMAC-SHA256(token, label ‖ 00 ‖ fleet ‖ 00 ‖ name ‖ 00 ‖ key)
//
// Nobody can do anything with it who does not have that key.
func (f File) Proof(name, key string) string {
	h := hmac.New(sha256.New, []byte(f.Token))
	for i, part := range []string{proofLabel, f.Fleet, name, key} {
		if i > 0 {
			h.Write([]byte{0})
		}
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Proves says whether somebody who says that proof has the token.
func (f File) Proves(name, key, proof string) bool {
	return hmac.Equal([]byte(f.Proof(name, key)), []byte(proof))
}

// errOtherBroker says that what answers does not have the key that the join file names.
var errOtherBroker = errors.New("what answers there is not the broker of the join file: the file belongs to another fleet or is outdated, or there is a man in the middle")

// TLS is how agents connect: to the broker of the join file and nobody else, or to a server of
// its cluster, which an authority vouches for.
func (f File) TLS() *tls.Config {
	if f.Cluster != nil {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if f.Cluster.CA != "" {
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM([]byte(f.Cluster.CA))
		}
		return config
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Alone, without ML-KEM: half of the work of a handshake, of which thousands come
		// at a time, and what is said is not worth keeping for a quantum computer.
		CurvePreferences: []tls.CurveID{tls.X25519},
		// The digest says who is there, and nothing else.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !hmac.Equal([]byte(digest(state.PeerCertificates[0].RawSubjectPublicKeyInfo)), []byte(f.BrokerSHA256)) {
				return errOtherBroker
			}
			return nil
		},
	}
}

func digest(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
}

func newToken() string {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
