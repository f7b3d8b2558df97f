package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
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
// fleet. The context is of the opening alone.
func CoordinateAt(ctx context.Context, at Cluster, o CoordinatorOptions) (*Coordinator, error) {
	c := newCoordinator(o)
	opening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop() // then a connection is made anew whatever becomes of ctx
	dialer := &dialer{ctx: opening, time: connectTime}
	defer dialer.done()
	err := c.connect(at.URLs, nats.Secure(at.File.TLS()), nats.Nkey(at.Key, at.Sign), nats.Timeout(connectTime),
		nats.PingInterval(clusterPing), nats.MaxPingsOutstanding(pingsMissed), nats.SetCustomDialer(dialer))
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, errors.Join(context.Cause(ctx), err)
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("connect to the cluster at %s: it does not know this fleet: add to the configuration of its servers what hopbench testbed join FILE prints", at.URLs)
	case err != nil:
		return nil, fmt.Errorf("connect to the cluster at %s: %w", at.URLs, err)
	}
	err = c.takeFleet(ctx, at)
	switch {
	case ctx.Err() != nil: // which has cut the connection: nothing can be said over it any more
		c.conn.Close()
		<-c.ended
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// takeFleet takes the fleet, and the agents that join.
func (c *Coordinator) takeFleet(ctx context.Context, at Cluster) error {
	err := c.claim(ctx)
	if err != nil {
		return err
	}
	if c.admission, err = at.Admit(c.listens); err != nil {
		return err
	}
	_, err = c.conn.Subscribe(callouts, func(m *nats.Msg) {
		if answer := c.admission.Answer(m.Data); answer != nil {
			_ = m.Respond(answer) // the server refuses after a while who is not answered for
		}
	})
	if err != nil {
		return fmt.Errorf("listen for who wants to enter the cluster: %w", err)
	}
	return c.begin(ctx)
}

// claim takes the fleet, unless another coordinator has it.
func (c *Coordinator) claim(ctx context.Context) error {
	host, _ := os.Hostname() // for people alone
	holds := subject.Coordinator(c.o.Fleet)
	ask := func() (*nats.Msg, error) {
		ctx, cancel := context.WithTimeout(ctx, clusterTime)
		defer cancel()
		return c.conn.RequestWithContext(ctx, holds, nil)
	}
	has, err := ask()
	// One that died with its machine, or with its server of the cluster, is asked until that is found out.
	for began := time.Now(); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && time.Since(began) < c.o.hurry.wait(AwayTime); {
		has, err = ask()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return c.hasOther(has.Data)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("fleet %s has a coordinator, which does not answer: end it if it is stopped or asleep; if it died with its machine or network, try again once the cluster has noticed, in minutes", c.o.Fleet)
	case !errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("ask the cluster who has the fleet: %w", err)
	}
	id := make([]byte, claimID)
	_, _ = rand.Read(id[1:]) // never fails
	mine := &claim{id: id, who: fmt.Appendf(nil, "process %d of %s", os.Getpid(), host)}
	_, err = c.conn.Subscribe(holds, func(m *nats.Msg) {
		if answer := mine.answer(m.Data); answer != nil {
			_ = m.Respond(answer) // it is gone
		}
	})
	if err == nil {
		err = c.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("take the fleet at the cluster: %w", err)
	}
	return c.contend(holds, mine)
}

const (
	// claimID is the length of a claim's number, in bytes, of which the first is 0: no text.
	claimID = 16
	// claimAsks is how often one that claims a fleet asks for others that do, claimPause how long
	// it waits for answers each time: servers of a cluster hear late of who listens at another.
	claimAsks  = 5
	claimPause = 200 * time.Millisecond
)

// claim is what a coordinator answers at its fleet's subject. Of several that claim a fleet at the
// same moment the one of the lowest number gets it. The data of a question is the number of who
// claims the fleet, nothing of who asks whether anybody has it; that of an answer is the number of
// who claims it, or says in words who has it.
type claim struct {
	id, who []byte

	mu     sync.Mutex
	held   bool
	better bool // somebody with a lower number claims it
}

// answer is what a question is answered, nothing of one's own.
func (k *claim) answer(question []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case bytes.Equal(question, k.id):
		return nil
	case k.held || !isClaim(question):
		return k.who
	}
	k.better = k.better || bytes.Compare(question, k.id) < 0
	return k.id
}

func isClaim(b []byte) bool { return len(b) == claimID && b[0] == 0 }

// take has the fleet be held, unless somebody with a lower number claims it.
func (k *claim) take() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = !k.better
	return k.held
}

// contend finds out whether others claim the fleet, too, and which of them gets it.
func (c *Coordinator) contend(holds string, mine *claim) error {
	in, err := c.conn.SubscribeSync(c.conn.NewInbox())
	if err != nil {
		return fmt.Errorf("take the fleet at the cluster: %w", err)
	}
	defer func() { _ = in.Unsubscribe() }()
	for range claimAsks {
		if err := c.conn.PublishRequest(holds, in.Subject, mine.id); err != nil {
			return fmt.Errorf("take the fleet at the cluster: %w", err)
		}
		for until := time.Now().Add(claimPause); ; {
			m, err := in.NextMsg(time.Until(until))
			if errors.Is(err, nats.ErrTimeout) {
				break
			}
			switch {
			case err != nil:
				return fmt.Errorf("ask the cluster who claims the fleet: %w", err)
			case len(m.Data) == 0: // nobody reads that
			case !isClaim(m.Data):
				return c.hasOther(m.Data)
			case bytes.Compare(m.Data, mine.id) < 0:
				return c.hasOther([]byte("which began at the same moment"))
			}
		}
	}
	if !mine.take() {
		return c.hasOther([]byte("which began at the same moment"))
	}
	return nil
}

// hasOther says that another coordinator has the fleet.
func (c *Coordinator) hasOther(who []byte) error {
	return fmt.Errorf("fleet %s has a coordinator, %.*s: end that, or give this fleet another name", c.o.Fleet, maxReason, who)
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
