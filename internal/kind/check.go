package kind

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Problem is one thing that is wrong with a spec.
type Problem struct {
	// Option is the name of the option at fault, "kind" for the kind itself.
	Option string
	// Message is what is wrong, and Remedy what would be right.
	Message, Remedy string
}

func (p Problem) Error() string {
	if p.Remedy == "" {
		return p.Message
	}
	return p.Message + "; " + p.Remedy
}

// Problems is everything that is wrong with a spec.
type Problems []Problem

func (p *Problems) add(option, remedy, format string, args ...any) {
	*p = append(*p, Problem{option, fmt.Sprintf(format, args...), remedy})
}

// Err joins the problems; nil when there are none.
func (p Problems) Err() error {
	var errs []error
	for _, problem := range p {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// Check says what in a spec, after its Defaults, no two ends could do or could be
// made to suffer from. It takes any spec, of whatever origin.
func Check(s measurement.Spec) (p Problems) {
	k, ok := Of(s.Kind)
	if !ok {
		p.add("kind", "write "+Either(Texts(measurement.Kinds())), "there is no kind of test %.20q", s.Kind)
		return p
	}
	defaults := k.Defaults()
	for _, o := range options {
		value, fallback := o.Get(s), o.Get(defaults)
		switch {
		case value == fallback && !o.Takes(s.Kind):
		case IsZero(value) && (o.Optional || IsZero(fallback) || !o.Takes(s.Kind)):
		case !o.Takes(s.Kind):
			p.add(o.Name, "leave it out", "a test of kind %s has no %s", s.Kind, o.Name)
		default:
			if message, remedy := o.Check(s.Kind, value); message != "" {
				p.add(o.Name, remedy, "%s", message)
			}
		}
	}
	if len(p) > 0 {
		return p
	}
	checkPorts(s, &p)
	checkIPerf3(s, &p)
	checkMPTCP(s, &p)
	checkStarts(s, &p)
	if s.Colocate && !s.Placed() {
		p.add("colocate", "leave colocate out", "%s", measurement.NotPlaced)
	}
	if k.check != nil {
		k.check(s, &p)
	}
	return p
}

// Check says what is wrong with a value for a kind of test, and what would be
// right; nothing for what is within the limits.
func (o Option) Check(kind measurement.Kind, value any) (message, remedy string) {
	switch limits := o.For(kind); v := value.(type) {
	case float64:
		// false for NaN, too
		if !(v >= limits.Least && v <= limits.Most) {
			return fmt.Sprintf("%s is %s", o.Name, o.Format(v)), "write " + o.Range(kind)
		}
	case string:
		switch {
		case o.Type == Word && !slices.Contains(limits.Words, v):
			return fmt.Sprintf("%s of a test of kind %s cannot be %.20q", o.Name, kind, v), "write " + o.Range(kind)
		case o.Type == Name && !isName(v):
			return fmt.Sprintf("%s is %.20q, which is no name", o.Name, v), "write " + o.Range(kind)
		case o.Type == Text && (len(v) > int(limits.Most) || strings.ContainsFunc(v, unicode.IsControl)):
			return o.Name + " is not one line, or too long", "write " + o.Range(kind)
		}
	}
	return "", ""
}

// maxName is IFNAMSIZ and TCP_CA_NAME_MAX without their closing zeros.
const maxName = 15

// isName says whether the kernel could give a device or an algorithm this name.
func isName(text string) bool {
	return len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool {
		return r == '/' || r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r)
	})
}

// Connections is how many flows a test has, in both directions together.
func Connections(s measurement.Spec) int {
	n := max(s.Flows, 1)
	if s.Direction == measurement.Both {
		n *= 2
	}
	return n
}

// TrackedFlows is how many flows a hop that tracks connections sees of a test of one pair,
// those that control it included. The packets of a test over UDP may count as new ones as long
// as nothing answers, and the probe for their time to live takes a place before or beside them;
// one of TCP may go without.
func TrackedFlows(s measurement.Spec) int {
	flows, each := Connections(s), 1
	if OverUDP(s) {
		each = 2 // with its connection
	}
	k, _ := Of(s.Kind)
	switch {
	case s.Tool == measurement.IPerf3:
		return flows + 1 // with the one that controls the test
	case k.tracked != nil:
		return k.tracked(flows, each)
	}
	return flows*each + each - 1 // with the probe for the time to live
}

