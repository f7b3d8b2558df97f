package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/probe"
)

// listening is a server of an agent.
type listening struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// listenTries is how often a port is tried that the system chose, which somebody may have
// for UDP.
const listenTries = 20

// takenTime is how long an address that is taken is tried again: a coordinator that begins
// anew may be earlier than the end of what this agent did for it before.
const takenTime = 2 * time.Second

// listen starts a server that lives until unlisten, or as long as the control connection,
// and returns where it listens.
func (s *server) listen(r listenRequest) (*netip.AddrPort, error) {
	if s.opts.Simulated != nil {
		l := &listening{stop: func() {}, ended: make(chan struct{})}
		close(l.ended)
		s.mu.Lock()
		s.listening[r.Address] = l
		s.mu.Unlock()
		return &r.Address, nil
	}
	if s.opts.Lease > 0 && r.IPerf3Open && len(s.opts.AllowTargets) == 0 {
		return nil, &probe.Error{Op: opListen, Reason: probe.Limit, Err: fmt.Errorf(
			"clients of iperf3 cannot prove the token, and this agent serves them only when it was started with --allow-target")}
	}
	s.noteAddresses()
	limits := s.opts.Limits
	limits.MaxFlows = cmp.Or(limits.MaxFlows, maxTestFlows)
	limits.MaxDuration = cmp.Or(limits.MaxDuration, 3*probe.MaxDuration)
	// The coordinator decides what is measured; its clients are its own agents.
	server, err := probe.NewServer(probe.ServerOptions{
		Token: r.Token, Log: s.opts.Log, IPerf3Open: r.IPerf3Open, IPerf3From: s.opts.AllowTargets, Clock: s.clock,
		MaxConnections: 4 * probe.MaxFlows, Limits: limits,
		Unshared: true, Spin: true, AnswerHTTP: true, OnProven: s.noteProven,
	})
	if err != nil {
		return nil, err
	}
	ln, err := s.bind(server, r.Address)
	if err != nil {
		return nil, err
	}
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	ctx, stop := context.WithCancel(s.ctx)
	l := &listening{stop: stop, ended: make(chan struct{})}
	s.mu.Lock()
	s.listening[at] = l
	s.mu.Unlock()
	s.wg.Go(func() {
		defer close(l.ended)
		defer stop()
		if err := ln.Serve(ctx); err != nil {
			s.opts.Log.Error("server ended", "address", at.String(), "error", err)
		}
		s.mu.Lock()
		delete(s.listening, at)
		s.mu.Unlock()
	})
	return &at, nil
}

func (s *server) bind(server *probe.Server, at netip.AddrPort) (*probe.Listener, error) {
	began := time.Now()
	for tries := 1; ; tries++ {
		ln, err := s.bindOnce(server, at)
		switch {
		case err == nil:
			return ln, nil
		case at.Port() == 0 && tries < listenTries:
			continue
		case at.Port() == 0 || !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > takenTime:
			return nil, err
		}
		select {
		case <-time.After(takenTime / 100):
		case <-s.ctx.Done():
			return nil, err
		}
	}
}

func (s *server) bindOnce(server *probe.Server, at netip.AddrPort) (*probe.Listener, error) {
	tcp, err := probe.ListenTCP(s.ctx, at.String())
	if err != nil {
		return nil, err
	}
	return server.Bind(tcp)
}

// unlisten ends a server, and waits for it.
func (s *server) unlisten(at netip.AddrPort) error {
	s.mu.Lock()
	l := s.listening[at]
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("this agent does not listen on %s", at)
	}
	l.stop()
	<-l.ended
	return nil
}
