package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

// kindFleet is the kind of testbed whose machines join.
const kindFleet = "fleet"

// Bounds and defaults of fleets.
const (
	defaultWait      = 5 * time.Minute
	minWait          = time.Second
	maxWait          = 24 * time.Hour
	defaultMaxAgents = 1000
	// A machine gives a sign of life every second, or every few where there are thousands.
	minLease = 3 * time.Second
	maxLease = time.Hour
)

// The drivers of queues.
const (
	driverJetStream  = "jetstream"
	driverAMQP       = "amqp"
	driverServiceBus = "servicebus"
)

// queuePlaces says where the queues of the drivers are.
var queuePlaces = map[string]string{
	driverJetStream: "in the fleet's own broker", driverAMQP: "at an AMQP broker", driverServiceBus: "in Service Bus",
}

func (l *loader) isFleet() bool { return l.file.Kind == kindFleet }

// fleet is where the machines of a fleet join. It checks that the file has nothing that only
// hosts have.
func (l *loader) fleet() *Broker {
	f := l.file
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		if r := strict.Parsed(parseReach, e.Value.Reach); e.Value.Reach != "" && r.Scheme != ReachFleet {
			l.Wrong(&e.Value.Reach, "write fleet://NAME=VALUE, with a label that its machines are started with", "endpoint %q is reached by %s, and the machines of a fleet join by themselves", e.Key, r.Scheme)
		}
	}
	for i := range f.Paths {
		v := &f.Paths[i].Value
		if t := strict.Parsed(parseTarget, v.To); t.address.IsValid() {
			bits := t.address.Addr().BitLen()
			l.Wrong(&v.To, fmt.Sprintf("write the network, as in %v/%d, or one that is larger", t.address.Addr(), bits), "path %q leads to one address, and each destination of a fleet has its own", f.Paths[i].Key)
		}
		for _, other := range []struct {
			key   string
			field any
		}{{"listen", &v.Listen}, {"from", &v.From}, {"set", &v.Set}, {"hops", &v.Hops}} {
			if l.Written(other.field) {
				l.Misplaced(other.field, "leave it out", "path %q has %s:, which paths of a fleet have not", f.Paths[i].Key, other.key)
			}
		}
		if result.PathProof(v.Proof) == result.ProofTraceBack {
			l.Wrong(&v.Proof, "leave it out, or write trace or received_ttl", "path %q is to be traced back, and of a fleet the sources trace", f.Paths[i].Key)
		}
		if v.Expect != nil && v.Expect.Hops > 0 && result.PathProof(v.Proof) == result.ProofTTL {
			l.Wrong(&v.Expect.Hops, "leave it out, or expect a received_ttl", "path %q expects hops, and is not to be traced", f.Paths[i].Key)
		}
	}
	if l.Written(&f.Switches) {
		l.Misplaced(&f.Switches, "leave it out", "a fleet has no switches")
	}
	if l.Written(&f.Hops) {
		l.Misplaced(&f.Hops, "leave it out", "the figures of hops are not read in a fleet")
	}
	if f.Broker == nil {
		l.Wrong(&f.Kind, "add broker: {join_file: fleet.join}", "a fleet needs a broker, where its machines join")
		return &Broker{}
	}
	b := &Broker{
		Listen: strict.Parsed(parseAddress, f.Broker.Listen), JoinFile: l.fileName(&f.Broker.JoinFile),
		Wait: l.between(&f.Broker.Wait, defaultWait, minWait, maxWait), MaxAgents: maxAgents(f.Broker),
	}
	b.URL = strict.Parsed(ParseCluster, f.Broker.URL)
	if l.Written(&f.Broker.CAFile) {
		b.CAFile = l.fileName(&f.Broker.CAFile)
		if b.URL == "" {
			l.Misplaced(&f.Broker.CAFile, "leave it out, or add url: of the cluster", "broker has ca_file:, and no cluster for whose servers it could vouch")
		}
	}
	if b.URL != "" && l.Written(&f.Broker.Listen) {
		l.Misplaced(&f.Broker.Listen, "leave one of them out", "broker has url:, of a cluster, and listen:, of a broker on this machine")
	}
	return b
}

