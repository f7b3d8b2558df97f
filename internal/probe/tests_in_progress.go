package probe

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/probe/ftp"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// test is a test in progress at this server. The server's lock guards it.
type test struct {
	session.Test
	kind session.Kind
	// leastBytes is what it moves at least, see session.Kind: worked out once, since a Spec
	// by value on the stacks of ten thousand flows would make each grow.
	leastBytes int64
	refs       int
	here       []uint64 // a bit for each flow that is there
	// giveBack returns what the test takes of the server's budget.
	giveBack func()
	// end returns what its kind of test keeps of it.
	end func() error
	// guards are those of its connections.
	guards map[*session.Guard]struct{}

	began    time.Time
	announce sync.Once
	err      error // of the first connection that failed
}

// testKey is what a test is known by: whoever comes from another address, also
// with the same number, does another test.
type testKey struct {
	id     string
	client netip.Addr
}

func (t *test) key() testKey { return testKey{t.ID, t.Client} }

// cookieKey is what its packets and transactions are known by.
type cookieKey struct {
	cookie [protocol.CookieBytes]byte
	client netip.Addr
}

func (t *test) cookieKey() cookieKey { return cookieKey{t.Cookie, t.Client} }

// enter registers one more connection of a test, the first one if its limits let
// it begin. Its error is ready to be sent.
func (s *Server) enter(g *session.Guard, id protocol.Identity, client netip.Addr, asked protocol.Open) (*test, error) {
	spec := asked.Spec
	key := testKey{id.Session, admission.Address(client)}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tests[key]
	if t == nil {
		var err error
		if t, err = s.begin(key, asked); err != nil {
			return nil, err
		}
	}
	switch atOnce := t.kind.MostConnections(spec); {
	case t.Spec != spec:
		return nil, session.Refusal(Protocol, "another connection of this test asked for another test")
	case t.refs >= atOnce:
		return nil, session.Refusal(Limit, "a test of kind %s has at most %s at a time here", spec.Kind, quantity.Count(atOnce, "connection"))
	case !t.kind.SharesFlow && t.has(id.Flow):
		return nil, session.Refusal(Protocol, "flow %d of this test is here already", id.Flow)
	}
	t.here[id.Flow/64] |= 1 << (id.Flow % 64)
	t.guards[g] = struct{}{}
	t.refs++
	return t, nil
}

func (t *test) has(flow int) bool { return t.here[flow/64]&(1<<(flow%64)) != 0 }

// begin makes a new test. The server is locked.
func (s *Server) begin(key testKey, asked protocol.Open) (*test, error) {
	if s.draining {
		return nil, errEnding
	}
	spec := asked.Spec
	k := kinds[spec.Kind]
	t := &test{
		Test: session.Test{ID: key.id, Client: key.client, Spec: spec, Meter: s.counts.NewMeter(session.Client{Run: asked.Run, Address: key.client})},
		kind: k, leastBytes: k.LeastBytes(spec), here: make([]uint64, (kind.Connections(spec)+63)/64),
		guards: map[*session.Guard]struct{}{}, began: time.Now(), end: func() error { return nil },
	}
	if _, err := rand.Read(t.Cookie[:]); err != nil {
		return nil, fmt.Errorf("draw a cookie: %w", err)
	}
	cost := k.Cost(spec)
	giveBack, err := s.budget.Take(key.client, s.opts.Token != "", cost)
	if t.Threaded = err == nil && cost[admission.Threads] > 0; err != nil && k.WithoutThreads {
		// Without a thread each, its flows share those of the runtime's poller.
		cost[admission.Threads] = 0
		giveBack, err = s.budget.Take(key.client, s.opts.Token != "", cost)
	}
	if err != nil {
		return nil, session.FromBudget(err)
	}
	t.giveBack = giveBack
	if b, ok := s.servers[spec.Kind].(session.Beginner); ok {
		t.end = b.Begin(&t.Test)
	}
	t.Meter.Expect(session.LeastRate(s.opts.MaxRateBitsPerSecond, asked.MaxRateBitsPerSecond), func(err error) { s.halt(t, err) })
	s.tests[key], s.cookies[t.cookieKey()] = t, t
	return t, nil
}

func (s *Server) leave(t *test, flow int, g *session.Guard) {
	s.mu.Lock()
	t.refs--
	t.here[flow/64] &^= 1 << (flow % 64)
	delete(t.guards, g)
	last := t.refs == 0
	if last {
		delete(s.tests, t.key())
		delete(s.cookies, t.cookieKey())
	}
	s.mu.Unlock()
	if !last {
		return
	}
	if err := t.end(); err != nil {
		s.log.Info("end a test", "error", err)
	}
	t.Meter.End()
	t.giveBack()
	s.notify(TestEvent{Client: t.Client, Spec: t.Spec, Ended: true, Elapsed: time.Since(t.began), Bytes: t.Meter.Moved(), Err: t.err, Vanished: session.IsLost(t.err)})
}

// find is the test in progress to which a cookie from an address belongs, nil if
// there is none.
func (s *Server) find(cookie [protocol.CookieBytes]byte, from netip.Addr) *session.Test {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.cookies[cookieKey{cookie, admission.Address(from)}]; t != nil {
		return &t.Test
	}
	return nil
}

// recordErr keeps the first failure of a test for its end.
func (s *Server) recordErr(t *test, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

// halt ends every connection of a test with an error, which its client is told.
func (s *Server) halt(t *test, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range t.guards {
		g.Halt(err)
	}
}

// AdmitFTP lets a session of a stock FTP client begin, until what it returns is
// called, or says why not.
func (s *Server) AdmitFTP(client netip.Addr) (giveBack func(), err error) {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return nil, errEnding
	}
	// The session, a listener and a connection of data.
	return s.budget.Take(client, false, admission.Cost{admission.Descriptors: 3, admission.Bytes: ftp.SegmentBytes})
}

var errEnding = session.Refusal(Limit, "this server is ending: no new tests")
