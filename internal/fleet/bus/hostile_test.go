package bus_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/testutil"
)

// stranger is a connection with the credentials of an agent, and a mind of its own.
type stranger struct {
	subject.Agent
	*nats.Conn
	denied   chan error
	commands *nats.Subscription // of who joined
}

// enter connects with what an agent of that name says, changed by options.
func (y *yard) enter(t testing.TB, name string, change ...nats.Option) (*stranger, error) {
	t.Helper()
	return enterAt(t, "tls://"+y.broker.Addr().String(), y.secret.File, name, append([]nats.Option{nats.TLSHandshakeFirst()}, change...)...)
}

func enterAt(t testing.TB, urls string, file join.File, name string, change ...nats.Option) (*stranger, error) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	testutil.OK(t, err)
	key, err := pair.PublicKey()
	testutil.OK(t, err)
	s := &stranger{Agent: subject.Agent{Fleet: fleet, Name: name, Key: key}, denied: make(chan error, 64)}
	s.Conn, err = nats.Connect(urls, append([]nats.Option{
		nats.Secure(file.TLS()), nats.NoReconnect(), nats.Timeout(time.Minute),
		nats.Nkey(key, pair.Sign), nats.UserInfo(name, file.Proof(name, key)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case s.denied <- err:
			default:
			}
		}),
	}, change...)...)
	if err == nil {
		ended := make(chan struct{})
		s.SetClosedHandler(func(*nats.Conn) { close(ended) })
		t.Cleanup(func() { s.Close(); <-ended })
	}
	return s, err
}

// mayNotRead checks that the broker lets a stranger read none of some subjects.
func (s *stranger) mayNotRead(t testing.TB, subjects ...string) {
	t.Helper()
	for _, subject := range subjects {
		_, err := s.SubscribeSync(subject)
		testutil.OK(t, err)
		s.isDenied(t, "subscribe to "+subject)
	}
}

// mayNotWrite checks that the broker lets it write to none of some subjects.
func (s *stranger) mayNotWrite(t testing.TB, subjects ...string) {
	t.Helper()
	for _, subject := range subjects {
		testutil.OK(t, s.Publish(subject, message(3, 0, 0, "x")))
		s.isDenied(t, "publish to "+subject)
	}
}

// isDenied checks that the broker denies what a stranger does.
func (s *stranger) isDenied(t testing.TB, what string) {
	t.Helper()
	testutil.OK(t, s.Flush())
	if err := take(t, s.denied); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%s: %v", what, err)
	}
}

// message is one of a link as it goes over the wire.
func message(kind byte, session, number uint64, data string) []byte {
	m := binary.BigEndian.AppendUint64([]byte{kind}, session)
	return append(binary.BigEndian.AppendUint64(m, number), data...)
}

// says has a stranger say that it is there, and gives what it is told.
func (s *stranger) says(t testing.TB, session uint64, hello string) (told []byte) {
	t.Helper()
	var err error
	s.commands, err = s.SubscribeSync(s.Command())
	testutil.OK(t, err)
	testutil.OK(t, s.Publish(s.Join(), message(1, session, 0, hello)))
	m, err := s.commands.NextMsg(time.Minute)
	testutil.OK(t, err)
	return m.Data
}

// joins says that a stranger is there, by the rules, and waits until it may speak.
func (s *stranger) joins(t testing.TB, y *yard, session uint64) bus.Arrival {
	t.Helper()
	if told := s.says(t, session, `{"link":2,"version":"test"}`); told[0] != 2 {
		t.Fatalf("it is told %q", told)
	}
	return take(t, y.arrived)
}

// record is one of a stream as it goes over a link.
func record(data string) string {
	r := binary.BigEndian.AppendUint64([]byte{0}, 0)
	return string(binary.BigEndian.AppendUint32(r, uint32(len(data)))) + data
}

// ends waits until a stranger is told that its session is over, and why.
func (s *stranger) ends(t testing.TB) string {
	t.Helper()
	for {
		m, err := s.commands.NextMsg(time.Minute)
		testutil.OK(t, err)
		if m.Data[0] == 4 {
			return string(m.Data[17:])
		}
	}
}

