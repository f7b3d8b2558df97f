package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/resume"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/sendqueue"
)

const (
	// connectTime is what a connection to the broker may take, its handshakes included.
	connectTime = 20 * time.Second
	// pingEvery is how often the broker is asked whether it is there; it is not after
	// pingsMissed without an answer.
	pingEvery   = 13 * time.Second
	pingsMissed = 2
	// joinEvery is how often an agent that nobody answers says that it is there.
	joinEvery = 2 * time.Second
	// maxPause is the longest that an agent waits before it connects again: at random, so
	// that thousands do not come back at the same moment. Where a broker is there and did not
	// let the agent in in time, it is twice as long each time, up to longestPause: those who
	// come again to a broker that is too busy would keep it so.
	maxPause     = 10 * time.Second
	longestPause = 80 * time.Second
)

// State is how it stands with an agent and its coordinator.
type State int

// The states.
const (
	Waiting State = iota // at the broker, and the coordinator has not answered
	Working              // a coordinator has it
	Away                 // not at the broker, or not any more; it will try again
)

// AgentOptions are those of an agent that joins a fleet.
type AgentOptions struct {
	// Address is the broker's, HOST:PORT; of a cluster those of some of its servers, separated
	// by commas.
	Address string
	File    join.File
	Name    string // see subject.CheckName
	Hello   Hello  // but for its version of the link, which is this package's
	// Serve does what the coordinator at the other end of a link asks, and closes it. It
	// returns soon after its context has ended. The link goes on when the connection to the
	// broker was lost and another is there in time.
	Serve func(context.Context, io.ReadWriteCloser) error
	// OnState hears of each change and each try in vain, and why. May be nil.
	OnState func(State, error)

	hurry hurry
}

// hurry has a test wait for less.
type hurry bool

func (h hurry) wait(d time.Duration) time.Duration {
	if h {
		return d / 100
	}
	return d
}

// Permanent is an error that stays, however often it is tried again.
type Permanent struct{ Err error }

func (p *Permanent) Error() string { return p.Err.Error() }

// Unwrap gives the cause.
func (p *Permanent) Unwrap() error { return p.Err }

// Join is an agent of a fleet until ctx ends: it connects to the broker, does what the
// coordinator asks, and comes back by itself whenever the connection was lost. It returns an
// error, a *Permanent, where that is of no use.
func Join(ctx context.Context, o AgentOptions) error {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return fmt.Errorf("draw a key: %w", err)
	}
	defer pair.Wipe()
	key, err := pair.PublicKey()
	if err != nil {
		return fmt.Errorf("draw a key: %w", err)
	}
	a := &agent{AgentOptions: o, Agent: subject.Agent{Fleet: o.File.Fleet, Name: o.Name, Key: key}, pair: pair}
	if err := a.Agent.Check(); err != nil {
		return &Permanent{err}
	}
	a.Hello.Link = linkVersion
	if _, err := parseHello(a.hello()); err != nil {
		return &Permanent{err}
	}
	defer func() { _ = a.end(errEnds) }()
	for pause := maxPause; ; {
		err := a.visit(ctx)
		if _, permanent := errors.AsType[*Permanent](err); permanent || ctx.Err() != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		a.tell(Away, err)
		pause = pauseAfter(err, pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(mathrand.Int64N(int64(a.hurry.wait(pause))))):
		}
	}
}

// errBusy says that something was reached where the broker should be, and no more.
var errBusy = errors.New("a broker was reached, and the agent was not let in in time")

// pauseAfter is the longest pause after a visit that ended with an error, where the one before
// was so long.
func pauseAfter(err error, before time.Duration) time.Duration {
	if errors.Is(err, errBusy) {
		return min(2*before, longestPause)
	}
	return maxPause
}

// agent is one that joins.
type agent struct {
	AgentOptions
	subject.Agent
	pair nkeys.KeyPair
	work *agentWork // nil where no coordinator has it do anything
}

// agentWork is what a coordinator has the agent do. It outlives the connections that carry
// its stream.
type agentWork struct {
	name   uint64 // the session with which it began
	stream *resume.Stream
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

// errEnds is what the coordinator hears of an agent that ends by itself.
var errEnds = errors.New("the agent ends")

// begin begins to serve a coordinator.
func (a *agent) begin(ctx context.Context, session uint64) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // see end
	w := &agentWork{name: session, stream: resume.New(resume.Options{Away: AwayTime}), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.err = errors.Join(a.Serve(ctx, w.stream), w.stream.Close())
	}()
	a.work = w
}

