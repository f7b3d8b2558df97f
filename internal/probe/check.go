package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
)

const (
	maxBufferBytes = 1 << 30
	maxRate        = 1e13 // bit/s, far beyond any link
	maxRequests    = 1e7  // per second
	maxFilePath    = 1024
	maxKernelName  = 15
)

// checkSpec refuses what no end could do, or could be made to suffer from. It
// is applied to what came from the wire, too.
func checkSpec(s measurement.Spec) error {
	c := &specCheck{spec: s}
	for _, field := range s.Foreign() {
		c.fail("a test of kind %.20q has no %s", s.Kind, field)
	}
	c.common()
	switch s.Kind {
	case measurement.TCP:
		c.stream()
		c.oneOf("direction", string(s.Direction), "send", "receive", "both")
	case measurement.UDP, measurement.PPS:
		c.packets()
	case measurement.RR:
		c.times(0.001)
		c.exchange()
		c.between("requests in flight", float64(s.InFlight), 1, session.MaxInFlight)
	case measurement.CRR:
		c.times(0.001)
		c.between("connections at a time", float64(s.Flows), 1, session.MaxFlows)
		c.between("request in bytes", float64(s.RequestBytes), 1, session.MaxMessageBytes)
		c.between("response in bytes", float64(s.ResponseBytes), 1, session.MaxMessageBytes)
	case measurement.Load:
		c.stream()
		c.oneOf("direction", string(s.Direction), "send", "receive", "both")
		c.between("idle time in seconds", float64(s.IdleDuration), 0.01, session.MaxDuration.Seconds())
		c.exchange()
	case measurement.FTP:
		c.transfer()
	case measurement.MTU:
		c.between("timeout in seconds", float64(s.Timeout), 0.001, 60)
	case measurement.Ping, measurement.Trace:
		// Their packages check what they alone understand.
	default:
		c.fail("unknown kind of test %.20q", s.Kind)
	}
	return errors.Join(c.errs...)
}

type specCheck struct {
	spec measurement.Spec
	errs []error
}

func (c *specCheck) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// between is false for NaN, too.
func (c *specCheck) between(what string, v, lo, hi float64) {
	if !(v >= lo && v <= hi) {
		c.fail("%s is %v, must be between %v and %v", what, v, lo, hi)
	}
}

func (c *specCheck) oneOf(what, v string, known ...string) {
	for _, k := range known {
		if v == k {
			return
		}
	}
	c.fail("%s is %.20q, must be one of %q", what, v, known)
}

// name bounds a name of the kernel's.
func (c *specCheck) name(what, v string) {
	if len(v) > maxKernelName || printable.Line(v, maxKernelName) != v || strings.ContainsAny(v, "/ ") {
		c.fail("%.20q is not the name of a %s", v, what)
	}
}

func (c *specCheck) common() {
	s := c.spec
	c.between("DSCP", float64(s.DSCP), 0, 63)
	c.between("source port", float64(s.SourcePort), 0, 65535)
	if s.SourcePort > 0 {
		c.between("last source port", float64(s.SourcePort+max(s.Flows, 1)-1), 1, 65535)
	}
	// IFNAMSIZ and TCP_CA_NAME_MAX with their closing zeros
	c.name("network interface", s.Device)
	c.name("congestion control", s.CongestionControl)
	c.oneOf("tool", string(s.Tool), string(measurement.Native), string(measurement.IPerf3))
	if s.Tool == measurement.IPerf3 && s.Kind != measurement.TCP && s.Kind != measurement.UDP {
		c.fail("iperf3 has no test of kind %q", s.Kind)
	}
	c.between("requests per second", s.RequestsPerSecond, 0, maxRequests)
	c.between("timeout in seconds", float64(s.Timeout), 0, 60)
}

func (c *specCheck) times(shortest float64) {
	c.between("duration in seconds", float64(c.spec.Duration), shortest, session.MaxDuration.Seconds())
	c.between("warm-up in seconds", float64(c.spec.MaxWarmup), 0, session.MaxDuration.Seconds())
}

