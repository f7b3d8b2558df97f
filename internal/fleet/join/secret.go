package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"time"
)

// Secret is what the coordinator of a fleet keeps: the join file, and the broker's key.
type Secret struct {
	File        File
	Certificate tls.Certificate
}

// keySuffix is what the name of the broker's key has in addition to that of the join file.
const keySuffix = ".key"

const keyType = "PRIVATE KEY"

// Open reads the join file of a fleet and the broker's key next to it, or draws both where
// there is neither, for the eyes of the file's owner alone; made says so.
func Open(path, fleet string) (s Secret, made bool, err error) { return open(path, fleet, nil) }

// OpenCluster is Open for a fleet whose broker is a cluster.
func OpenCluster(path, fleet string, c Cluster) (s Secret, made bool, err error) {
	return open(path, fleet, &c)
}

func open(path, fleet string, c *Cluster) (s Secret, made bool, err error) {
	text, err := readFile(path)
	key, keyErr := readFile(path + keySuffix)
	switch missing, keyMissing := errors.Is(err, fs.ErrNotExist), errors.Is(keyErr, fs.ErrNotExist); {
	case missing && keyMissing:
		s, err = create(path, fleet, c)
		return s, err == nil, err
	case missing || keyMissing:
		return s, false, fmt.Errorf("of %s and %[1]s%s one is missing: restore it, or remove the other to create new ones, which all machines need then", path, keySuffix)
	case err != nil || keyErr != nil:
		return s, false, fmt.Errorf("read the join file and its key: %w", errors.Join(err, keyErr))
	}
	if s.File, err = Parse(text); err != nil {
		return s, false, fmt.Errorf("%s: %w", path, err)
	}
	if s.File.Fleet != fleet {
		return s, false, fmt.Errorf("%s is the join file of fleet %s, and this is fleet %s: name another file", path, s.File.Fleet, fleet)
	}
	if was := s.File.Cluster; (was == nil) != (c == nil) || c != nil && *was != *c {
		return s, false, fmt.Errorf("%s was made for another broker, or one whose certificates another authority signed: name that broker (--nats, or url: and ca_file: in the testbed file), or remove it and %[1]s%s to have new ones, which all machines need then", path, keySuffix)
	}
	private, err := parseKey(key)
	if err == nil {
		s.Certificate, err = certify(private)
	}
	if err == nil && digest(s.Certificate.Leaf.RawSubjectPublicKeyInfo) != s.File.BrokerSHA256 {
		err = errors.New("it is another key than that of the join file")
	}
	if err != nil {
		return s, false, fmt.Errorf("%s%s: %w; remove both to have new ones, which all machines need then", path, keySuffix, err)
	}
	return s, false, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

func create(path, fleet string, c *Cluster) (Secret, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Secret{}, fmt.Errorf("draw the broker's key: %w", err)
	}
	if err := c.check(); err != nil {
		return Secret{}, err
	}
	s := Secret{File: File{Format: format, Fleet: fleet, Token: newToken(), Cluster: c}}
	if s.Certificate, err = certify(private); err != nil {
		return s, err
	}
	s.File.BrokerSHA256 = digest(s.Certificate.Leaf.RawSubjectPublicKeyInfo)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return s, fmt.Errorf("write down the broker's key: %w", err)
	}
	text, _ := json.MarshalIndent(s.File, "", "  ") // texts, which JSON has
	if err := writeNew(path+keySuffix, pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der})); err != nil {
		return s, err
	}
	if err := writeNew(path, append(text, '\n')); err != nil {
		return s, errors.Join(err, os.Remove(path+keySuffix))
	}
	return s, nil
}

// Derive is a secret of the fleet's coordinator for a purpose, always the same (HKDF, RFC 5869).
func (s Secret) Derive(purpose string) (out [32]byte, err error) {
	private, ok := s.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return out, errors.New("the fleet has no key of a broker")
	}
	scalar, err := private.ECDH()
	if err != nil {
		return out, fmt.Errorf("read the broker's key: %w", err)
	}
	derived, err := hkdf.Key(sha256.New, scalar.Bytes(), nil, purpose, len(out))
	if err != nil {
		return out, fmt.Errorf("derive a key: %w", err)
	}
	return [32]byte(derived), nil
}

// writeNew makes a file that nobody else may read, and leaves none behind that is not whole.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the join file and its key: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w; is the disk full?", path, err), os.Remove(path))
	}
	return nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyType {
		return nil, errors.New("it is no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("it is no key of a broker")
	}
	return private, nil
}

// certify is a certificate that proves nothing but the key.
func certify(key *ecdsa.PrivateKey) (tls.Certificate, error) {
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