// end ends what a coordinator had the agent do, if it did, and waits for that. It returns why
// it was over.
func (a *agent) end(why error) error {
	w := a.work
	if w == nil {
		return nil
	}
	a.work = nil
	w.stream.End(why) // the coordinator hears of it before the connection ends
	w.cancel()
	<-w.done
	return w.err
}

// hello is what the agent says of itself now: what it is at work at goes on, if the coordinator
// knows of it.
func (a *agent) hello() []byte {
	h := a.Hello
	if a.work != nil {
		h.Stream, h.Read = a.work.name, a.work.stream.Detach(errors.New("another session begins"))
	}
	said, _ := json.Marshal(h) // texts and numbers, which JSON has
	return said
}

func (a *agent) tell(s State, why error) {
	if a.OnState != nil {
		a.OnState(s, why)
	}
}

// visit is one connection to the broker, from its beginning to its end: coordinators may
// come and go meanwhile.
func (a *agent) visit(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	conn, ended, err := a.connect(ctx, cancel)
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		<-ended
	}()
	in, err := conn.SubscribeSync(a.Command())
	if err == nil {
		err = in.SetPendingLimits(maxWaiting, maxWaitingBytes)
	}
	if err == nil {
		err = conn.FlushTimeout(connectTime)
	}
	if refused := conn.LastError(); errors.Is(refused, nats.ErrPermissionViolation) {
		// A coordinator that has other subjects, as one of another version may, refuses alike.
		return fmt.Errorf("another machine of the fleet is called %s, or the coordinator is another version of hopbench: give one of them another name with --name (if that was this one before, it is free again in a minute), or use the same hopbench at both ends", a.Agent.Name)
	}
	if err != nil {
		return why(ctx, fmt.Errorf("listen to the coordinator: %w", err))
	}
	defer func() {
		if parent.Err() != nil {
			_ = a.end(errEnds) // while it can be told
		}
	}()
	var last error // why the session before is over
	for {
		if a.work != nil && a.work.stream.Err() != nil {
			last = a.end(errEnds)
		}
		a.tell(Waiting, last)
		session, heard, err := a.announce(ctx, conn, in)
		if err != nil {
			return why(ctx, err)
		}
		if a.work != nil && !heard.goesOn {
			_ = a.end(errors.New("its coordinator knows nothing of it"))
		}
		if a.work == nil {
			a.begin(ctx, session)
		}
		a.tell(Working, nil)
		last = a.carry(ctx, conn, in, session, heard.read)
		if ctx.Err() != nil {
			return why(ctx, last)
		}
	}
}

