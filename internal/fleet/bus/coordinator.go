// Package bus is what coordinator and agents of a fleet say to each other over NATS: how an
// agent joins, and a link, which is a connection like any other to those who use it. It is
// the home of nats.go.
package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hopbench/hopbench/internal/fleet/resume"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// Broker is where a coordinator connects without a network.
type Broker interface {
	InProcessConn() (net.Conn, error)
	Login() (user, password string)
}

// Arrival is an agent that joined.
type Arrival struct {
	subject.Agent
	Hello
	// Link is the connection to it, which the taker has to close. It goes on when the agent has
	// lost its connection to the broker and comes back in time.
	Link io.ReadWriteCloser
}

// CoordinatorOptions are those of a coordinator.
type CoordinatorOptions struct {
	Fleet string
	// OnArrival takes each agent that joins; it must not wait.
	OnArrival func(Arrival)
	// OnReturn hears of each agent whose connection had ended and that goes on with its work; it
	// must not wait. May be nil.
	OnReturn func(subject.Agent)
	// OnRefused hears of each agent that joins in vain, and why: ErrFlood of one that keeps
	// others from joining. May be nil.
	OnRefused func(subject.Agent, error)
	// OnDisconnect hears of the end of the connection to the broker, which is made anew.
	// May be nil.
	OnDisconnect func(error)

	hurry hurry
}

// Coordinator is the coordinator's connection to the broker.
type Coordinator struct {
	o     CoordinatorOptions
	conn  *nats.Conn
	ended chan struct{} // once the library calls nobody any more

	admission Admission // of a cluster, nil of a broker of this process

	mu     sync.Mutex
	works  map[string]*work     // by the agent's name
	joined map[string]time.Time // when sessions began, by the agent's key
	asked  map[string]asked     // how often agents say that they are there, by their keys

	eventsMu sync.Mutex        // apart from mu: every event takes it
	inboxes  map[string]*inbox // of sessions, by the agents' events
}

// work is the stream of an agent, which its sessions carry one after the other.
type work struct {
	stream   *resume.Stream
	key      string   // of the agent
	name     uint64   // the session with which it began
	session  uint64   // that carries it, or did last
	accepted accepted // what was said when that began
}

// Coordinate connects to a broker of this process, and takes the agents that join from then on.
func Coordinate(b Broker, o CoordinatorOptions) (*Coordinator, error) {
	user, password := b.Login()
	c := newCoordinator(o)
	if err := c.connect(nats.DefaultURL, nats.InProcessServer(b), nats.UserInfo(user, password)); err != nil {
		return nil, fmt.Errorf("connect to the broker of this process: %w", err)
	}
	if err := c.begin(context.Background()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newCoordinator(o CoordinatorOptions) *Coordinator {
	return &Coordinator{o: o, works: map[string]*work{}, joined: map[string]time.Time{}, asked: map[string]asked{}, inboxes: map[string]*inbox{}, ended: make(chan struct{})}
}

func (c *Coordinator) connect(urls string, own ...nats.Option) (err error) {
	c.conn, err = nats.Connect(urls, append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(0, 0),
		nats.DisconnectErrHandler(c.disconnected),
		nats.ErrorHandler(ignore), nats.ClosedHandler(c.closed),
	}, own...)...)
	return err
}

// begin takes the agents that join.
func (c *Coordinator) begin(ctx context.Context) error {
	joins, err := c.conn.Subscribe(subject.Joins(c.o.Fleet), c.join)
	if err == nil {
		err = joins.SetPendingLimits(maxJoins, maxJoins*maxHello)
	}
	if err == nil {
		// One for all agents: each of thousands would take 3.3 KiB of the heap, at both ends.
		// What is beyond the library's bounds is lost: links that miss it begin anew.
		_, err = c.conn.Subscribe(subject.Events(c.o.Fleet), c.event)
	}
	if err == nil {
		err = c.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("listen for agents that join: %w", err)
	}
	return nil
}

// flush waits until the broker has all that was said.
func (c *Coordinator) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*clusterTime)
	defer cancel()
	return c.conn.FlushWithContext(ctx)
}

// reconnectPause is how long it is waited before the connection to the broker is made anew.
// A link of which something was lost meanwhile finds that out, and its agent joins again.
const reconnectPause = 100 * time.Millisecond