// The credentials of one agent neither read what another is told nor write what another says,
// and reach nothing else at the broker.
func TestCredentialsAreOfOneAgent(t *testing.T) {
	y := newYard(t)
	s, err := y.enter(t, "eve")
	testutil.OK(t, err)
	victim, err := y.enter(t, "vm-1")
	testutil.OK(t, err)
	s.mayNotRead(t, victim.Command(), victim.Event(), victim.Join(), s.Event(), s.Join(),
		">", "*", "hopbench.>", "hopbench-fw-command.*", "hopbench-fw-command.>", "_INBOX.>", "$SYS.>", "$JS.>", "hopbench.fw.seat.>")
	s.mayNotWrite(t, victim.Command(), victim.Event(), victim.Join(), s.Command(),
		"_INBOX.x", "$SYS.REQ.SERVER.PING", "$JS.API.INFO", "hopbench.fw.seat.1")
}

// A message that comes again, or with a hole before it, ends its session, and nothing of it is
// read; one of another session is nobody's. The next session goes on where that one was.
func TestReplay(t *testing.T) {
	y := newYard(t)
	a, b := record("a"), record("b")
	for i, c := range []struct {
		said [][]byte
		want string
	}{
		{[][]byte{message(3, 7, 0, a), message(3, 7, 0, a)}, "came again"},
		{[][]byte{message(3, 7, 0, a), message(3, 7, 2, b)}, "some were lost"},
		{[][]byte{message(3, 6, 9, b), message(3, 7, 0, a), message(4, 7, 1, "why not")}, ""},
		{[][]byte{message(3, 7, 0, a), []byte("short")}, "no message"},
		{[][]byte{message(3, 7, 0, a), message(9, 7, 1, "")}, "no message"},
	} {
		s, err := y.enter(t, fmt.Sprint("eve-", i))
		testutil.OK(t, err)
		link := s.joins(t, y, 7).Link
		for _, m := range c.said {
			testutil.OK(t, s.Publish(s.Event(), m))
		}
		heard := make(chan string, 1)
		go func() {
			got, _ := io.ReadAll(link)
			heard <- string(got)
		}()
		if why := s.ends(t); !strings.Contains(why, c.want) {
			t.Errorf("%d: it is told %q, want %q", i, why, c.want)
		}
		for { // only so many sessions a second
			testutil.OK(t, s.Publish(s.Join(), message(1, 8, 0, `{"link":2,"version":"test","stream":7,"read":0}`)))
			m, err := s.commands.NextMsg(50 * time.Millisecond)
			if errors.Is(err, nats.ErrTimeout) {
				continue
			}
			testutil.OK(t, err)
			if got := string(m.Data); m.Data[0] != 2 || got[17:] != "\x00\x00\x00\x00\x00\x00\x00\x01" {
				t.Errorf("%d: it is told %q", i, got)
			}
			break
		}
		testutil.OK(t, s.Publish(s.Event(), message(3, 8, 0, b)))
		testutil.OK(t, s.Publish(s.Event(), message(3, 8, 1, "\x01"+record("")[1:])))
		if got := <-heard; got != "ab" {
			t.Errorf("%d: %q is read, want ab", i, got)
		}
	}
}

// What was said in one session cannot be said again in the next: its bytes have been read.
func TestStreamOfAnother(t *testing.T) {
	y := newYard(t)
	s, err := y.enter(t, "vm-1")
	testutil.OK(t, err)
	link := s.joins(t, y, 7).Link
	eve, err := y.enter(t, "eve")
	testutil.OK(t, err)
	// The name of another's stream begins one of its own.
	if told := eve.says(t, 9, `{"link":2,"version":"test","stream":7,"read":5}`); told[0] != 2 || len(told) != 17 {
		t.Errorf("it is told %q", told)
	}
	if other := take(t, y.arrived); other.Name != "eve" || other.Link == link {
		t.Errorf("arrived: %+v", other)
	}
	// Bytes that were never written cannot have been read.
	testutil.OK(t, s.Publish(s.Event(), message(3, 7, 0, "\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00")))
	if _, err := link.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "9 bytes are said to have been read") {
		t.Error(err)
	}
}

// An agent that says more than is read loses its link, and others lose nothing.
func TestFlood(t *testing.T) {
	y := newYard(t)
	good, err := y.enter(t, "vm-1")
	testutil.OK(t, err)
	other := good.joins(t, y, 1)
	s, err := y.enter(t, "eve")
	testutil.OK(t, err)
	a := s.joins(t, y, 7)
	for n := range uint64(1000) {
		testutil.OK(t, s.Publish(s.Event(), message(3, 7, n, record("flood"))))
	}
	testutil.OK(t, s.Flush())
	testutil.OK(t, good.Publish(good.Event(), message(3, 1, 0, record("still here"))))
	heard := make([]byte, 64)
	n, err := other.Link.Read(heard)
	testutil.OK(t, err)
	if string(heard[:n]) != "still here" {
		t.Errorf("the other link carried %q", heard[:n])
	}
	if _, err := io.Copy(io.Discard, a.Link); !errors.Is(err, bus.ErrFlood) {
		t.Error(err)
	}
	testutil.OK(t, y.broker.Expel(a.Agent))
}

