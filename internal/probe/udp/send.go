package udp

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

const (
	// stopGrace is how long after the measured time, by its own clock, a
	// sender of packets waits at most to be told to stop.
	stopGrace = time.Second
	// burstTime is how much of a given rate is sent at once; maxBurstTime how
	// much at most to make up for a late wake-up; what is later than
	// forgiveTime is made up for gradually, at catchUp of the rate in addition: no
	// more than a server bears that bounds the rate.
	burstTime    = 250 * time.Microsecond
	maxBurstTime = time.Millisecond
	forgiveTime  = 10 * time.Millisecond
	catchUp      = 0.8 * (admission.RateTolerance - 1)
	// queueWait is how long a sender waits for a full queue of its host.
	queueWait = 100 * time.Microsecond
	// maxOutgrown is more than there are hellos of a flow.
	maxOutgrown = 100
	// maxRejected answers to earlier packets in a row, without one sent in between, are errors
	// of this host.
	maxRejected = 1000
)

// sender is the sending side of one flow of a udp or pps test.
type sender struct {
	control session.ControlConn
	conn    *sockets.Conn
	out     *sockets.PacketSender
	// pages hold the packets that are sent zero-copy, behind head; nil when
	// all are copied.
	pages *sockets.PacketPages
	head  []byte
	size  int
	// fragments says that packets are larger than the path's MTU, and are cut.
	fragments bool
	pace      pacer
	start     time.Time
	// clock is that of a server's stamps, nil at a client.
	clock session.Clock
	// warmup and end bound the measured time.
	warmup, end time.Duration

	sequence  uint64
	measured  int64 // packets
	sent      atomic.Int64
	queueFull int64
	rejected  int  // answers to earlier packets since one was sent
	outgrown  int  // errors of earlier packets, which were larger: a hello before the MTU was known
	stopped   bool // the receiver has told it to stop
	effective map[string]string
	facts     []string
}

// ethernetBytes is the UDP payload of the largest packet of IPv4 in a frame of Ethernet.
const ethernetBytes = 1472

// atRates says that a rate bounds the test, or that of each step of a search: a search is measured
// in one way, whether a path bounds its rate or not.
func atRates(spec measurement.Spec) bool { return spec.RateBitsPerSecond > 0 || spec.LossBound > 0 }

// newSender prepares the socket as the spec asks.
func newSender(control session.ControlConn, conn *sockets.Conn, spec measurement.Spec, cookie []byte, pages *packetPages) (*sender, error) {
	s := &sender{
		control: control, conn: conn, size: spec.PacketBytes,
		warmup: spec.MaxWarmup.Duration(), end: session.Planned(spec),
		effective: session.InForce(conn, spec, true),
	}
	room := datagram.LargestPayload(conn)
	switch {
	case s.size == 0 && atRates(spec):
		// On loopback, a rate in packets of 64 KB would be few of them.
		s.size = min(room, ethernetBytes)
	case s.size == 0:
		s.size = room
	}
	mode := sockets.DontFragment
	if s.size > room && conn.PathMTU() > 0 {
		mode, s.fragments = sockets.Fragment, true
		s.facts = append(s.facts, fmt.Sprintf("packets of %d bytes do not fit the path's MTU of %d bytes and were sent in fragments", s.size, conn.PathMTU()))
	}
	if err := conn.SetFragmentMode(mode); err != nil && !errors.Is(err, sockets.ErrUnsupported) {
		return nil, err
	}
	got := conn.SetSendBuffer(int(spec.SendBufferBytes))
	session.SetBytes(s.effective, "send_buffer_bytes", got)
	s.facts = append(s.facts, session.SmallerBuffer("send", "net.core.wmem_max", spec.SendBufferBytes, got)...)
	if err := s.open(spec, room); err != nil {
		return nil, err
	}
	if err := s.refer(spec, cookie, pages); err != nil {
		return nil, err
	}
	for i := range s.out.Most() {
		copy(s.out.Packet(i), cookie)
	}
	s.head = s.out.Packet(0)[:datagram.DataBytes]
	s.pace = newPacer(spec, s.size, s.out.Most())
	s.effective["packet_bytes"] = fmt.Sprint(s.size)
	return s, nil
}

