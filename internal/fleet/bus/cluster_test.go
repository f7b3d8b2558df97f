package bus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
)

// theirs is a cluster of three servers of somebody else's, at which a fleet may join.
type theirs struct {
	secret  join.Secret
	urls    string
	servers []*server.Server
	callout *broker.Callout
}

// vouch makes a certificate for this machine that vouches for itself, and its key, as files.
func vouch(t testing.TB, folder string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	testutil.OK(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	testutil.OK(t, err)
	certificate, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	testutil.OK(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	testutil.OK(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return certificate, key
}

// startTheirs starts a cluster with what its administrator is told to add for a fleet.
func startTheirs(t testing.TB) *theirs {
	t.Helper()
	folder := t.TempDir()
	certificate, key := vouch(t, folder)
	ca, err := os.ReadFile(certificate)
	testutil.OK(t, err)
	c := &theirs{}
	c.secret, _, err = join.OpenCluster(filepath.Join(folder, "fw.join"), fleet, join.Cluster{CA: string(ca)})
	testutil.OK(t, err)
	own, err := broker.ClusterConfig(c.secret)
	testutil.OK(t, err)
	first, err := testutil.FreePorts(6)
	testutil.OK(t, err)
	var urls, routes []string
	for i := range 3 {
		urls = append(urls, fmt.Sprintf("tls://127.0.0.1:%d", int(first)+i))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", int(first)+3+i))
	}
	c.urls = strings.Join(urls, ",")
	for i := range 3 {
		file := filepath.Join(folder, fmt.Sprint("node-", i, ".conf"))
		testutil.OK(t, os.WriteFile(file, fmt.Appendf(nil, `server_name: node-%d
listen: "127.0.0.1:%d"
cluster { name: theirs, listen: "127.0.0.1:%d", routes: [ %s ] }
jetstream { store_dir: '%s' }
tls { cert_file: '%s', key_file: '%s' }
%s`, i, int(first)+i, int(first)+3+i, strings.Join(routes, ", "), filepath.Join(folder, fmt.Sprint(i)), certificate, key, own), 0o600))
		o, err := server.ProcessConfigFile(file)
		testutil.OK(t, err)
		o.NoSigs, o.NoLog = true, true
		s, err := server.NewServer(o)
		testutil.OK(t, err)
		s.Start()
		c.servers = append(c.servers, s)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Shutdown()
			s.WaitForShutdown()
		}
	})
	for _, s := range c.servers {
		for s.NumRoutes() == 0 || !s.ReadyForConnections(time.Second) {
			if t.Context().Err() != nil {
				t.Fatal("the servers found no others")
			}
			time.Sleep(time.Millisecond)
		}
	}
	return c
}

// coordinate takes agents at the cluster.
func (c *theirs) coordinate(o bus.CoordinatorOptions) (*bus.Coordinator, error) {
	key, sign, err := broker.ClusterLogin(c.secret)
	if err != nil {
		return nil, err
	}
	return bus.CoordinateAt(bus.Cluster{
		URLs: c.urls, File: c.secret.File, Key: key, Sign: sign,
		Admit: func(listens func(string) bool) (_ bus.Admission, err error) {
			c.callout, err = broker.NewCallout(c.secret, 16, listens)
			return c.callout, err
		},
	}, o)
}

// agent are the options of one that joins at the cluster.
func (c *theirs) agent(name string, links chan<- io.ReadWriteCloser) bus.AgentOptions {
	o := (&yard{secret: c.secret}).optionsAt(strings.ReplaceAll(c.urls, "tls://", ""), name, links)
	o.Hurry()
	return o
}

// Agents join at a cluster of somebody else's as they do at the broker of the coordinator:
// with the token and nothing else, under names of their own, and only while a coordinator
// admits them. What is under way goes on when a server is killed.
func TestCluster(t *testing.T) {
	c := startTheirs(t)
	arrived := make(chan bus.Arrival, 16)
	o := bus.CoordinatorOptions{Fleet: fleet, OnArrival: func(a bus.Arrival) { arrived <- a }, OnRefused: func(who subject.Agent, err error) { t.Error(who.Name, err) }}
	o.Hurry()

	// Nobody admits anybody yet: an agent waits, and is let in once somebody does.
	early := c.agent("vm-0", nil)
	early.Serve = answers
	states := make(chan error, 64)
	early.OnState = func(s bus.State, err error) {
		if s == bus.Away {
			states <- err
		}
	}
	start(t, early)
	if err := take(t, states); err == nil || !strings.Contains(err.Error(), "to admit") {
		t.Error(err)
	}
	first, err := c.coordinate(o)
	testutil.OK(t, err)
	links := map[string]io.ReadWriteCloser{}
	for range 2 {
		if len(links) == 1 {
			late := c.agent("vm-1", nil)
			late.Serve = answers
			start(t, late)
		}
		a := take(t, arrived)
		links[a.Name] = a.Link
	}

	// Only one coordinator has a fleet.
	if _, err := c.coordinate(o); err == nil || !strings.Contains(err.Error(), "fleet fw has a coordinator, process ") {
		t.Error(err)
	}

	// What an agent may, and may not, is as at the embedded broker.
	eve, err := c.enter(t, "eve")
	testutil.OK(t, err)
	for _, subject := range []string{"hopbench.>", "$SYS.>", "_INBOX.>", ">", "$JS.>", "hopbench.fw.agent.*.*.command"} {
		_, err := eve.SubscribeSync(subject)
		testutil.OK(t, err)
		testutil.OK(t, eve.Flush())
		if err := take(t, eve.denied); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribe to %s: %v", subject, err)
		}
	}
	for _, subject := range []string{"$SYS.REQ.USER.AUTH", "hopbench.fw.coordinator", "$JS.API.INFO", eve.Command(), "_INBOX.x"} {
		testutil.OK(t, eve.Publish(subject, []byte("x")))
		testutil.OK(t, eve.Flush())
		if err := take(t, eve.denied); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publish to %s: %v", subject, err)
		}
	}
	if _, err := c.enter(t, "mallory", nats.UserInfo("mallory", "no proof")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: %v", err)
	}
	second, err := c.enter(t, "vm-0") // the name of another
	testutil.OK(t, err)
	_, err = second.SubscribeSync(second.Command())
	testutil.OK(t, err)
	testutil.OK(t, second.Flush())
	if err := take(t, second.denied); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("another machine's name: %v", err)
	}

	// One of three servers is killed.
	done := make(chan error, len(links))
	for _, link := range links {
		go func() { done <- ask(link, 2000) }()
	}
	killed := c.servers[busiest(t, c.servers)]
	killed.Shutdown()
	killed.WaitForShutdown()
	for range links {
		testutil.OK(t, take(t, done))
	}

	// An agent that was expelled is heard no more, and does not come back.
	bad := c.agent("vm-2", nil)
	bad.Serve = answers
	start(t, bad)
	expelled := take(t, arrived)
	testutil.OK(t, c.callout.Expel(expelled.Agent))
	testutil.OK(t, expelled.Link.Close())
	again := c.agent("vm-3", nil)
	again.Serve = answers
	start(t, again)
	if a := take(t, arrived); a.Name != "vm-3" {
		t.Errorf("%s arrived", a.Name)
	}
	testutil.OK(t, first.Close())
}

// busiest is the server with most connections.
func busiest(t testing.TB, all []*server.Server) (most int) {
	t.Helper()
	for i, s := range all {
		if s.NumClients() > all[most].NumClients() {
			most = i
		}
	}
	return most
}

// enter connects with what an agent of that name says, changed by options.
func (c *theirs) enter(t testing.TB, name string, change ...nats.Option) (*stranger, error) {
	t.Helper()
	return enterAt(t, c.urls, c.secret.File, name, change...)
}
