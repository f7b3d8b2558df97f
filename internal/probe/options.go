package probe

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// threadConnections is up to how many connections of a tcp test have a thread
// each at either end; more share the runtime's poller.
const threadConnections = 64

// backlogBytes bounds what each of many flows queues unsent: thousands of
// full-sized send buffers would hold gigabytes, to be drained after the test.
const backlogBytes = 128 << 10

// connections is how many connections the flows of a test need.
func connections(spec measurement.Spec) int {
	n := max(spec.Flows, 1)
	if spec.Direction == measurement.Both {
		n *= 2
	}
	return n
}

// clientSends says which end sends on a flow: in a test of both directions the
// client on the even ones, the server on the odd ones.
func clientSends(spec measurement.Spec, flow int) bool {
	if spec.Direction == measurement.Both {
		return flow%2 == 0
	}
	return spec.Direction == measurement.Send
}

// sharesPoller says whether the flows of a test are too many for a thread each,
// by themselves or with those of other tests.
func sharesPoller(spec measurement.Spec) bool {
	return spec.Kind == measurement.TCP && (spec.ShareThreads || connections(spec) > threadConnections)
}

// connectTime bounds the time from the first connection of a test to its START.
func connectTime(spec measurement.Spec) time.Duration {
	return startTimeout + time.Duration(connections(spec))*startTimePerFlow
}

// graceOf is how long after its planned end a test may still deliver results:
// those of thousands of flows take a busy host their time.
func graceOf(spec measurement.Spec) time.Duration {
	if spec.Kind != measurement.TCP {
		return grace
	}
	return grace + time.Duration(connections(spec))*gracePerFlow
}

// optionsOf is what a spec asks of one socket. Only DSCP and, at the client,
// device and source port are for the connections of every kind of test.
func optionsOf(spec measurement.Spec, sends bool) sockets.Options {
	o := sockets.Options{DSCP: spec.DSCP}
	if spec.Kind != measurement.TCP {
		return o
	}
	o.SendBuffer, o.ReceiveBuffer = int(spec.SendBufferBytes), int(spec.ReceiveBufferBytes)
	o.MSS = spec.MSSBytes
	if sends {
		o.CongestionControl = spec.CongestionControl
		if sharesPoller(spec) {
			o.Backlog = backlogBytes
		}
	}
	return o
}

// prepare applies to one end of a connected flow what could not be set before.
func prepare(conn *sockets.Conn, spec measurement.Spec, sends bool) error {
	if sends {
		if spec.CongestionControl != "" {
			// On connecting, that of a route (congctl, ip-route(8)) replaces the
			// one that the socket had been given.
			if err := conn.SetOptions(sockets.Options{CongestionControl: spec.CongestionControl}); err != nil {
				return err
			}
		}
		if spec.PacingBitsPerSecond > 0 {
			return conn.SetPacing(spec.PacingBitsPerSecond)
		}
		return nil
	}
	if spec.WindowBytes <= 0 {
		return nil
	}
	if spec.ReceiveBufferBytes > 0 { // the buffer that was asked for stays
		return conn.RenewClamp(int(spec.WindowBytes))
	}
	return conn.ClampWindow(int(spec.WindowBytes))
}

// differences are sentences about what one end got that is not what was asked.
func differences(conn *sockets.Conn, spec measurement.Spec, sends bool) []string {
	var facts []string
	differ := func(what, why string, asked int64, got, enough int) {
		if asked > 0 && got > 0 && int64(got) < int64(enough) {
			facts = append(facts, fmt.Sprintf("the %s is %d bytes although %d were asked for%s", what, got, asked, why))
		}
	}
	// The kernel doubles what is asked, for its own overhead (socket(7)).
	const doubled = 2
	if runtime.GOOS == "linux" && sends {
		differ("send buffer", ": net.core.wmem_max is the most that one may ask for", spec.SendBufferBytes,
			conn.SendBuffer()/doubled, int(spec.SendBufferBytes))
	}
	if runtime.GOOS == "linux" && !sends {
		differ("receive buffer", ": net.core.rmem_max is the most that one may ask for", spec.ReceiveBufferBytes,
			conn.ReceiveBuffer()/doubled, int(spec.ReceiveBufferBytes))
	}
	// TCP's options take up to 40 bytes of a segment (RFC 9293, section 3.1).
	const tcpOptions = 40
	if sends {
		differ("MSS", ": the path or the other end takes no larger segment", int64(spec.MSSBytes), conn.MSS(), spec.MSSBytes-tcpOptions)
	}
	if spec.MPTCP && !conn.MultipathTCP() {
		facts = append(facts, "plain TCP was used although MPTCP was asked for: one of the two systems lacks it (net.mptcp.enabled) or something on the path removed it")
	}
	return facts
}

// filesNeeded is how many open files the connections of a test take of this end. A
// flow of few may have a pipe as well, but does without.
func filesNeeded(spec measurement.Spec) int {
	switch spec.Kind {
	case measurement.UDP, measurement.PPS, measurement.FTP:
		return 2 * spec.Flows // a control connection beside each
	case measurement.CRR:
		return spec.Flows
	case measurement.TCP, measurement.Load:
		return connections(spec)
	}
	return 0
}

// enoughDescriptors says beforehand that a test needs more open files than
// this process may have.
func enoughDescriptors(spec measurement.Spec) error {
	const others = 64 // standard files, control sockets, samplers
	limit := hostinfo.MaxDescriptors()
	if need := filesNeeded(spec) + others; limit > 0 && need > limit {
		return &Error{Op: "prepare the test", Reason: Unsupported, Err: fmt.Errorf(
			"%d flows need about %d open files, and this process may have %d: raise the limit (ulimit -n) or take fewer flows", spec.Flows, need, limit)}
	}
	return nil
}

// explainDial adds to an error of dialling what to do about it.
func explainDial(err error, localPort int) error {
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

// dialer is how flow number flow of a test connects. What the options cannot
// do on this host is reported to refused, which the dial's error only wraps.
func dialer(req Request, flow int, refused *error) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout}
	o := optionsOf(req.Spec, clientSends(req.Spec, flow))
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