// maxAgents is how many machines a broker admits.
func maxAgents(b *FileBroker) int { return cmp.Or(b.MaxAgents, defaultMaxAgents) }

// queue is the queue of a fleet.
func (l *loader) queue(maxAgents int) Queue {
	f := l.file.Queue
	if f == nil {
		return Queue{Lease: LeaseOf(maxAgents)}
	}
	q := Queue{Lease: l.between(&f.Lease, LeaseOf(maxAgents), minLease, maxLease)}
	driver := f.Driver
	if !l.Written(&f.Driver) {
		driver = driverJetStream
	}
	for _, k := range []struct {
		key   string
		field any
		of    []string // the drivers that have it
	}{
		{"url", &f.URL, []string{driverAMQP}}, {"address", &f.Address, []string{driverAMQP, driverServiceBus}}, {"user", &f.User, []string{driverAMQP}},
		{"password_file", &f.PasswordFile, []string{driverAMQP}}, {"connection_file", &f.ConnectionFile, []string{driverServiceBus}},
	} {
		if l.Written(k.field) && queuePlaces[driver] != "" && !slices.Contains(k.of, driver) {
			l.Misplaced(k.field, "leave it out, or write driver: "+strings.Join(k.of, " or "), "the queue has %s:, and is %s", k.key, queuePlaces[driver])
		}
	}
	switch driver {
	case driverAMQP:
		q.AMQP = l.amqpQueue(f)
	case driverServiceBus:
		if !l.Written(&f.Address) {
			l.Wrong(&f.Driver, "add address: hopbench, the name of a queue without sessions", "the file does not say which queue of Service Bus the queue is")
		}
		if !l.Written(&f.ConnectionFile) {
			l.Wrong(&f.Driver, "add connection_file: ~/.servicebus, a file with a connection string", "the queue is in Service Bus, and the file does not say how that is reached")
		}
		q.ServiceBus = &ServiceBusQueue{Name: string(f.Address), ConnectionFile: l.fileName(&f.ConnectionFile)}
	}
	return q
}

// amqpQueue is a queue at an AMQP broker.
func (l *loader) amqpQueue(f *FileQueue) *AMQPQueue {
	if !l.Written(&f.URL) {
		l.Wrong(&f.Driver, `add url: "amqps://mq:5671"`, "the queue is at an AMQP broker, and the file does not say where that is")
	}
	if !l.Written(&f.Address) {
		l.Wrong(&f.Driver, "add address: /queue/hopbench for RabbitMQ, or address: hopbench for ActiveMQ Artemis", "the file does not say which of its broker's queues the queue is")
	}
	switch user, password := l.Written(&f.User), l.Written(&f.PasswordFile); {
	case user && !password:
		l.Wrong(&f.User, "add password_file: ~/.amqp-password", "user %q of the queue has no password", strict.Clip(string(f.User)))
	case password && !user:
		l.Wrong(&f.PasswordFile, "add user: hopbench", "the queue has a password, and the file does not say whose")
	}
	return &AMQPQueue{URL: strict.Parsed(parseBrokerURL, f.URL), Address: string(f.Address), User: string(f.User), PasswordFile: l.fileName(&f.PasswordFile)}
}

// noFleet checks that a file of hosts has nothing that only fleets have.
func (l *loader) noFleet() {
	f := l.file
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		if strict.Parsed(parseReach, e.Value.Reach).Scheme == ReachFleet {
			l.Wrong(&e.Value.Reach, "write kind: fleet, or local, tls://HOST:PORT, ssh://USER@HOST or serve://HOST:PORT", "endpoint %q is machines of a fleet, and the testbed is none", e.Key)
		}
	}
	for i := range f.Paths {
		v := &f.Paths[i].Value
		if t := strict.Parsed(parseTarget, v.To); t.network.IsValid() {
			l.Wrong(&v.To, "write the destination's address", "path %q leads to a network, and a path between hosts to one address", f.Paths[i].Key)
		}
	}
	if f.Broker != nil {
		l.Misplaced(&f.Broker, "leave it out, or write kind: fleet", "only a fleet has a broker")
	}
	if f.Queue != nil {
		l.Misplaced(&f.Queue, "leave it out, or write kind: fleet", "only a fleet has a queue")
	}
}