// open decides whether the kernel cuts packets from large buffers.
func (s *sender) open(spec measurement.Spec, room int) (err error) {
	var code string
	var why error
	switch {
	case spec.GSO == measurement.Off:
		code = measurement.OffAsked
	case s.size > room:
		code, why = measurement.OffExceedsMTU, errors.New("the packets do not fit the MTU")
	case 2*s.size > datagram.MaxBytes:
		code, why = measurement.OffOnePacket, errors.New("a buffer holds one packet")
	default:
		if s.out, err = sockets.NewPacketSender(s.conn, s.size, true); err == nil {
			s.effective["gso"] = string(measurement.On)
			session.SetBytes(s.effective, "gso_packets_count", s.out.Most())
			return nil
		}
		code, why = measurement.OffUnsupported, err
		if spec.GSO == measurement.Auto {
			s.facts = append(s.facts, fmt.Sprintf("no segmentation offload for UDP: %v", err))
		}
	}
	if spec.GSO == measurement.On {
		return &protocol.RemoteError{Reason: string(session.Unsupported), Message: fmt.Sprintf("GSO for UDP was asked for and cannot be: %v", why)}
	}
	s.effective["gso"], s.effective["gso_off_reason"] = string(measurement.Off), code
	s.out, err = sockets.NewPacketSender(s.conn, s.size, false)
	return err
}

// refer decides whether large buffers are sent zero-copy.
func (s *sender) refer(spec measurement.Spec, cookie []byte, pages *packetPages) (err error) {
	s.effective["send_method"] = measurement.SentCopy
	most, asked := s.out.Most(), spec.SendMethod == measurement.SendZerocopy
	// At a rate, buffers are not full; copying small ones takes less time.
	useful := s.out.Segments() && !atRates(spec) && most*s.size >= leastReferenced
	switch {
	case spec.SendMethod == measurement.SendCopy, !asked && !useful:
		return nil
	case spec.RateBitsPerSecond > 0: // that of an end: nobody asks for both
		err = errors.New("packets are sent without a copy as fast as they go, and an end bounds the rate (--max-rate)")
	case !s.out.Segments():
		err = errors.New("the kernel does not cut the packets (GSO)")
	default:
		s.pages, err = pages.of(cookie, most, s.size)
	}
	switch {
	case err == nil:
		s.effective["send_method"] = measurement.SentSendfile
		session.SetBytes(s.effective, "send_page_bytes", s.pages.PageBytes())
	case asked:
		return &session.Error{Op: "prepare sendfile of packets", Reason: session.Unsupported, Err: err}
	case !errors.Is(err, sockets.ErrUnsupported): // a system without it has lost nothing
		s.facts = append(s.facts, fmt.Sprintf("the sender copied the payload: %v", err))
	}
	return nil
}

// run sends until the measured time is over and the receiver has said so, or until a
// second after that time. It neither allocates nor logs, up to what the receiver says.
func (s *sender) run() error {
	defer thread.PreciseTimers()()
	checked := time.Duration(0)
	for {
		now := time.Since(s.start)
		if now-checked >= session.StopCheck {
			checked = now
			if err := s.control.Guard.Halted(); err != nil {
				return err
			}
			if over, err := s.over(now); err != nil || over {
				return err
			}
		}
		n, wait := s.pace.due(now)
		if n == 0 {
			thread.Sleep(min(wait, session.StopCheck))
			continue
		}
		if stop, err := s.burst(n, now); err != nil || stop {
			return err
		}
	}
}

// over says whether sending has to end. A receiver whose START came late stops before this
// end's measured time is over, for the whole of which packets are due.
func (s *sender) over(now time.Duration) (bool, error) {
	if s.control.Readable() {
		if err := s.awaitStop(); err != nil {
			return true, err
		}
	}
	return s.stopped && now >= s.end || now > s.end+stopGrace, nil
}

// awaitStop reads what the receiver says, which is STOP or why the test ends.
func (s *sender) awaitStop() error {
	err := protocol.Expect(&s.control, protocol.TypeStop, protocol.Empty, nil)
	s.stopped = s.stopped || err == nil
	return err
}

func (s *sender) phase(now time.Duration) byte {
	switch {
	case now < s.warmup:
		return phaseWarmup
	case now < s.end:
		return phaseMeasured
	}
	return phaseAfter
}

// burst sends n packets, of pages a whole buffer, and says whether it was told to
// stop in between.
func (s *sender) burst(n int, now time.Duration) (stop bool, err error) {
	phase := s.phase(now)
	if s.pages != nil {
		putData(s.head, phase, s.sequence, int64(now))
	} else {
		for i := range n {
			putData(s.out.Packet(i), phase, s.sequence+uint64(i), int64(now))
		}
	}
	done := 0
	for done < n {
		sent, failed := s.hand(done, n, phase)
		done += sent
		if failed == nil {
			s.rejected = 0
			continue
		}
		if stop, err = s.retry(failed); stop {
			break
		}
	}
	if phase == phaseMeasured {
		s.measured += int64(done)
	}
	s.sequence += uint64(done)
	s.sent.Add(int64(done))
	s.pace.sent += float64(done)
	return stop, err
}

