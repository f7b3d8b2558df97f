package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// newIPerf3Server is the part of a server that iperf3 clients talk to.
func (s *Server) newIPerf3Server() *iperf3.Server {
	o := s.opts
	denied := func(client netip.Addr) string {
		switch {
		case o.Token != "" && !o.IPerf3Open:
			return "this server demands a token, which iperf3 cannot prove; --iperf3-open lets iperf3 clients in all the same"
		case len(o.IPerf3From) > 0 && !slices.ContainsFunc(o.IPerf3From, func(p netip.Prefix) bool { return p.Contains(client) }):
			return fmt.Sprintf("iperf3 cannot prove a token, and %v is no address whose clients are served all the same (hopbench agent --allow-target)", client)
		}
		return ""
	}
	return iperf3.NewServer(iperf3.Options{
		Denied: denied,
		Budget: s.budget, MaxStreams: min(o.MaxFlows, iperf3.MaxStreams), MaxDuration: o.MaxDuration,
		MaxRate: o.MaxRateBitsPerSecond, Log: o.Log,
		LacksUDP: func() error { return s.lacksUDP },
		OnTest:   func(e iperf3.Event) { s.notify(iperf3Event(e)) },
		Count: func(client netip.Addr, sends bool, moved func() int64) func() {
			return s.counts.NewMeter(session.Client{Address: admission.Address(client)}).Add(sends, moved)
		},
	})
}

// serveIPerf3 serves a connection of an iperf3 client, whose first byte was read.
func (s *Server) serveIPerf3(c *connection, first byte) error {
	c.guard.Until(time.Now().Add(s.opts.MaxDuration + iperf3.Grace))
	err := s.iperf3.ServeConn(&iperf3.Conn{
		TCPConn: c.TCPConn, First: first, Order: c.order, Hold: c.guard.Hold, Settle: c.guest.Leave,
	})
	if _, panicked := errors.AsType[*admission.Panic](err); panicked {
		return err
	}
	if err != nil {
		s.counts.Refuse("iperf3")
	}
	return nil
}

func iperf3Event(e iperf3.Event) TestEvent {
	spec := measurement.Spec{
		Kind: measurement.TCP, Tool: measurement.IPerf3, Direction: e.Direction, Flows: e.Streams,
		Duration: measurement.SecondsOf(e.Duration), MaxWarmup: measurement.SecondsOf(e.Omit),
	}
	if e.UDP {
		spec.Kind, spec.RateBitsPerSecond = measurement.UDP, e.Rate
	}
	return TestEvent{Client: e.Client, Spec: spec, Ended: e.Ended, Elapsed: e.Elapsed, Bytes: e.Bytes, Err: e.Err, Vanished: e.Vanished}
}
