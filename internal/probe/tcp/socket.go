package tcp

import (
	"fmt"
	"runtime"
	"time"

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

// grace is how long after its planned end a test may still deliver results:
// those of thousands of flows take a busy host their time.
func grace(spec measurement.Spec) time.Duration {
	return session.Grace + time.Duration(session.Connections(spec))*gracePerFlow
}

// paced is a test as a server lets it run that bounds the rate to maxRate in bit/s: one
// that asks for what the path carries gets so much. 0 does not bound it.
func paced(spec measurement.Spec, maxRate float64) measurement.Spec {
	if maxRate > 0 && spec.PacingBitsPerSecond == 0 {
		spec.PacingBitsPerSecond = maxRate / float64(session.Connections(spec))
	}
	return spec
}