func (c *Coordinator) disconnected(_ *nats.Conn, err error) {
	if err != nil && c.o.OnDisconnect != nil {
		c.o.OnDisconnect(err)
	}
}

// closed ends what reads from a connection to the broker that is not made anew.
func (c *Coordinator) closed(*nats.Conn) {
	c.eventsMu.Lock()
	for _, in := range c.inboxes {
		in.end(nats.ErrConnectionClosed)
	}
	c.eventsMu.Unlock()
	close(c.ended)
}

// maxJoins bounds how many agents wait to be taken; what is lost is said again.
const maxJoins = 65536

// ignore has the library say nothing: a link that falls behind finds out itself.
func ignore(*nats.Conn, *nats.Subscription, error) {}

// join takes an agent that says that it is there. Until it hears an answer it says so
// again and again.
func (c *Coordinator) join(raw *nats.Msg) {
	who, err := subject.WhoJoins(raw.Subject)
	if err != nil {
		return // the broker lets nobody write there
	}
	if c.floods(who) {
		return
	}
	if !c.admits(who) {
		return
	}
	m, err := parseMessage(raw.Data)
	if err != nil || m.kind != kindJoin {
		c.refuse(who, m.session, fmt.Errorf("%w: it does not say how it joins", errMalformed))
		return
	}
	hello, err := parseHello(m.data)
	if err == nil && hello.Link != linkVersion {
		err = fmt.Errorf("the agent is hopbench %.40s, version %d of the fleet's protocol, and its coordinator has version %d: use the same hopbench at both ends", hello.Version, hello.Link, linkVersion)
	}
	if err != nil {
		c.refuse(who, m.session, err)
		return
	}
	c.mu.Lock()
	w := c.works[who.Name]
	c.mu.Unlock()
	if w != nil && w.key == who.Key && w.session == m.session {
		c.accept(who, w)
		return
	}
	if !c.inTurn(who.Key) {
		return
	}
	anew := errors.New("it connected to the broker anew")
	goesOn := w != nil && w.key == who.Key && w.name == hello.Stream && w.stream.Err() == nil
	if !goesOn {
		if w != nil {
			w.stream.End(anew)
		}
		w, hello.Read = c.work(who, m.session), 0
	}
	w.session, w.accepted = m.session, accepted{goesOn, w.stream.Detach(anew)}
	l := c.open(who, w)
	if l == nil {
		w.stream.End(errors.New("the connection to the broker has ended"))
		return
	}
	switch _, err := w.stream.Attach(l, hello.Read); {
	case err != nil:
	case !goesOn:
		c.o.OnArrival(Arrival{Agent: who, Hello: hello, Link: w.stream})
	case c.o.OnReturn != nil:
		c.o.OnReturn(who)
	}
}

