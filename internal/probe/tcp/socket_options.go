package tcp

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

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
	got := conn.InForce()
	if !sends {
		return append(session.SmallerBuffer("receive", "net.core.rmem_max", spec.ReceiveBufferBytes, got.ReceiveBuffer), multipath(conn, spec)...)
	}
	facts := session.SmallerBuffer("send", "net.core.wmem_max", spec.SendBufferBytes, got.SendBuffer)
	// TCP's options take up to 40 bytes of a segment (RFC 9293, section 3.1).
	const tcpOptions = 40
	if spec.MSSBytes > 0 && got.MSS > 0 && got.MSS < spec.MSSBytes-tcpOptions {
		facts = append(facts, fmt.Sprintf("the MSS is %d bytes although %d were asked for: the path or the other end takes no larger segment", got.MSS, spec.MSSBytes))
	}
	return append(facts, multipath(conn, spec)...)
}

// multipath is the fact that a connection is not one of Multipath TCP as asked.
func multipath(conn *sockets.Conn, spec measurement.Spec) []string {
	if !spec.MPTCP || conn.MultipathTCP() {
		return nil
	}
	return []string{"plain TCP was used although MPTCP was asked for: one of the two systems lacks it (net.mptcp.enabled) or something on the path removed it"}
}

// grace is how long after its planned end a test may still deliver results: before them comes
// what the queues of the path and of the sender hold, seconds of a slow one, and those of
// thousands of flows take a busy host their time.
func grace(spec measurement.Spec) time.Duration {
	return 3*session.Grace + time.Duration(kind.Connections(spec))*gracePerFlow
}

// paced is a test as a server lets it run that bounds the rate to maxRate in bit/s: one
// that asks for what the path carries gets so much. 0 does not bound it.
func paced(spec measurement.Spec, maxRate float64) measurement.Spec {
	if maxRate > 0 && spec.PacingBitsPerSecond == 0 {
		spec.PacingBitsPerSecond = maxRate / float64(kind.Connections(spec))
	}
	return spec
}
