package probe

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// session is what the connections of one test share within this process.
type session struct {
	key    sessionKey
	spec   measurement.Spec
	refs   int
	flows  []uint64 // a bit for each flow that is there
	cookie [protocol.CookieBytes]byte
	// giveBack returns what the test takes of the server's budget.
	giveBack func()
	// threaded says that its flows may have a thread each.
	threaded bool
	// sampled says that one of its connections samples the host.
	sampled bool
	// guards are those of its connections.
	guards map[*guard]struct{}

	began    time.Time
	announce sync.Once
	err      error // of the first connection that failed

	// hellos are the flows that wait for their first UDP packet, by the number
	// of READY; lastHello is the last number given.
	hellos    map[uint32]chan netip.AddrPort
	lastHello uint32

	// pages are what its flows of packets send by reference.
	pages packetPages

	// peer gets the address from which the first request over UDP came.
	peer chan netip.AddrPort
	// transactions counts those that were answered, slow those in progress that the
	// accepting thread could not answer.
	transactions, slow atomic.Int64

	meter meter
	// counted ends the count of the transactions' bytes.
	counted func()
}

// sessionKey is what a test is known by: whoever comes from another address, also
// with the same number, does another test.
type sessionKey struct {
	session string
	client  netip.Addr
}

// cookieKey is what its packets and transactions are known by.
type cookieKey struct {
	cookie [protocol.CookieBytes]byte
	client netip.Addr
}

func (t *session) cookieKey() cookieKey { return cookieKey{t.cookie, t.key.client} }

// enter registers one more connection of a test, the first one if its limits let
// it begin. Its error is ready to be sent.
func (s *Server) enter(g *guard, id protocol.Identity, client netip.Addr, spec measurement.Spec) (*session, error) {
	key := sessionKey{id.Session, plainAddr(client)}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sessions[key]
	if t == nil {
		var err error
		if t, err = s.begin(key, spec); err != nil {
			return nil, err
		}
	}
	switch {
	case t.spec != spec:
		return nil, refusal(Protocol, "another connection of this test asked for another test")
	case t.refs >= mostConnections(spec):
		return nil, refusal(Limit, "a test of kind %s has at most %s at a time here", spec.Kind, quantity.Count(mostConnections(spec), "connection"))
	case spec.Kind != measurement.CRR && t.has(id.Flow):
		return nil, refusal(Protocol, "flow %d of this test is here already", id.Flow)
	}
	t.flows[id.Flow/64] |= 1 << (id.Flow % 64)
	t.guards[g] = struct{}{}
	t.refs++
	return t, nil
}

func (t *session) has(flow int) bool { return t.flows[flow/64]&(1<<(flow%64)) != 0 }

// begin makes the session of a new test. The server is locked.
func (s *Server) begin(key sessionKey, spec measurement.Spec) (*session, error) {
	if s.draining {
		return nil, errEnding
	}
	t := &session{
		key: key, spec: spec, meter: meter{counts: s.counts}, flows: make([]uint64, (connections(spec)+63)/64),
		guards: map[*guard]struct{}{}, began: time.Now(), peer: make(chan netip.AddrPort, 1),
	}
	cost := demandOf(spec)
	giveBack, err := s.budget.Take(key.client, s.opts.Token != "", cost)
	if t.threaded = err == nil && cost[admission.Threads] > 0; err != nil && spec.Kind == measurement.TCP {
		// Without a thread each, its flows share those of the runtime's poller.
		cost[admission.Threads] = 0
		giveBack, err = s.budget.Take(key.client, s.opts.Token != "", cost)
	}
	if err != nil {
		return nil, limited(err)
	}
	t.giveBack, t.counted = giveBack, func() {}
	if spec.Kind == measurement.CRR {
		size := int64(spec.RequestBytes + spec.ResponseBytes)
		t.counted = t.meter.add(true, func() int64 { return t.transactions.Load() * size })
		// Each transaction may reach another server, which must know it.
		t.cookie = protocol.TransactionCookie(s.opts.Token, key.session)
	} else if _, err := rand.Read(t.cookie[:]); err != nil {
		giveBack()
		return nil, fmt.Errorf("draw a cookie: %w", err)
	}
	s.sessions[key], s.cookies[t.cookieKey()] = t, t
	return t, nil
}

func (s *Server) leave(t *session, flow int, g *guard) {
	s.mu.Lock()
	t.refs--
	t.flows[flow/64] &^= 1 << (flow % 64)
	delete(t.guards, g)
	last := t.refs == 0
	if last {
		delete(s.sessions, t.key)
		delete(s.cookies, t.cookieKey())
	}
	s.mu.Unlock()
	if !last {
		return
	}
	if err := t.pages.close(); err != nil {
		s.log.Info("give back packets", "error", err)
	}
	t.counted()
	t.meter.end()
	t.giveBack()
	s.tell(TestEvent{Client: t.key.client, Spec: t.spec, Ended: true, Elapsed: time.Since(t.began), Err: t.err, Vanished: isLost(t.err)})
}

// sessionOf finds the test in progress to which a cookie from an address belongs,
// nil if there is none.
func (s *Server) sessionOf(cookie []byte, from netip.Addr) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cookies[cookieKey{[protocol.CookieBytes]byte(cookie), plainAddr(from)}]
}

// plainAddr is an address without what may differ between two sockets of one host.
func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// takeSampling says whether a connection that asks for the host's series gets it:
// one of a test does at a time, whatever its client asks.
func (s *Server) takeSampling(o *opened) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := o.HostSeries && !o.session.sampled
	o.session.sampled = o.session.sampled || taken
	return taken
}

// leaveSampling is for the connection that had it.
func (s *Server) leaveSampling(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.session.sampled = false
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
	return s.budget.Take(client, false, admission.Cost{admission.Descriptors: 3, admission.Bytes: segmentBytes})
}

var errEnding = refusal(Limit, "this server is ending: no new tests")

// refusal is an error for the client.
func refusal(reason Reason, format string, args ...any) error {
	return &refused{&protocol.RemoteError{Reason: string(reason), Message: fmt.Sprintf(format, args...)}, nil}
}

// limited makes a budget's refusal one for the client.
func limited(err error) error {
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return &refused{&protocol.RemoteError{Reason: string(Limit), Message: r.Error()}, r}
	}
	return err
}

// refused is what this end tells the other, and why, if a budget refused it.
type refused struct {
	told  *protocol.RemoteError
	cause error
}

func (r *refused) Error() string   { return r.told.Message }
func (r *refused) Unwrap() []error { return []error{r.told, r.cause} }

// refusedFor is why a client was refused or a connection failed, as a word for
// counts: the resource of a budget, or the reason.
func refusedFor(err error) string {
	if r, ok := errors.AsType[*admission.Refusal](err); ok {
		return r.Resource.String()
	}
	return string(reasonOf(err))
}