// FlowsBelowVXLAN is TrackedFlows of a hop below a VXLAN tunnel. To it each direction of a flow is a
// flow, which nothing answers, so that each packet counts as the first of one and none may go
// without: neither the probe for the time to live of a test over TCP, nor ARP.
func FlowsBelowVXLAN(s measurement.Spec) int { return 2 * (TrackedFlows(s) + 2) }

func checkPorts(s measurement.Spec, p *Problems) {
	flows := Connections(s)
	if last := s.SourcePort + flows - 1; s.SourcePort > 0 && last > maxPort {
		p.add("source_port", fmt.Sprintf("write at most %d", maxPort-flows+1), "the last of the %d flows would have source port %d", flows, last)
	}
}

// checkStarts refuses starts of several pairs that contradict each other, or take too long.
func checkStarts(s measurement.Spec, p *Problems) {
	switch {
	case s.Ramp > 0 && (s.Waves > 0 || s.WaveEvery > 0):
		p.add("ramp", "leave out the ramp or the waves", "pairs start either spread evenly or in waves")
	case s.Waves > 0 && s.WaveEvery == 0:
		p.add("waves", "add wave_every, such as 60s", "%d waves have no time from one to the next", s.Waves)
	case s.WaveEvery > 0 && s.Waves == 0:
		p.add("wave_every", "add waves, such as 10", "it is not said how many waves there are")
	case s.StartSpan() == 0 && s.MaxWarmup+s.Duration > maxSeconds:
		option := "duration"
		if s.MaxWarmup > s.Duration {
			option = "max_warmup"
		}
		p.add(option, "shorten one of them", "a warm-up of %s and a duration of %s are more than %s together", format(Time, float64(s.MaxWarmup)), format(Time, float64(s.Duration)), format(Time, maxSeconds))
	case s.StartSpan()+s.MaxWarmup+s.Duration > maxSeconds:
		option := "ramp"
		if s.Waves > 0 {
			option = "waves"
		}
		p.add(option, "let the pairs start in less", "the last pair starts after %s, and the test would take more than %s", format(Time, float64(s.StartSpan())), format(Time, maxSeconds))
	}
}

// Bounds of iperf3 itself: MAX_STREAMS, MAX_OMIT_TIME (iperf.h, iperf_api.h).
const (
	MaxIPerf3Streams     = 128
	maxIPerf3OmitSeconds = 600
)

// checkIPerf3 refuses what iperf3 has no words for.
func checkIPerf3(s measurement.Spec, p *Problems) {
	if s.Tool != measurement.IPerf3 {
		return
	}
	refuse := func(asked bool, option, what string) {
		if asked {
			p.add(option, "leave it out, or use this project's server", "%s is not possible with an iperf3 server", what)
		}
	}
	refuse(s.Flows > MaxIPerf3Streams, "flows", fmt.Sprintf("more than %d flows", MaxIPerf3Streams))
	refuse(s.StartSpan()+s.MaxWarmup > maxIPerf3OmitSeconds, "max_warmup", "a discarded start of more than 10m, starts of other pairs included,")
	refuse(s.GSO == measurement.On, "gso", "gso: on")
	refuse(s.GRO == measurement.On, "gro", "gro: on")
	for _, o := range options {
		refuse(o.Native && o.Takes(s.Kind) && !IsZero(o.Get(s)), o.Name, o.Name)
	}
	refuse(s.SendMethod == measurement.SendZerocopy, "send_method", "sending without a copy")
}

// checkMPTCP refuses what Linux sets on no socket of MPTCP, and what therefore never ran:
// SO_MAX_PACING_RATE and TCP_WINDOW_CLAMP (mptcp_setsockopt in net/mptcp/sockopt.c).
func checkMPTCP(s measurement.Spec, p *Problems) {
	if s.MPTCP && s.PacingBitsPerSecond > 0 {
		p.add("mptcp", "leave out mptcp or the pacing", "Linux does not pace connections of MPTCP")
	}
	if s.MPTCP && s.WindowBytes > 0 {
		p.add("mptcp", "leave out mptcp or the receive window", "Linux does not bound the receive window of MPTCP")
	}
}

