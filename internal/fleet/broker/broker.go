// Package broker is a NATS server in this process, with nobody in it but the coordinator of
// a fleet and the agents that prove its token, each with the subjects of its own. It is the
// home of nats-server.
package broker

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

const (
	// maxPayload bounds a message, and maxPending what waits in this process for a
	// connection that reads slowly, both in bytes. The coordinator's own connection is one,
	// and may be behind by several of the largest replies.
	maxPayload = 1 << 20
	maxPending = 64 << 20
	// handshakeTime is what a handshake may take: thousands at a time starve each other.
	handshakeTime = 20 * time.Second
	// A connection that is dead is found out after three of these.
	pingEvery   = 13 * time.Second
	pingsMissed = 2
	// spareConnections are for machines that have no place yet, and for the coordinator.
	spareConnections = 100
	// ownSubscriptions are what the coordinator has besides one for each agent.
	ownSubscriptions = 1000
	// maxSeats bounds, in bytes, what is queued for the coordinator in memory (JetStream).
	maxSeats = 256 << 20
	// startTime is how long the server may take to begin.
	startTime = 10 * time.Second
)

// Options of a broker.
type Options struct {
	// Listen is where agents connect; port 0 is one that the system chooses.
	Listen netip.AddrPort
	Secret join.Secret
	// MaxAgents bounds how many are connected at the same time.
	MaxAgents int
}

// Broker is a server at work.
type Broker struct {
	server    *server.Server
	admission *admission
	folder    string
}

// Start opens the port. Close ends the broker.
func Start(o Options) (*Broker, error) {
	// JetStream wants a folder also where it keeps everything in memory.
	folder, err := os.MkdirTemp("", "hopbench-broker-")
	if err != nil {
		return nil, fmt.Errorf("make the broker's folder: %w", err)
	}
	a := newAdmission(o.Secret.File, rand.Text(), o.MaxAgents)
	s, err := server.NewServer(&server.Options{
		ServerName: "hopbench-" + o.Secret.File.Fleet,
		Host:       o.Listen.Addr().String(), Port: cmp.Or(int(o.Listen.Port()), server.RANDOM_PORT), // 0 is its own default there
		NoLog: true, NoSigs: true,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{o.Secret.Certificate}, SessionTicketsDisabled: true,
		},
		TLSHandshakeFirst: true, TLSTimeout: handshakeTime.Seconds(), AuthTimeout: handshakeTime.Seconds(),
		CustomClientAuthentication: a, AlwaysEnableNonce: true,
		// Who reads slowly is not sent away for that, such as a coordinator without a
		// processor, but for what waits for it or for its silence.
		MaxPayload: maxPayload, MaxPending: maxPending, WriteTimeout: server.WriteTimeoutPolicyRetry,
		MaxConn: o.MaxAgents + spareConnections, MaxSubs: 2*o.MaxAgents + ownSubscriptions,
		PingInterval: pingEvery, MaxPingsOut: pingsMissed,
		// Each agent is told of on a subject of its own: a cache of who reads what would only
		// be filled and emptied.
		NoSublistCache: true,
		// Nobody asks for the connections that have ended, of which it would keep 10 000.
		MaxClosedClients: 1,
		JetStream:        true, StoreDir: folder, JetStreamMaxMemory: maxSeats, JetStreamMaxStore: maxSeats,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the broker: %w", err), os.RemoveAll(folder))
	}
	a.listens = s.GlobalAccount().SubscriptionInterest
	b := &Broker{server: s, admission: a, folder: folder}
	// The server tells nobody why it cannot listen: ask before it does.
	if err := probePort(o.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for agents: %w; another program may have the port, choose one with listen: ADDRESS:PORT", err), b.Close())
	}
	s.Start()
	if !s.ReadyForConnections(startTime) {
		return nil, errors.Join(fmt.Errorf("the broker does not listen at %v after %v", o.Listen, startTime), b.Close())
	}
	// Streams in memory put nothing there, and a coordinator that is killed must leave nothing.
	if err := os.RemoveAll(folder); err != nil {
		return nil, errors.Join(fmt.Errorf("remove the broker's folder: %w", err), b.Close())
	}
	return b, nil
}

func probePort(at netip.AddrPort) error {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	return ln.Close()
}

// Addr is where agents connect.
func (b *Broker) Addr() netip.AddrPort {
	at := b.server.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// InProcessConn is a connection of this process to the broker.
func (b *Broker) InProcessConn() (net.Conn, error) { return b.server.InProcessConn() }

// Login is what the coordinator says there.
func (b *Broker) Login() (user, password string) { return coordinatorUser, b.admission.password }

// Expel ends the connections of an agent and admits its key no more.
func (b *Broker) Expel(a subject.Agent) error {
	b.admission.revoke(a.Key)
	found, err := b.server.Connz(&server.ConnzOptions{Username: true, User: a.Key})
	if err != nil {
		return fmt.Errorf("find the connections of %s: %w", a.Name, err)
	}
	for _, c := range found.Conns {
		err = errors.Join(err, b.server.DisconnectClientByID(c.Cid))
	}
	return err
}

// Close ends all connections and the server.
func (b *Broker) Close() error {
	b.server.Shutdown()
	b.server.WaitForShutdown()
	return os.RemoveAll(b.folder)
}