func (c *specCheck) buffers() {
	s := c.spec
	c.between("window in bytes", float64(s.WindowBytes), 0, maxBufferBytes)
	c.between("send buffer in bytes", float64(s.SendBufferBytes), 0, maxBufferBytes)
	c.between("receive buffer in bytes", float64(s.ReceiveBufferBytes), 0, maxBufferBytes)
}

func (c *specCheck) stream() {
	s := c.spec
	c.times(session.MinBinWidth.Seconds())
	c.buffers()
	c.between("number of flows", float64(s.Flows), 1, session.MaxFlows)
	c.between("pacing in bits per second", s.PacingBitsPerSecond, 0, maxRate)
	if s.MSSBytes != 0 {
		c.between("MSS in bytes", float64(s.MSSBytes), 88, 32767) // TCP_MIN_MSS, MAX_TCP_WINDOW of Linux
	}
	c.oneOf("send method", string(s.SendMethod), "", "copy", "zerocopy")
}

func (c *specCheck) packets() {
	s := c.spec
	c.times(session.MinBinWidth.Seconds())
	c.buffers()
	c.between("number of flows", float64(s.Flows), 1, 1024)
	c.oneOf("direction", string(s.Direction), "send", "receive")
	c.between("rate in bits per second", s.RateBitsPerSecond, 0, maxRate)
	c.between("bound of loss", s.LossBound, 0, 0.5)
	if s.PacketBytes != 0 || s.Kind == measurement.PPS {
		c.between("packet in bytes", float64(s.PacketBytes), datagram.DataBytes, datagram.MaxBytes)
	}
	c.oneOf("send method", string(s.SendMethod), "", "copy", "zerocopy")
	if s.SendMethod == measurement.SendZerocopy && (s.RateBitsPerSecond > 0 || s.LossBound > 0 || s.Kind == measurement.PPS) {
		c.fail("packets are sent without a copy in full buffers, as fast as they go: not at a rate, and not one by one")
	}
	c.oneOf("gso", string(s.GSO), "", "on", "off")
	c.oneOf("gro", string(s.GRO), "", "on", "off")
}

func (c *specCheck) transfer() {
	s := c.spec
	c.between("number of segments", float64(s.Flows), 1, ftp.MaxSegments)
	c.oneOf("direction", string(s.Direction), "send", "receive")
	if s.Direction == measurement.Send && s.Flows > 1 {
		c.fail("a file is stored in one piece, not in %d segments", s.Flows)
	}
	if s.FilePath == "" {
		c.between("file in bytes", float64(s.FileBytes), float64(s.Flows), ftp.MaxFileBytes)
		if s.FileCRC32 != "" {
			c.fail("the digest of a file that is made for the test is known; give none")
		}
		return
	}
	if s.FileBytes != 0 {
		c.fail("a file on a stock server has its own size; give none")
	}
	if s.Direction != measurement.Receive {
		c.fail("a file of a stock server is only received")
	}
	if len(s.FilePath) > maxFilePath || strings.ContainsAny(s.FilePath, "\r\n\x00") {
		c.fail("the path of a file is one line of at most %d bytes", maxFilePath)
	}
	if _, err := strconv.ParseUint(s.FileCRC32, 16, 32); s.FileCRC32 != "" && (err != nil || len(s.FileCRC32) != 8) {
		c.fail("CRC-32 %.20q is not eight hexadecimal digits", s.FileCRC32)
	}
}

func (c *specCheck) exchange() {
	s := c.spec
	largest := float64(session.MaxMessageBytes)
	switch s.Protocol {
	case measurement.OverTCP:
	case measurement.OverUDP:
		largest = datagram.MaxBytes
	default:
		c.fail("protocol of %s is %.20q, must be tcp or udp", s.Kind, s.Protocol)
	}
	c.between("request in bytes", float64(s.RequestBytes), 1, largest)
	c.between("response in bytes", float64(s.ResponseBytes), 1, largest)
}

// CheckSpec says what in a spec, after its Defaults, no two ends could do.
func CheckSpec(spec measurement.Spec) error { return checkSpec(spec) }
