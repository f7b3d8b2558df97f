package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sendqueue"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

const testToken = "a token that is long enough"

// visits are the coordinators that an agent took.
type visits struct {
	mu   sync.Mutex
	came int
	gone chan Visit
}

func (v *visits) hear(visit Visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if visit.Ended {
		v.gone <- visit
		return
	}
	v.came++
}

func (v *visits) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.came
}

// listenForTest is an agent that ends with t.
func listenForTest(t *testing.T) (netip.AddrPort, *visits) {
	t.Helper()
	seen := &visits{gone: make(chan Visit, 100)}
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenerOptions{Token: testToken, OnCoordinator: seen.hear})
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr(), seen
}

func tlsEnd(at netip.AddrPort) inventory.Endpoint {
	return inventory.Endpoint{Name: "vm2", Reach: inventory.Reach{Scheme: inventory.ReachTLS, Host: at.Addr().String(), Port: at.Port()}}
}

// works has an agent listen, which proves that it takes orders.
func works(t *testing.T, c io.ReadWriteCloser) {
	t.Helper()
	client, err := agent.Connect(t.Context(), c)
	testutil.OK(t, err)
	defer func() {
		if err := client.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	_, err = client.Listen(t.Context(), at, agent.Serving{Token: testToken})
	testutil.OK(t, err)
	served, err := net.Dial("tcp", at.String())
	testutil.OK(t, err)
	testutil.OK(t, served.Close())
}

func TestLocal(t *testing.T) {
	c, err := Dial(t.Context(), inventory.Endpoint{Name: "vm1", Reach: inventory.Reach{Scheme: inventory.ReachLocal}}, "")
	testutil.OK(t, err)
	works(t, c)
}

func TestServeHasNoControlConnection(t *testing.T) {
	_, err := Dial(t.Context(), inventory.Endpoint{Name: "vm2", Reach: inventory.Reach{Scheme: inventory.ReachServe, Host: "127.0.0.1"}}, "")
	wantError(t, err, "vm2", "no control connection")
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("%q is not one line", err)
	}
}

func TestTLS(t *testing.T) {
	at, seen := listenForTest(t)
	for range 2 { // one after the other
		c, err := Dial(t.Context(), tlsEnd(at), testToken)
		testutil.OK(t, err)
		works(t, c)
		if v := <-seen.gone; v.Err != nil {
			t.Errorf("the agent says: %v", v.Err)
		}
	}
}

func TestTLSRefusals(t *testing.T) {
	at, seen := listenForTest(t)
	for name, c := range map[string]struct {
		token string
		words []string
	}{
		"another token": {"another token, long enough", []string{"vm2", "does not take the token"}},
		"no token":      {"", []string{"vm2", "token_file"}},
	} {
		_, err := Dial(t.Context(), tlsEnd(at), c.token)
		if wantError(t, err, c.words...); t.Failed() {
			t.Log(name)
		}
	}
	nobody, err := testutil.FreePort()
	testutil.OK(t, err)
	_, err = Dial(t.Context(), tlsEnd(netip.AddrPortFrom(at.Addr(), nobody)), testToken)
	wantError(t, err, "vm2", "hopbench agent --listen")

	plain := testutil.Listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example.org ready\r\n") })
	_, err = Dial(t.Context(), tlsEnd(plain), testToken)
	wantError(t, err, "vm2", "no hopbench agent")

	other := testutil.Listen(t, func(c net.Conn) {
		certificate, err := throwAway()
		if err != nil {
			t.Error(err)
			return
		}
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"hopbench-agent/2"}}).Handshake()
	})
	_, err = Dial(t.Context(), tlsEnd(other), testToken)
	wantError(t, err, "vm2", "same hopbench at both ends")
	if n := seen.count(); n != 0 {
		t.Errorf("the agent took orders from %d", n)
	}
}

// An agent takes orders from one coordinator at a time, and from the next when that
// has gone.
func TestBusy(t *testing.T) {
	at, seen := listenForTest(t)
	first, err := Dial(t.Context(), tlsEnd(at), testToken)
	testutil.OK(t, err)
	_, err = Dial(t.Context(), tlsEnd(at), testToken)
	wantError(t, err, "vm2", "works for the coordinator at "+first.(*sendqueue.Queue).ReadWriteCloser.(net.Conn).LocalAddr().String())
	works(t, first)
	<-seen.gone
	for {
		second, err := Dial(t.Context(), tlsEnd(at), testToken)
		if err != nil && strings.Contains(err.Error(), "works for the coordinator") {
			continue // it is being let go
		}
		testutil.OK(t, err)
		works(t, second)
		return
	}
}