func checkPackets(s measurement.Spec, p *Problems) {
	// The kernel cuts a buffer of at most one datagram's size into packets.
	if s.GSO == measurement.On && 2*s.PacketBytes > MaxDatagramBytes {
		p.add("gso", "leave it out, or use smaller packets", "a buffer holds one packet of %d bytes, so there is nothing to segment", s.PacketBytes)
	}
	if s.SendMethod != measurement.SendZerocopy {
		return
	}
	if s.RateBitsPerSecond > 0 || s.LossBound > 0 {
		p.add("send_method", "leave it or the rate out", "packets are sent without a copy in full buffers, as fast as they go, and not at a rate")
	}
	if s.GSO == measurement.Off || 2*s.PacketBytes > MaxDatagramBytes {
		p.add("send_method", "leave it out, or have small packets and gso on", "packets are sent without a copy only from buffers that the kernel cuts (gso)")
	}
}

func checkExchange(s measurement.Spec, p *Problems) {
	if s.Protocol != measurement.OverUDP {
		return
	}
	for _, m := range []struct {
		option string
		bytes  int
	}{{"request", s.RequestBytes}, {"response", s.ResponseBytes}} {
		if m.bytes > MaxDatagramBytes {
			p.add(m.option, "write at most "+format(Size, MaxDatagramBytes)+", or protocol: tcp", "a %s of %s does not fit a UDP packet", m.option, format(Size, float64(m.bytes)))
		}
	}
}

// maxLoadRequests bounds the requests of a load test, each of which is kept until
// the test's end.
const maxLoadRequests = 10_000_000

// loadSetupSeconds is more than the flows of a load test ever take to connect,
// while which requests are sent, too.
const loadSetupSeconds = 120

func checkLoad(s measurement.Spec, p *Problems) {
	checkExchange(s, p)
	length := s.MaxWarmup + s.Duration + loadSetupSeconds
	if n := float64(length) * s.RequestsPerSecond; n >= maxLoadRequests {
		p.add("requests_per_second", fmt.Sprintf("write at most %.0f, or have a shorter test", math.Floor(maxLoadRequests/float64(length))),
			"a test of this length may send %.0f requests, more than are kept (%d)", n, maxLoadRequests)
	}
}

func checkFTP(s measurement.Spec, p *Problems) {
	if s.Direction == measurement.Send && s.Flows > 1 {
		p.add("flows", "leave it out, or receive the file", "a file is stored in one piece (STOR), not in %d segments", s.Flows)
	}
	if s.FilePath == "" {
		switch {
		case s.FileBytes < int64(s.Flows):
			p.add("file", "have a larger file", "a file of %d bytes has no %d segments", s.FileBytes, s.Flows)
		case s.FileCRC32 != "":
			p.add("file_crc32", "leave it out", "the digest of a file that is made for the test is known")
		}
		return
	}
	if s.FileBytes != 0 {
		p.add("file", "leave it out", "a file on a stock server has a size of its own")
	}
	if s.Direction != measurement.Receive {
		p.add("direction", "leave it out", "a file of a stock server is only received")
	}
	if s.CongestionControl != "" {
		p.add("congestion_control", "leave it out", "a stock server, which sends the file, decides its congestion control itself")
	}
	if _, err := strconv.ParseUint(s.FileCRC32, 16, 32); s.FileCRC32 != "" && (err != nil || len(s.FileCRC32) != 8) {
		p.add("file_crc32", "write eight hexadecimal digits", "%.20q is no CRC-32", s.FileCRC32)
	}
}

// checkPing: the 16-bit sequence numbers of echo requests (RFC 792) must not come
// round while an answer may still arrive.
func checkPing(s measurement.Spec, p *Problems) {
	if open := s.Timeout / s.Interval; open >= 1<<15 {
		p.add("timeout", "shorten the timeout", "a timeout of %s leaves %.0f requests open at an interval of %s",
			format(Time, float64(s.Timeout)), float64(open), format(Time, float64(s.Interval)))
	}
}

// Ignored says what in a spec, after its Defaults, would have no effect. Who asks
// for a test is told; the ends of a test take it.
func Ignored(s measurement.Spec) (p Problems) {
	if s.InFlight > 1 && s.RequestsPerSecond > 0 {
		p.add("in_flight", "leave one of them out",
			"with in_flight a response releases the next request, with requests_per_second a clock does")
	}
	if k, _ := Of(s.Kind); s.Protocol == measurement.OverTCP && s.Timeout > 0 && !k.NoServer {
		p.add("timeout", "leave it out, or have protocol udp", "over tcp no response is lost, so timeout does not apply")
	}
	return p
}
