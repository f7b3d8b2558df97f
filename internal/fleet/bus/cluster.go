package bus

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// Cluster is a NATS cluster of somebody else's, at which a fleet joins.
type Cluster struct {
	// URLs are those of its servers, separated by commas.
	URLs string
	File join.File
	// Key is the coordinator's there, with which Sign signs.
	Key  string
	Sign func([]byte) ([]byte, error)
	// Admit makes what says who may enter, once it can be known whether somebody reads the
	// subject of an agent.
	Admit func(listens func(command string) bool) (Admission, error)
}

// Admission says who may enter a cluster.
type Admission interface {
	// Answer is what a server of the cluster is told that asks whether a connection may
	// enter, nothing if it does not ask that.
	Answer(question []byte) []byte
	// Noted says that an agent is there, and Admits whether it may be.
	Noted(subject.Agent)
	Admits(subject.Agent) bool
}

const (
	// callouts is where the servers of a cluster ask who may enter (nats-server's
	// AuthCalloutSubject).
	callouts = "$SYS.REQ.USER.AUTH"
	// clusterTime is what a cluster may take to answer.
	clusterTime = 5 * time.Second
	// clusterPing is pingEvery of a cluster's servers: one whose machine or network has died is
	// found out after three of these, and there is time to go on at another before leases end.
	clusterPing = 4 * time.Second
)

// CoordinateAt is Coordinate at a cluster. It refuses to where another coordinator has the
// fleet.
func CoordinateAt(at Cluster, o CoordinatorOptions) (*Coordinator, error) {
	c := newCoordinator(o)
	err := c.connect(at.URLs, nats.Secure(at.File.TLS()), nats.Nkey(at.Key, at.Sign), nats.Timeout(connectTime),
		nats.PingInterval(clusterPing), nats.MaxPingsOutstanding(pingsMissed))
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("connect to the cluster at %s: it does not know this fleet: add to the configuration of its servers what hopbench testbed join FILE prints", at.URLs)
	case err != nil:
		return nil, fmt.Errorf("connect to the cluster at %s: %w", at.URLs, err)
	}
	if err := c.claim(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.admission, err = at.Admit(c.listens); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	_, err = c.conn.Subscribe(callouts, func(m *nats.Msg) {
		if answer := c.admission.Answer(m.Data); answer != nil {
			_ = m.Respond(answer) // the server refuses after a while who is not answered for
		}
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for who wants to enter the cluster: %w", err), c.Close())
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c, nil
}

// claim takes the fleet, unless another coordinator has it.
func (c *Coordinator) claim() error {
	host, _ := os.Hostname() // for people alone
	holds := subject.Coordinator(c.o.Fleet)
	has, err := c.conn.Request(holds, nil, clusterTime)
	// One that died with its machine, or with its server of the cluster, is asked until that is found out.
	for began := time.Now(); errors.Is(err, nats.ErrTimeout) && time.Since(began) < AwayTime; {
		has, err = c.conn.Request(holds, nil, clusterTime)
	}
	switch {
	case err == nil:
		return fmt.Errorf("fleet %s has a coordinator, %.*s: end that, or give this fleet another name", c.o.Fleet, maxReason, has.Data)
	case !errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("ask the cluster who has the fleet: %w", err)
	}
	_, err = c.conn.Subscribe(holds, func(m *nats.Msg) {
		_ = m.Respond(fmt.Appendf(nil, "process %d of %s", os.Getpid(), host)) // it is gone
	})
	if err != nil {
		return fmt.Errorf("take the fleet at the cluster: %w", err)
	}
	return nil
}

// listens says whether an agent, by the subject that it reads, is there; true where that cannot
// be known. That of a machine that has died with its network is read, if one asks the cluster,
// for minutes: of who was not heard of for a lease nobody is asked.
func (c *Coordinator) listens(command string) bool {
	who, err := subject.WhoReads(command)
	return err != nil || c.heard(who) && c.isRead(command)
}

// heard says whether an agent is at work, or said within a lease that it is there.
func (c *Coordinator) heard(who subject.Agent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.works[who.Name]
	return w != nil && w.key == who.Key || time.Since(c.asked[who.Key].since) < c.o.hurry.wait(AwayTime)
}

// isRead says whether somebody reads a subject of an agent, true where that cannot be known.
func (c *Coordinator) isRead(of string) bool {
	in, err := c.conn.SubscribeSync(c.conn.NewInbox())
	if err != nil {
		return true
	}
	defer func() { _ = in.Unsubscribe() }()
	// What has no session is passed over by who reads it. If nobody does, the server says so
	// before it gives the second message.
	nothing := message{kind: kindAccept}.bytes()
	if c.conn.PublishRequest(of, in.Subject, nothing) != nil || c.conn.Publish(in.Subject, nothing) != nil {
		return true
	}
	m, err := in.NextMsg(clusterTime)
	return err != nil || !nobodyReads(m)
}

// admits says whether an agent may be here: one that was expelled keeps its connection to a
// cluster.
func (c *Coordinator) admits(who subject.Agent) bool {
	if c.admission == nil {
		return true
	}
	if !c.admission.Admits(who) {
		return false
	}
	c.admission.Noted(who)
	return true
}