// Two machines of one name are not taken for each other, and the second is told.
func TestDuplicateNames(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 1)
	start(t, y.options("vm-1", links))
	take(t, y.arrived)
	o := y.options("vm-1", links)
	states := away(&o)
	start(t, o)
	if err := take(t, states); err == nil || !strings.Contains(err.Error(), "another machine of the fleet is called vm-1") {
		t.Error(err)
	}
}

// A machine that is one too many is told so, and tries again: neither its join file nor anything
// on the way is to blame.
func TestFullFleet(t *testing.T) {
	y := newYard(t)
	full := make(chan struct{}, 200)
	for range cap(full) {
		conn, err := net.Dial("tcp", y.broker.Addr().String())
		testutil.OK(t, err)
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := conn.Read(make([]byte, 1)); err == nil { // it says nothing to who has room
				full <- struct{}{}
			}
		})
		t.Cleanup(func() {
			_ = conn.Close()
			reading.Wait()
		})
	}
	take(t, full)
	o := y.options("late", nil)
	states := away(&o)
	start(t, o)
	if err := take(t, states); err == nil || !strings.Contains(err.Error(), "the fleet is full (max_agents: in the testbed file)") {
		t.Error(err)
	}
}

// As many machines as may be connected have a name each.
func TestNamesOfAllConnections(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 100)
	for i := range cap(links) { // of 16 that may measure, and the spares
		start(t, y.options(fmt.Sprintf("vm-%d", i), links))
	}
	for range cap(links) {
		take(t, y.arrived)
		take(t, links)
	}
}

// Who cannot be admitted is told why, and does not try again.
func TestRefused(t *testing.T) {
	y := newYard(t)
	other, _, err := join.Open(filepath.Join(t.TempDir(), "other.join"), fleet)
	testutil.OK(t, err)
	for _, c := range []struct {
		name   string
		change func(*bus.AgentOptions)
		want   string
	}{
		{"a wrong token", func(o *bus.AgentOptions) { o.File.Token = other.File.Token }, "does not take the token"},
		{"another broker", func(o *bus.AgentOptions) { o.File.BrokerSHA256 = other.File.BrokerSHA256 }, "not the broker of the join file"},
		{"another fleet", func(o *bus.AgentOptions) { o.File.Fleet = "other" }, "does not take the token"},
		{"a name that is a wildcard", func(o *bus.AgentOptions) { o.Name = "*" }, "is no name"},
		{"a label that is none", func(o *bus.AgentOptions) { o.Hello.Labels = []string{"client"} }, "is no label"},
	} {
		o := y.options("vm-1", nil)
		c.change(&o)
		err := bus.Join(t.Context(), o)
		if _, permanent := errors.AsType[*bus.Permanent](err); !permanent || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An agent of another version is told both versions.
func TestOtherVersion(t *testing.T) {
	y := newYard(t)
	s, err := y.enter(t, "old")
	testutil.OK(t, err)
	if told := s.says(t, 7, `{"link":1,"version":"v9"}`); told[0] != 5 || !strings.Contains(string(told), "use the same hopbench") {
		t.Errorf("it is told %q", told)
	}
	if err := take(t, y.refused); !strings.Contains(err.Error(), "v9, version 1") {
		t.Error(err)
	}
	for _, nonsense := range [][]byte{nil, []byte("GET / HTTP/1.1"), message(1, 7, 0, "{"), message(1, 7, 0, `{"link":2,"labels":["x"]}`)} {
		testutil.OK(t, s.Publish(s.Join(), nonsense))
		take(t, y.refused)
	}
}

// An agent that does nothing but say that it is there is named, to be expelled.
func TestFloodOfJoins(t *testing.T) {
	y := newYard(t)
	s, err := y.enter(t, "eve")
	testutil.OK(t, err)
	s.joins(t, y, 7)
	for range 100_000 {
		testutil.OK(t, s.Publish(s.Join(), message(1, 7, 0, `{"link":2,"version":"test"}`)))
	}
	if err := take(t, y.refused); !errors.Is(err, bus.ErrFlood) {
		t.Error(err)
	}
}
