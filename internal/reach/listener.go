package reach

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sendqueue"
)

// ListenerOptions are those of an agent that listens.
type ListenerOptions struct {
	// Token is what coordinators must prove.
	Token string
	Agent agent.Options
	// OnCoordinator hears of each coordinator that proved the token, when it comes
	// and when it is gone. May be nil.
	OnCoordinator func(Visit)
}

// Visit is a coordinator at an agent.
type Visit struct {
	Coordinator netip.AddrPort
	Ended       bool
	Elapsed     time.Duration // of one that ended
	Err         error         // why it ended; nil when the coordinator closed
}

// Listener is an agent that coordinators reach over TLS, one at a time: two would
// measure each other's load.
type Listener struct {
	o     ListenerOptions
	log   *slog.Logger
	tcp   net.Listener
	tls   *tls.Config
	door  *admission.Door
	works sync.WaitGroup
	busy  chan struct{} // has one while somebody has the agent

	mu     sync.Mutex
	holder netip.AddrPort // who has the agent, or had it last
	since  time.Time
}

// doorRoom is how many connections may be on their way to the proof of the token;
// of more the oldest, of the address that has most of them, has to go.
const doorRoom = 64

// retryPause is the time between two tries.
const retryPause = 50 * time.Millisecond

// pause waits for it, and says whether ctx goes on.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(retryPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Listen opens the port of an agent.
func Listen(ctx context.Context, address string, o ListenerOptions) (*Listener, error) {
	if o.Token == "" {
		return nil, errors.New("an agent that listens needs a token")
	}
	certificate, err := throwAway()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	log := o.Agent.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Listener{o: o, log: log, tcp: ln, busy: make(chan struct{}, 1), door: admission.NewDoor(doorRoom), tls: &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{applicationProtocol},
		Certificates:           []tls.Certificate{certificate},
		SessionTicketsDisabled: true,
	}}, nil
}

// throwAway is a certificate that proves nothing: the token does.
func throwAway() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Addr is where the agent listens.
func (l *Listener) Addr() netip.AddrPort { return addressOf(l.tcp.Addr()) }

func addressOf(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// Serve takes coordinators until ctx ends, and returns when all that they had the
// agent do has ended. The error is that of the listener.
func (l *Listener) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.works.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.tcp.Close() })()
	for {
		conn, err := l.tcp.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			l.log.Warn("accept a connection", "error", err)
			pause(ctx)
			continue
		}
		from := addressOf(conn.RemoteAddr())
		guest := l.door.Enter(from.Addr(), func() { _ = conn.Close() })
		l.works.Go(func() {
			defer guest.Leave()
			err := admission.Contain(func() error { return l.take(ctx, conn, from, guest) })
			_ = conn.Close()
			if p, panicked := errors.AsType[*admission.Panic](err); panicked {
				l.log.Error("serve a coordinator", "from", from, "error", p, "stack", string(p.Stack))
			}
		})
	}
}

// take proves the token with whoever connected, and does what a coordinator asks.
func (l *Listener) take(ctx context.Context, raw net.Conn, from netip.AddrPort, guest *admission.Guest) error {
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	// Nothing moves this limit, however slowly an end speaks.
	late := time.AfterFunc(proofTime, func() { _ = raw.Close() })
	defer late.Stop()
	held := false
	defer func() {
		if held {
			<-l.busy
		}
	}()
	conn := tls.Server(raw, l.tls)
	binding, err := handshake(ctx, conn)
	if err == nil {
		err = protocol.ProveToCoordinator(conn, l.o.Token, binding, func() error {
			err := l.hold(ctx, from)
			held = err == nil
			return err
		})
	}
	if err != nil {
		if errors.Is(err, protocol.ErrUnauthorized) {
			l.log.Warn("refused: it does not have the token of this agent", "from", from)
		}
		return err
	}
	guest.Leave()
	if !late.Stop() {
		return context.DeadlineExceeded
	}
	began := time.Now()
	l.visit(Visit{Coordinator: from})
	err = agent.Serve(ctx, sendqueue.New(conn), l.o.Agent)
	l.visit(Visit{Coordinator: from, Ended: true, Elapsed: time.Since(began), Err: err})
	return err
}

func (l *Listener) visit(v Visit) {
	if l.o.OnCoordinator != nil {
		l.o.OnCoordinator(v)
	}
}

// handOver is how long a coordinator waits for one whose connection has ended: what the
// agent did for it takes a moment to end, too.
const handOver = 2 * time.Second

// hold gives the agent to a coordinator, unless another has it and goes on.
func (l *Listener) hold(ctx context.Context, from netip.AddrPort) error {
	late := time.NewTimer(handOver)
	defer late.Stop()
	select {
	case l.busy <- struct{}{}:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder, l.since = from, time.Now()
		return nil
	case <-late.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("this agent works for the coordinator at %v since %s: try again when that has ended", l.holder, l.since.Format(time.TimeOnly))
	case <-ctx.Done():
		return ctx.Err()
	}
}
