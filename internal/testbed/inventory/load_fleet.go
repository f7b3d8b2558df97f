package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/strict"
)

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

// FileBroker is where the machines of a fleet join.
type FileBroker struct {
	// Address of this machine, with a port if it is not 5203; all its addresses when left
	// out.
	Listen AddressText `json:"listen,omitempty"`
	// Servers of a NATS cluster of yours at which the machines join, separated by commas; a
	// broker in hopbench's own process when left out.
	URL ClusterText `json:"url,omitempty" jsonschema:"example=tls://nats-1:4222"`
	// File with the certificates of who signs those of the cluster's servers; the system's when
	// left out.
	CAFile FileText `json:"ca_file,omitempty" jsonschema:"example=nats-ca.pem"`
	// Name of the file that every machine needs to join, which hopbench makes, and beside
	// which it keeps a key.
	JoinFile FileText `json:"join_file" jsonschema:"example=office.join"`
	// How long a run waits for its machines; 5m when left out.
	Wait strict.TimeText `json:"wait,omitempty" jsonschema:"example=10m"`
	// The most machines that are connected at the same time; 1000 when left out.
	MaxAgents int `json:"max_agents,omitempty" jsonschema:"minimum=2,maximum=100000"`
}

// FileQueue is the queue that feeds the clients of a fleet with servers.
type FileQueue struct {
	// Where it is: in the fleet's own broker (jetstream), at another that speaks AMQP 1.0
	// (amqp), or in Azure Service Bus (servicebus); jetstream when left out.
	Driver string `json:"driver,omitempty" jsonschema:"enum=jetstream,enum=amqp,enum=servicebus"`
	// How long a machine may be silent until its place goes to another; 30s when left out.
	Lease strict.TimeText `json:"lease,omitempty" jsonschema:"example=1m"`
	// With driver amqp: address of its broker, with TLS (amqps) or without (amqp).
	URL BrokerURLText `json:"url,omitempty"`
	// With driver amqp: address of the queue, as its broker writes it; with servicebus: its
	// name. Nobody else uses it.
	Address strict.LineText `json:"address,omitempty" jsonschema:"example=/queue/hopbench"`
	// With driver amqp: name of the user.
	User strict.LineText `json:"user,omitempty" jsonschema:"example=hopbench"`
	// With driver amqp: name of the file that holds the user's password.
	PasswordFile FileText `json:"password_file,omitempty" jsonschema:"example=~/.amqp-password"`
	// With driver servicebus: name of the file that holds a connection string, of a policy
	// that may send and listen.
	ConnectionFile FileText `json:"connection_file,omitempty" jsonschema:"example=~/.servicebus"`
}

// fleet is where the machines of a fleet join, and the queue that feeds its clients.
func (l *loader) fleet(in *Inventory) {
	for i := range l.file.Paths {
		p := &l.file.Paths[i]
		if result.PathProof(p.Value.Proof) == result.ProofTraceBack {
			l.Wrong(&p.Value.Proof, "leave it out, or write trace or received_ttl", "path %q is to be traced back, and of a fleet the sources trace", p.Key)
		}
	}
	in.Broker = l.broker()
	in.Queue = l.queue(in.Broker.MaxAgents)
}

// broker is where the machines of a fleet join.
func (l *loader) broker() *Broker {
	f := l.file
	if f.Broker == nil {
		l.Wrong(&f.Kind, "add broker: {join_file: fleet.join}", "a fleet needs a broker, where its machines join")
		return &Broker{}
	}
	b := &Broker{
		Listen: strict.Parsed(parseAddress, f.Broker.Listen), JoinFile: l.fileName(&f.Broker.JoinFile),
		Wait: l.Between(&f.Broker.Wait, defaultWait, minWait, maxWait), MaxAgents: maxAgents(f.Broker),
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
	q := Queue{Lease: l.Between(&f.Lease, LeaseOf(maxAgents), minLease, maxLease)}
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

// fitsFleet checks that a fleet can do an experiment: that the broker admits the machines of all
// its pairs, and that these serve its tests.
func (l *loader) fitsFleet(e *experiment.Experiment) {
	if e.SpeaksIPerf3() {
		l.Wrong(&l.file.Kind, "leave protocol: iperf3 out of its tests, or measure between hosts", "a test of experiment %s has iperf3's protocol, whose clients prove no token, and the machines of a fleet serve nobody without one", e.Name)
	}
	b := l.file.Broker
	if b == nil {
		return // reported where it was read
	}
	if need := 2 * e.Pairs; need > maxAgents(b) {
		field := any(&b.MaxAgents)
		if !l.Written(field) {
			field = &l.file.Broker
		}
		l.Wrong(field, fmt.Sprintf("write max_agents: %d, and some for spares", need), "experiment %s has %d pairs, which are %d machines, and the broker admits %d", e.Name, e.Pairs, need, maxAgents(b))
	}
}