// Who says nothing keeps nobody out.
func TestSilenceAtTheDoor(t *testing.T) {
	at, _ := listenForTest(t)
	for range doorRoom + 10 {
		c, err := net.Dial("tcp", at.String())
		testutil.OK(t, err)
		defer c.Close()
	}
	c, err := Dial(t.Context(), tlsEnd(at), testToken)
	testutil.OK(t, err)
	works(t, c)
}

// Who has no token is heard for a kilobyte, and hears nothing that came of a token.
func TestStrangers(t *testing.T) {
	at, seen := listenForTest(t)
	long, err := protocol.Encode(protocol.TypeProof, protocol.Proof{MAC: make([]byte, 10*protocol.MaxUnauthenticated)})
	testutil.OK(t, err)
	wrong, err := protocol.Encode(protocol.TypeProof, protocol.Proof{MAC: make([]byte, 32)})
	testutil.OK(t, err)
	order, err := protocol.Encode(protocol.TypeAgentRequest, struct{}{})
	testutil.OK(t, err)
	for name, said := range map[string][]byte{"too long": long, "wrong": wrong, "an order": order, "nonsense": []byte("GET / HTTP/1.1\r\n\r\n")} {
		c, err := tls.Dial("tcp", at.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{applicationProtocol}})
		testutil.OK(t, err)
		_, _ = c.Write(said)      // the agent may have closed before it was all said
		heard, _ := io.ReadAll(c) // until the agent closes
		if len(heard) > 0 && protocol.Type(heard[0]) != protocol.TypeError {
			t.Errorf("%s: the agent answers % x", name, heard)
		}
		_ = c.Close()
	}
	if n := seen.count(); n != 0 {
		t.Errorf("the agent took orders from %d", n)
	}
}

// relay is somebody in between, who ends the coordinator's TLS and begins their own
// to the agent.
func relay(t *testing.T, between func(coordinator, agent *tls.Conn), to netip.AddrPort) netip.AddrPort {
	certificate, err := throwAway()
	testutil.OK(t, err)
	return testutil.Listen(t, func(c net.Conn) {
		coordinator := tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, NextProtos: []string{applicationProtocol}})
		far, err := tls.Dial("tcp", to.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{applicationProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		between(coordinator, far)
	})
}

// Somebody in between who has not the token gets nothing: neither by passing on what
// both say, nor by saying what he heard.
func TestSomebodyInBetween(t *testing.T) {
	at, seen := listenForTest(t)
	passesOn := relay(t, func(coordinator, far *tls.Conn) {
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(far, coordinator); _ = far.CloseWrite() })
		both.Go(func() { _, _ = io.Copy(coordinator, far); _ = coordinator.Close() })
		both.Wait()
	}, at)
	_, err := Dial(t.Context(), tlsEnd(passesOn), testToken)
	wantError(t, err, "does not take the token", "in between")

	reflects := relay(t, func(coordinator, _ *tls.Conn) {
		var proof protocol.Proof
		if err := protocol.Expect(coordinator, protocol.TypeProof, protocol.MaxUnauthenticated, &proof); err != nil {
			t.Error(err)
			return
		}
		_ = protocol.WriteFrame(coordinator, protocol.TypeAccept, proof)
		_, _ = io.Copy(io.Discard, coordinator)
	}, at)
	_, err = Dial(t.Context(), tlsEnd(reflects), testToken)
	wantError(t, err, "does not have the token", "in between")
	if n := seen.count(); n != 0 {
		t.Errorf("the agent took orders from %d", n)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user pressed Ctrl-C")
	silent := testutil.Listen(t, func(c net.Conn) {
		cancel(why)
		_, _ = io.Copy(io.Discard, c)
	})
	if _, err := Dial(ctx, tlsEnd(silent), testToken); !errors.Is(err, why) {
		t.Error(err)
	}
}

// Nobody without the token passes, whatever they say.
func FuzzProof(f *testing.F) {
	frame, err := protocol.Encode(protocol.TypeProof, protocol.Proof{MAC: make([]byte, 32)})
	testutil.OK(f, err)
	f.Add(frame)
	accept, err := protocol.Encode(protocol.TypeAccept, protocol.Proof{MAC: make([]byte, 32)})
	testutil.OK(f, err)
	f.Add(accept)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, said []byte) {
		rw := struct {
			io.Reader
			io.Writer
		}{strings.NewReader(string(said)), io.Discard}
		if protocol.ProveToCoordinator(rw, testToken, []byte("binding"), func() error { return nil }) == nil {
			t.Error("taken as a coordinator")
		}
		rw.Reader = strings.NewReader(string(said))
		if protocol.ProveToAgent(rw, testToken, []byte("binding")) == nil {
			t.Error("taken as an agent")
		}
	})
}
