package agent

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"

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

// listen starts a server that lives until unlisten, or as long as the control connection,
// and returns where it listens.
func (s *server) listen(r listenRequest) (*netip.AddrPort, error) {
	if s.opts.Lease > 0 && r.IPerf3Open && len(s.opts.AllowTargets) == 0 {
		return nil, &probe.Error{Op: opListen, Reason: probe.Limit, Err: fmt.Errorf(
			"clients of iperf3 cannot prove the token, and this agent serves them only when it was started with --allow-target")}
	}
	limits := s.opts.Limits
	// The coordinator decides what is measured; its clients are its own agents.
	server, err := probe.NewServer(probe.ServerOptions{
		Token: r.Token, Log: s.opts.Log, IPerf3Open: r.IPerf3Open,
		MaxConnections: 4 * probe.MaxFlows, MaxFlows: cmp.Or(limits.MaxFlows, maxTestFlows),
		MaxDuration: cmp.Or(limits.MaxDuration, 3*probe.MaxDuration), MaxRateBitsPerSecond: limits.MaxRateBitsPerSecond,
		Unshared: true, Spin: true, AnswerHTTP: true,
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

func (s *server) bind(server *probe.Server, at netip.AddrPort) (ln *probe.Listener, err error) {
	for range listenTries {
		var config net.ListenConfig
		var tcp net.Listener
		if tcp, err = config.Listen(s.ctx, "tcp", at.String()); err != nil {
			return nil, err
		}
		if ln, err = server.Bind(tcp); err == nil || at.Port() != 0 {
			return ln, err
		}
	}
	return nil, err
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