// why is why a context ended, if it did.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// connect reaches the broker. Lost is called once the connection has ended by itself.
func (a *agent) connect(ctx context.Context, lost context.CancelCauseFunc) (*nats.Conn, <-chan struct{}, error) {
	ended := make(chan struct{})
	dialer, ping := &dialer{ctx: ctx, time: connectTime}, pingEvery
	defer dialer.done()
	var otherBroker error
	config := a.File.TLS()
	first := nats.TLSHandshakeFirst()
	if verify := config.VerifyConnection; verify != nil {
		config.VerifyConnection = func(s tls.ConnectionState) error {
			otherBroker = verify(s)
			return otherBroker
		}
	} else {
		first = nil // the servers of a cluster say hello before
		dialer.time, ping = clusterTime, clusterPing
	}
	// The interface of an address on a link follows a sign that a URL has escaped.
	urls := "tls://" + strings.NewReplacer(",", ",tls://", "%", "%25").Replace(a.Address)
	conn, err := nats.Connect(urls,
		nats.Secure(config), first, nats.Timeout(connectTime), nats.SetCustomDialer(dialer),
		nats.Nkey(a.Key, a.pair.Sign), nats.UserInfo(a.Agent.Name, a.File.Proof(a.Agent.Name, a.Key)),
		nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.SyncQueueLen(maxWaiting),
		nats.PingInterval(ping), nats.MaxPingsOutstanding(pingsMissed),
		nats.ErrorHandler(ignore),
		nats.ClosedHandler(func(c *nats.Conn) {
			lost(fmt.Errorf("the connection to the broker at %s ended: %w", a.Address, cmp.Or(c.LastError(), io.EOF)))
			close(ended)
		}))
	switch {
	case err == nil:
		return conn, ended, nil
	case otherBroker != nil:
		return nil, nil, &Permanent{fmt.Errorf("join at %s: %w", a.Address, otherBroker)}
	case errors.Is(err, nats.ErrAuthorization) && a.File.Cluster != nil:
		return nil, nil, fmt.Errorf("join at %s: the fleet's coordinator does not take the token of the join file, or has expelled this agent, or is not there to admit it", a.Address)
	case errors.Is(err, nats.ErrAuthorization):
		return nil, nil, &Permanent{fmt.Errorf("join at %s: the broker does not take the token of the join file, or has expelled this agent: give this machine the present join file", a.Address)}
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), isRefusal(err):
		return nil, nil, fmt.Errorf("join at %s: the fleet is full (max_agents: in the testbed file)", a.Address)
	}
	switch {
	case a.File.Cluster != nil: // its servers say little of why they let nobody in
		return nil, nil, fmt.Errorf("join at %s: %w; is hopbench run --testbed FILE running, to admit this agent", a.Address, cmp.Or(dialer.failed, err))
	case dialer.failed == nil:
		return nil, nil, fmt.Errorf("join at %s: %w: %w; is hopbench run --testbed FILE running there", a.Address, errBusy, err)
	}
	return nil, nil, fmt.Errorf("join at %s: %w; is hopbench run --testbed FILE running there", a.Address, dialer.failed)
}

// isRefusal says whether the broker answered a connection before there was TLS: so it says only
// that it takes no more.
func isRefusal(err error) bool {
	plain, is := errors.AsType[tls.RecordHeaderError](err)
	return is && string(plain.RecordHeader[:]) == "-ERR "
}

// dialer connects, and ends what it connected should its context end before it is told that
// all went well (nats.CustomDialer).
type dialer struct {
	ctx    context.Context //nolint:containedctx // the library passes none
	time   time.Duration   // a connection may take; a cluster has more servers
	mu     sync.Mutex
	stop   []func() bool
	failed error // of the last try, of which the library does not tell
}

// Dial connects.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: d.time}).DialContext(d.ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed = err; err != nil {
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	return conn, nil
}

// done leaves the connections to whoever has them.
func (d *dialer) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
}

// announce says that the agent is there until a coordinator takes it. It returns the session,
// and what the coordinator said.
func (a *agent) announce(ctx context.Context, conn *nats.Conn, in *nats.Subscription) (session uint64, heard accepted, err error) {
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // never fails
	session = binary.BigEndian.Uint64(drawn[:])
	said := message{kind: kindJoin, session: session, data: a.hello()}.bytes()
	for {
		if err := conn.Publish(a.Join(), said); err != nil {
			return 0, heard, fmt.Errorf("say that this agent is there: %w", err)
		}
		for wait, cancel := context.WithTimeout(ctx, a.hurry.wait(joinEvery)); ; {
			raw, err := in.NextMsgWithContext(wait)
			if err != nil {
				cancel()
				if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
					return 0, heard, fmt.Errorf("wait for the coordinator: %w", err)
				}
				break
			}
			m, err := parseMessage(raw.Data)
			switch {
			case err != nil || m.session != session:
			case m.kind == kindAccept:
				cancel()
				heard, err = parseAccepted(m.data)
				return session, heard, err
			case m.kind == kindRefuse:
				cancel()
				return 0, heard, &Permanent{fmt.Errorf("the coordinator refuses this agent: %.*s", maxReason, m.data)}
			}
		}
	}
}

// carry has a session carry what the agent is at work at, until either is over. It returns why.
func (a *agent) carry(ctx context.Context, conn *nats.Conn, in *nats.Subscription, session, theirs uint64) error {
	l := newLink(conn, in, a.Event(), "", session, func() {})
	broken, err := a.work.stream.Attach(sendqueue.New(l), theirs)
	if err == nil {
		select {
		case err = <-broken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_ = l.Close()
	l.left() // or it would take what comes for the next session
	return err
}