// work makes the stream of an agent.
func (c *Coordinator) work(who subject.Agent, name uint64) *work {
	w := &work{key: who.Key, name: name}
	w.stream = resume.New(resume.Options{
		Away: AwayTime, Final: func(err error) bool { return errors.Is(err, ErrFlood) },
		OnOver: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.works[who.Name] == w {
				delete(c.works, who.Name)
			}
		},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works[who.Name] = w
	return w
}

// accept tells an agent that its session begins.
func (c *Coordinator) accept(who subject.Agent, w *work) {
	c.answer(who, message{kind: kindAccept, session: w.session, data: w.accepted.bytes()})
}

// AwayTime is how long an agent may be away from the broker, with its work going on at both
// ends: as long as its lease.
const AwayTime = 30 * time.Second

// asked is how often an agent has said that it is there, within a joinPause.
type asked struct {
	since time.Time
	times int
}

// maxAsked is more than any agent says in a joinPause, also where what it said in half an hour
// is heard at once.
const maxAsked = 1000

// floods says whether an agent says so often that it is there that others are not heard, and
// tells that once.
func (c *Coordinator) floods(who subject.Agent) bool {
	c.mu.Lock()
	now, a := time.Now(), c.asked[who.Key]
	if now.Sub(a.since) >= joinPause {
		a = asked{since: now}
	}
	a.times++
	if len(c.asked) > maxJoins {
		clear(c.asked)
	}
	c.asked[who.Key] = a
	c.mu.Unlock()
	if a.times == maxAsked && c.o.OnRefused != nil {
		c.o.OnRefused(who, ErrFlood)
	}
	return a.times >= maxAsked
}

// joinPause is the shortest time between two sessions of an agent: one that asks for more
// must not keep the others waiting.
const joinPause = time.Second

// inTurn says whether an agent may have another session now.
func (c *Coordinator) inTurn(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last, again := c.joined[key]; again && now.Sub(last) < c.o.hurry.wait(joinPause) {
		return false
	}
	if len(c.joined) > maxJoins {
		clear(c.joined)
	}
	c.joined[key] = now
	return true
}

// open begins a session of an agent, nil where the connection to the broker has ended.
func (c *Coordinator) open(who subject.Agent, w *work) *link {
	in := newInbox()
	l := newLink(c.conn, in, who.Command(), who.Event(), w.session, func() {
		c.eventsMu.Lock()
		defer c.eventsMu.Unlock()
		if c.inboxes[who.Event()] == in {
			delete(c.inboxes, who.Event())
		}
	})
	c.eventsMu.Lock()
	c.inboxes[who.Event()] = in
	c.eventsMu.Unlock()
	if c.conn.IsClosed() { // which closed may not have told this one
		_ = l.Close()
		return nil
	}
	// After there is an inbox: the agent's first word is heard.
	c.accept(who, w)
	return l
}

// event gives what an agent says to the session that reads it. What the agent says outside of
// one nobody hears.
func (c *Coordinator) event(raw *nats.Msg) {
	c.eventsMu.Lock()
	in := c.inboxes[raw.Subject]
	c.eventsMu.Unlock()
	if in != nil {
		in.put(raw)
	}
}

func (c *Coordinator) refuse(who subject.Agent, session uint64, why error) {
	c.answer(who, message{kind: kindRefuse, session: session, data: []byte(why.Error())})
	if c.o.OnRefused != nil {
		c.o.OnRefused(who, why)
	}
}

// answer tells an agent something outside the order of its link. Whether it gets there
// changes nothing: it asks again.
func (c *Coordinator) answer(who subject.Agent, m message) {
	_ = c.conn.Publish(who.Command(), m.bytes())
}

// Seats is the queue of a run's seats at the coordinator's broker: of a cluster, with three
// replicas. One of which no three servers are known may have fewer, or be behind one address.
func (c *Coordinator) Seats(ctx context.Context, o SeatOptions) (*SeatQueue, error) {
	js, err := jetstream.New(c.conn)
	if err != nil {
		return nil, fmt.Errorf("speak to JetStream: %w", err)
	}
	const enough = 3
	all := len(c.conn.Servers()) >= enough
	clustered := all || c.conn.ConnectedClusterName() != ""
	if o.Replicas = 1; clustered {
		o.Replicas = enough
	}
	q, err := openSeats(ctx, js, o)
	for began := time.Now(); clustered && passes(err) && time.Since(began) < electTime && ctx.Err() == nil; q, err = openSeats(ctx, js, o) {
		if lacksServers(err) && !all && o.Replicas > 1 {
			o.Replicas = 1
			continue
		}
		select {
		case <-time.After(reconnectPause):
		case <-ctx.Done():
		}
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		err = fmt.Errorf("%w: enable JetStream for the account of the fleet, or have another queue (queue: in the testbed file)", err)
	}
	return q, err
}

// electTime is how long a cluster may take to agree on who leads it: after it began, or lost a
// node, its JetStream answers nobody until then.
const electTime = time.Minute

// noPeers is what JetStream says that lacks a server for a replica (nats-server's
// JSClusterNoPeersErrF): one that was killed may be back soon.
const noPeers = 10005

// passes says whether an error of a cluster may be one of while it has no leader, or lacks a
// server.
func passes(err error) bool {
	if said, is := errors.AsType[*jetstream.APIError](err); is {
		return lacksServers(err) || said.Code == http.StatusServiceUnavailable && !errors.Is(err, jetstream.ErrJetStreamNotEnabled)
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// lacksServers says whether a cluster has too few servers for the replicas.
func lacksServers(err error) bool {
	said, is := errors.AsType[*jetstream.APIError](err)
	return is && said.ErrorCode == noPeers
}

// Close ends all links, which tells the agents, and the connection.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.works))
	c.mu.Unlock()
	for _, w := range all {
		_ = w.stream.Close()
	}
	err := c.conn.Flush()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil // the broker ended first
	}
	c.conn.Close()
	<-c.ended
	return err
}
