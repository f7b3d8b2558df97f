// Package brokertest makes clusters of NATS servers at which fleets join in tests, as an
// administrator would who was told what to add for a fleet.
package brokertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/join"
)

// Place is where a server of a cluster takes clients and the other servers.
type Place struct{ Clients, Routes netip.AddrPort }

// Configure writes what a cluster needs into a folder, with the fleet's join file there, and
// returns the files of its servers' configurations.
func Configure(folder, joinFile, fleet string, places []Place) (join.Secret, []string, error) {
	certificate, key := filepath.Join(folder, "cluster.pem"), filepath.Join(folder, "cluster.key.pem")
	ca, err := vouch(certificate, key, places)
	if err != nil {
		return join.Secret{}, nil, err
	}
	secret, _, err := join.OpenCluster(filepath.Join(folder, joinFile), fleet, join.Cluster{CA: string(ca)})
	if err != nil {
		return secret, nil, err
	}
	own, err := broker.ClusterConfig(secret)
	if err != nil {
		return secret, nil, err
	}
	var routes, files []string
	for _, p := range places {
		routes = append(routes, "nats://"+p.Routes.String())
	}
	for i, p := range places {
		file := filepath.Join(folder, fmt.Sprint("node-", i+1, ".conf"))
		err = errors.Join(err, os.WriteFile(file, fmt.Appendf(nil, `server_name: node-%d
listen: "%v"
cluster { name: theirs, listen: "%v", routes: [ %s ] }
jetstream { store_dir: '%s' }
tls { cert_file: '%s', key_file: '%s' }
%s`, i+1, p.Clients, p.Routes, strings.Join(routes, ", "), filepath.Join(folder, fmt.Sprint("node-", i+1)), certificate, key, own), 0o600))
		files = append(files, file)
	}
	return secret, files, err
}

// URLs are those at which a cluster takes clients, separated by commas.
func URLs(places []Place) string {
	var all []string
	for _, p := range places {
		all = append(all, "tls://"+p.Clients.String())
	}
	return strings.Join(all, ",")
}

// Start starts a server.
func Start(file string) (*server.Server, error) {
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, err
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	return s, nil
}

// vouch makes a certificate for all places that vouches for itself, and its key, as files.
func vouch(certificate, key string, places []Place) ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, p := range places {
		template.IPAddresses = append(template.IPAddresses, net.IP(p.Clients.Addr().AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return ca, errors.Join(os.WriteFile(certificate, ca, 0o600), os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
}
