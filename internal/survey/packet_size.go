package survey

import (
	"fmt"
	"strconv"

	"github.com/hopbench/hopbench/internal/measurement"
)

// fit is the payload, in bytes, of the largest TCP segment and UDP datagram that a path
// carries; 0 where the ends find that out by themselves.
type fit struct{ segment, datagram int }

const (
	tcpHeaderBytes, udpHeaderBytes = 20, 8
	// leastSegment is Linux's TCP_MIN_MSS, the least that may be asked for.
	leastSegment = 88
)

// fitOf is what fits where larger packets vanish without an ICMP message: forward, as the
// path MTU test says, or perhaps in the reverse direction, where only the far end would
// have heard of it. Elsewhere TCP and the sockets of UDP learn the size from the routers.
func fitOf(done []Step) fit {
	s, ok := find(done, "mtu")
	if !ok || !s.counts() {
		return fit{}
	}
	forward, reverse := int(s.Trial.Metrics["path_mtu_bytes"]), int(s.Trial.Metrics["reverse_path_mtu_bytes"])
	silent := s.Trial.Effective["path_mtu_limit"] == measurement.MTUBlackHole
	if reverse == 0 || reverse > forward {
		reverse = forward
	}
	ip, err := strconv.Atoi(s.Trial.Effective["ip_header_bytes"])
	if err != nil || !silent && reverse == forward {
		return fit{}
	}
	out := fit{segment: max(reverse-ip-tcpHeaderBytes, leastSegment)}
	if silent {
		out.datagram = forward - ip - udpHeaderBytes
	}
	return out
}

// FitReason says in words that the tests kept to what fits, empty where they had no need.
func FitReason(done []Step) string {
	fits := fitOf(done)
	switch {
	case fits.datagram > 0:
		return fmt.Sprintf("The path drops larger packets in silence, so all later tests send what fits: TCP segments of at most %d bytes (-M %d), UDP packets of %d bytes (-l %d). Other programs will hang there.",
			fits.segment, fits.segment, fits.datagram, fits.datagram)
	case fits.segment > 0:
		return fmt.Sprintf("The reverse direction carries smaller packets, so all later tests send TCP segments of at most %d bytes (-M %d).", fits.segment, fits.segment)
	}
	return ""
}
