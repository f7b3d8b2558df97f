package session

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// BacklogBytes bounds what each of many flows queues unsent: thousands of
// full-sized send buffers would hold gigabytes, to be drained after the test.
// It bounds a paced flow, too, whose bytes are to be in a cache when they leave.
const BacklogBytes = 128 << 10

// OptionsOf is what a spec asks of one socket, whether it sends or not.
func OptionsOf(spec measurement.Spec, sends bool) sockets.Options {
	o := sockets.OptionsOf(spec, sends)
	if sends && SharesPoller(spec) {
		o.Backlog = BacklogBytes
	}
	return o
}

// ExplainDial adds to an error of dialling what to do about it.
func ExplainDial(err error, localPort int) error {
	call := ""
	if c := new(os.SyscallError); errors.As(err, &c) {
		call = c.Syscall
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: local port %d is taken, choose another source port", err, localPort)
	case errors.Is(err, syscall.EADDRNOTAVAIL) && call == "connect":
		return fmt.Errorf("%w: no local port is left for this destination; use fewer flows, another source address, or a wider range of ports (net.ipv4.ip_local_port_range)", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: raise the limit of open files (ulimit -n) or take fewer flows", err)
	}
	return err
}

// Dialer is how flow number flow of a test connects. What the options cannot
// do on this host is reported to refused, which the dial's error only wraps.
func Dialer(req Request, flow int, refused *error) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout}
	o := OptionsOf(req.Spec, ClientSends(req.Spec, flow))
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
		*refused = o.Control(network, address, raw)
		return *refused
	}
	return d
}