// hand hands packets of a burst to the kernel, and says how many it took.
func (s *sender) hand(from, to int, phase byte) (int, error) {
	if s.pages == nil {
		return s.out.Send(from, to)
	}
	if err := s.out.SendPages(s.pages, bufferOf(s.sequence, to, phase), s.head); err != nil {
		return 0, err
	}
	return to, nil
}

// retry waits for a full queue, and says whether sending has to end.
func (s *sender) retry(err error) (stop bool, _ error) {
	switch {
	case errors.Is(err, sockets.ErrNoBuffers):
		s.queueFull++
		thread.Sleep(queueWait)
	case errors.Is(err, sockets.ErrTick):
	case sockets.Rejected(err) && s.rejected < maxRejected:
		s.rejected++
	case errors.Is(err, sockets.ErrTooBig) && (s.fragments || s.size <= datagram.LargestPayload(s.conn)) && s.outgrown < maxOutgrown:
		s.outgrown++
	case errors.Is(err, sockets.ErrTooBig):
		return true, fmt.Errorf("send packets of %d bytes: the path's MTU is now %d bytes: give a smaller packet_bytes", s.size, s.conn.PathMTU())
	default:
		return true, fmt.Errorf("send packets: %w", err)
	}
	return s.over(time.Since(s.start))
}

// finish waits to be told to stop and says what was sent.
func (s *sender) finish(host func() *protocol.HostSeries) (protocol.Sent, error) {
	if !s.stopped {
		if err := s.awaitStop(); err != nil {
			return protocol.Sent{}, err
		}
	}
	facts := s.facts
	if s.queueFull > 0 {
		facts = append(facts, fmt.Sprintf("a queue of the sending host was full %d times (ENOBUFS); the packets were sent later", s.queueFull))
	}
	sent := protocol.Sent{
		Bytes: s.sent.Load() * int64(s.size), MeasuredPackets: s.measured, PacketBytes: s.size,
		Host: host(), Effective: s.effective, Facts: facts,
		Clock: clockAt(s.start, 0),
	}
	if s.clock != nil {
		sent.Clock.Stamped = int64(s.clock.Of(s.start))
	}
	return sent, protocol.WriteFrame(&s.control, protocol.TypeSent, sent)
}

// pacer says when packets are due.
type pacer struct {
	perSecond float64 // packets; 0 is as many as can be
	burst     float64 // packets that are waited for
	most      float64 // packets at once
	sent      float64 // packets, and those that were forgiven
	// forgiven packets are sent little by little; asked is when due was last called.
	forgiven float64
	asked    time.Duration
	// warmup is when the measured time begins. Packets that were due before are not made up for
	// in it: it would have more than the rate.
	warmup time.Duration
	// turn is by how many packets a flow begins later than the first one of its test.
	turn float64
}

func newPacer(spec measurement.Spec, size, most int) pacer {
	p := pacer{most: float64(most), warmup: spec.MaxWarmup.Duration()}
	if spec.RateBitsPerSecond > 0 {
		p.perSecond = spec.RateBitsPerSecond / float64(spec.Flows) / 8 / float64(size)
		p.burst = min(max(float64(int(p.perSecond*burstTime.Seconds())), 1), p.most)
		p.most = min(max(float64(int(p.perSecond*maxBurstTime.Seconds())), 1), p.most)
	}
	return p
}

// stagger has the flows of a test take turns: at one rate, all would send at the same moments,
// and with few packets a second all or none of them in the measured time.
func (p *pacer) stagger(flow, flows int) {
	p.turn = p.burst * float64(flow) / float64(flows)
	p.sent = p.turn
}

// due is how many packets to send at once now or, when none, how long to wait.
func (p *pacer) due(now time.Duration) (int, time.Duration) {
	if p.perSecond == 0 {
		return int(p.most), 0
	}
	if p.asked < p.warmup && now >= p.warmup {
		due := p.perSecond*p.warmup.Seconds() + 1 - p.burst
		p.sent, p.forgiven = max(p.sent-p.forgiven, p.turn+p.burst*math.Ceil((due-p.turn)/p.burst)), 0
	}
	again := min(p.forgiven, catchUp*p.perSecond*(now-p.asked).Seconds())
	p.forgiven, p.sent, p.asked = p.forgiven-again, p.sent-again, now
	owed := p.perSecond*now.Seconds() - p.sent + 1
	if tooMuch := owed - p.perSecond*forgiveTime.Seconds() - p.burst; tooMuch > 0 {
		p.sent += tooMuch
		p.forgiven += tooMuch
		owed -= tooMuch
	}
	if owed < p.burst {
		return 0, time.Duration((p.burst - owed) / p.perSecond * float64(time.Second))
	}
	return int(min(owed, p.most)), 0
}
