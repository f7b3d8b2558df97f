package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// BacklogBytes bounds what each of many flows queues unsent: thousands of
// full-sized send buffers would hold gigabytes, to be drained after the test.
// It bounds a paced flow, too, whose bytes are to be in a cache when they leave.
const BacklogBytes = 128 << 10

// FlowOptions is what a spec asks of one socket, whether it sends or not.
func FlowOptions(spec measurement.Spec, sends bool) sockets.Options {
	o := sockets.OptionsOf(spec, sends)
	if sends && SharesPoller(spec) {
		o.Backlog = BacklogBytes
	}
	return o
}

// InForce is what a result says of the options of a spec that are in force on a socket
// which sends or receives.
func InForce(conn *sockets.Conn, spec measurement.Spec, sends bool) map[string]string {
	return conn.InForce().AskedBy(FlowOptions(spec, sends)).Effective(sends)
}

// explainDial adds to an error of dialling what to do about it.
func explainDial(err error, localPort int) error {
	call := ""
	if c := new(os.SyscallError); errors.As(err, &c) {
		call = c.Syscall
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: local port %d is taken, choose another source port", err, localPort)
	case errors.Is(err, syscall.EADDRNOTAVAIL) && call == "connect":
		return fmt.Errorf("%w: no local port is left for this destination; use fewer flows, another source address, or a wider range of ports (net.ipv4.ip_local_port_range)", err)
	case sockets.OutOfDescriptors(err):
		return fmt.Errorf("%w: raise the limit of open files (ulimit -n) or take fewer flows", err)
	}
	return err
}

// Dial connects flow number flow of a test to an address, with the options of its spec. An
// error says what to do about it; one that has a reason already is an [*Error].
func Dial(ctx context.Context, req Request, flow int, address netip.AddrPort) (*net.TCPConn, error) {
	var refused error
	c, err := dialer(req, flow, &refused).DialContext(ctx, "tcp", address.String())
	if refused != nil {
		if err == nil {
			refused = errors.Join(refused, c.Close())
		}
		return nil, &Error{Op: "prepare the socket", Reason: Unsupported, Err: refused}
	}
	if err != nil {
		return nil, explainDial(err, req.Spec.SourcePort+flow)
	}
	return c.(*net.TCPConn), nil
}

// dialer is how flow number flow of a test connects. What its options cannot do on this
// host is reported to refused: of Multipath TCP, whatever is wrong with it, the dialer
// tries plain TCP next, which may take the same options.
func dialer(req Request, flow int, refused *error) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout}
	o := FlowOptions(req.Spec, ClientSends(req.Spec, flow))
	o.Device = req.Spec.Device
	if req.Spec.SourcePort > 0 {
		o.ReusePort = true
		d.LocalAddr = &net.TCPAddr{Port: req.Spec.SourcePort + flow}
	}
	if req.Source.IsValid() {
		local := &net.TCPAddr{IP: req.Source.AsSlice(), Zone: req.Source.Zone()}
		if req.Spec.SourcePort > 0 {
			local.Port = req.Spec.SourcePort + flow
		} else {
			o.LatePort = true
		}
		d.LocalAddr = local
	}
	d.SetMultipathTCP(req.Spec.MPTCP)
	d.Control = func(network, address string, raw syscall.RawConn) error {
		err := o.Control(network, address, raw)
		if *refused == nil {
			*refused = err
		}
		return err
	}
	return d
}
