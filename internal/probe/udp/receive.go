package udp

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// drainTick is how often a receiver looks for the sender's last word once
	// the measured time is over; drainQuiet how long nothing must have come
	// then: drainFirst if nothing ever came, as after a short test over a path that is
	// slower than that of the control connection, and up to mostQuiet where packets are far
	// apart. drainLongest is how long after the measured time it waits at most for packets
	// under way, so that there is time to tell of them.
	drainTick    = 5 * time.Millisecond
	drainQuiet   = 50 * time.Millisecond
	drainFirst   = time.Second
	drainLongest = grace - session.Reporting
	mostQuiet    = 3 * time.Second
	// stampedRate is the rate, in packets of one flow per second, up to which
	// the kernel's time of each packet is worth its cost.
	stampedRate = 100_000
)

// receiver is the receiving side of one flow of a udp or pps test.
type receiver struct {
	control session.ControlConn
	conn    *sockets.Conn
	in      *sockets.PacketReceiver
	cookie  []byte
	start   time.Time
	end     time.Duration
	width   time.Duration
	stamped bool

	bytes, packets []int64 // distinct packets in bins
	count          packetCount
	followers      followers
	delays         delays
	// runDelay and runLength are packets of one delay that are not yet in delays.
	runDelay, runLength int64
	last                time.Duration // when the latest packet came
	// measuredBytes is of distinct packets of the measured time, which came from
	// firstMeasured to lastMeasured by the clock of their arrival, in nanoseconds, but for those
	// that others had overtaken: a queue keeps their order.
	measuredBytes               int64
	firstMeasured, lastMeasured int64
	arrived                     atomic.Int64 // bytes, for progress
	drops                       int64
	effective                   map[string]string
	facts                       []string
}

// newReceiver prepares the socket as the spec asks.
func newReceiver(control session.ControlConn, conn *sockets.Conn, spec measurement.Spec, cookie []byte) (*receiver, error) {
	n, width := session.BinsOf(spec)
	r := &receiver{
		control: control, conn: conn, cookie: cookie, end: time.Duration(n) * width, width: width,
		bytes: make([]int64, n), packets: make([]int64, n), effective: session.InForce(conn, spec, false),
	}
	got := conn.SetReceiveBuffer(int(spec.ReceiveBufferBytes))
	session.SetBytes(r.effective, "receive_buffer_bytes", got)
	r.facts = session.SmallerBuffer("receive", "net.core.rmem_max", spec.ReceiveBufferBytes, got)
	if err := r.open(spec); err != nil {
		return nil, err
	}
	r.drops = conn.ReceiveDrops()
	return r, nil
}

// open decides whether the kernel joins packets and tells their times.
func (r *receiver) open(spec measurement.Spec) (err error) {
	o := sockets.ReceiveOptions{Keep: datagram.DataBytes, Join: spec.GRO != measurement.Off}
	size := float64(cmp.Or(spec.PacketBytes, datagram.UnknownMTU))
	// Not by the rates of the steps of a search, which has one way to measure.
	o.Stamps = spec.LossBound == 0 && spec.RateBitsPerSecond > 0 && spec.RateBitsPerSecond/8/size/float64(spec.Flows) <= stampedRate
	if spec.CopyPayload {
		o.Keep = 0
	}
	r.effective["gro"], r.effective["receive_time"] = string(measurement.Off), measurement.ReceiveTimeRead
	r.effective["receive_wait"] = measurement.WaitBlocking
	r.in, err = sockets.NewPacketReceiver(r.conn, o)
	if err != nil && o.Stamps {
		o.Stamps = false
		r.in, err = sockets.NewPacketReceiver(r.conn, o)
	}
	if err != nil && o.Join {
		if spec.GRO == measurement.On {
			return &protocol.RemoteError{Reason: string(session.Unsupported), Message: fmt.Sprintf("GRO for UDP was asked for: %v", err)}
		}
		r.facts = append(r.facts, fmt.Sprintf("no receive offload for UDP: %v", err))
		o.Join = false
		r.in, err = sockets.NewPacketReceiver(r.conn, o)
	}
	if err != nil {
		return err
	}
	if o.Join {
		r.effective["gro"] = string(measurement.On)
	}
	if r.stamped = o.Stamps; r.stamped {
		r.effective["receive_time"] = measurement.ReceiveTimeKernel
	}
	return nil
}

// run counts until the measured time is over and the packets of that time have
// come, and returns what the sender said. It neither allocates nor logs up to
// the end of the measured time.
func (r *receiver) run() (protocol.Sent, error) {
	checked := time.Duration(0)
	for {
		n, err := r.in.Receive()
		at := time.Since(r.start)
		if err != nil && !errors.Is(err, sockets.ErrTick) && !sockets.Rejected(err) {
			return protocol.Sent{}, err
		}
		if err == nil {
			r.take(n, at)
		}
		if at >= r.end {
			break
		}
		if at-checked >= session.StopCheck {
			checked = at
			if err := r.control.Guard.Halted(); err != nil {
				return protocol.Sent{}, err
			}
			if r.control.Readable() {
				return protocol.Sent{}, r.explain()
			}
		}
	}
	if err := protocol.WriteFrame(&r.control, protocol.TypeStop, nil); err != nil {
		return protocol.Sent{}, err
	}
	return r.drain()
}

// explain reads the frame that ends a flow too early.
func (r *receiver) explain() error {
	remote := new(protocol.RemoteError)
	if err := protocol.Expect(&r.control, protocol.TypeError, protocol.MaxOpen, remote); err != nil {
		return err
	}
	return remote
}

// drain receives what is under way until the sender has said what it sent.
func (r *receiver) drain() (protocol.Sent, error) {
	var sent protocol.Sent
	if err := r.conn.SetReadTick(drainTick); err != nil {
		return sent, err
	}
	told := time.Duration(-1) // when the sender said it
	for {
		n, err := r.in.Receive()
		at := time.Since(r.start)
		switch {
		case err == nil:
			r.take(n, at)
		case !errors.Is(err, sockets.ErrTick) && !sockets.Rejected(err):
			return sent, err
		}
		switch {
		case told < 0 && r.control.Readable():
			if err := r.readSent(&sent); err != nil {
				return sent, err
			}
			told = time.Since(r.start)
		case told < 0 && r.control.Late():
			return sent, untold(session.ErrSilent)
		case told >= 0 && r.drained(at, told, sent.MeasuredPackets):
			r.settleLast()
			r.flushDelays()
			return sent, nil
		}
	}
}

// drained says whether no packet more is to be waited for at a time; the sender has told
// before how many it sent in the measured time.
func (r *receiver) drained(at, told time.Duration, measured int64) bool {
	switch {
	case r.count.received >= measured && r.count.duplicated == 0, at-max(r.last, told) > r.quiet():
		return true // but where the path makes copies, those of the last may still come
	case at <= r.end+drainLongest:
		return false
	case r.count.received >= measured:
		return true
	}
	r.facts = append(r.facts, fmt.Sprintf("packets still came %v after the measured time, from a queue on the path: those behind them count as lost", drainLongest))
	return true
}

// quiet is how long nothing must have come for no more to come: packets that a slow queue of
// their own lets through are farther apart than drainQuiet. A full one takes 1.3 s at 9600 bit/s.
func (r *receiver) quiet() time.Duration {
	switch {
	case r.last == 0:
		return drainFirst
	case r.count.received < 2:
		return drainQuiet
	}
	apart := time.Duration(r.lastMeasured-r.firstMeasured) / time.Duration(r.count.received-1)
	return max(drainQuiet, min(2*apart, mostQuiet))
}

// untold says of an end that did not tell in time what it counted what else may be the reason.
func untold(err error) error {
	if !errors.Is(err, session.ErrSilent) {
		return err
	}
	return fmt.Errorf("%w, or a queue on the path holds more than %v of packets: try a lower rate", err, grace)
}

// readSent reads the sender's last word, of which a server wants one number.
func (r *receiver) readSent(sent *protocol.Sent) error {
	if !r.control.Served() {
		return protocol.Expect(&r.control, protocol.TypeSent, protocol.MaxControl, sent)
	}
	var said struct {
		MeasuredPackets int64 `json:"measured_packets"`
	}
	err := protocol.Expect(&r.control, protocol.TypeSent, protocol.MaxSentPackets, &said)
	sent.MeasuredPackets = said.MeasuredPackets
	return err
}

// arrivals are distinct packets that came; measured is the bytes of those that were
// sent in the measured time, copies counts further packets.
type arrivals struct{ bytes, packets, measured, copies int64 }

// take counts the messages of one Receive.
func (r *receiver) take(n int, at time.Duration) {
	var sum arrivals
	for i := range n {
		m := r.in.Message(i)
		arrival := int64(at)
		if r.stamped {
			if arrival = m.At; arrival == 0 {
				arrival = time.Now().UnixNano()
			}
		}
		for offset := 0; offset < m.Length && offset < len(m.Data); offset += m.Segment {
			length := min(m.Segment, m.Length-offset)
			data := m.Data[offset:]
			r.packet(&sum, data[:min(length, len(data))], length, arrival)
		}
	}
	r.add(sum, at)
}

// packet counts one packet of which b was kept.
func (r *receiver) packet(sum *arrivals, b []byte, length int, arrival int64) {
	if phase, sequence, sentAt, ok := parseData(b, r.cookie); ok {
		l := leader{sequence, sentAt}
		r.followers.copied = r.followers.copied || r.count.came(sequence)
		// Where the path makes copies, a late leader says nothing of those that wait.
		if late := sequence < r.count.next; r.followers.waits > 0 && !(late && r.followers.copied) {
			r.settle(sum, &l)
		}
		if r.followers.waits == 0 {
			r.followers.lead(l)
		}
		if r.arrive(sum, phase, sequence, length, arrival) && phase == phaseMeasured {
			r.delay(arrival - sentAt)
		}
		return
	}
	f, ok := parseFollower(b, r.cookie)
	if !ok {
		return // a stray packet, or a copy of the first
	}
	if r.followers.follows(f) {
		if r.arrive(sum, f.phase, r.followers.next-1, length, arrival) && f.phase == phaseMeasured {
			r.delay(arrival - r.followers.leader.sentAt)
		}
		return
	}
	w := waiter{f, arrival, length}
	if !r.followers.wait(w) {
		r.settle(sum, nil)
		r.followers.wait(w)
	}
}

// settle counts the packets that wait, in the order in which they came, now that
// the next leader has come, or nil when none does. Without its leader, when a packet
// was sent is not known, and it has no delay.
func (r *receiver) settle(sum *arrivals, next *leader) {
	latest := &r.followers.leader
	for _, w := range r.followers.waiting[:r.followers.waits] {
		sequence := r.numberOf(w.follower, next)
		if !r.arrive(sum, w.phase, sequence, w.bytes, w.arrival) || w.phase != phaseMeasured {
			continue
		}
		for _, l := range [...]*leader{latest, next} {
			if l != nil && sequence == l.sequence+uint64(w.index) {
				r.delay(w.arrival - l.sentAt)
				break
			}
		}
	}
	r.followers.waits = 0
}

// numberOf is the sequence number of a packet that waited: soon after all that
// came, or behind the next leader if that was late, or else the first at its place that is
// in order, or the last before that leader where none is: several laps may wait for one
// leader, and what came in order stays so. Without one, it is a late packet, or one after a gap.
// Where the path makes copies, one at any place is rather one of them than early; where it
// makes none, what seems to come again is one of an earlier lap.
func (r *receiver) numberOf(f follower, next *leader) uint64 {
	lap, came := uint64(f.lap), r.count.next
	ahead := f.last(came + lap - 1)
	copied := r.followers.copied
	if ahead-came <= lap/8 && (!copied || ahead-uint64(f.index) == r.followers.top) {
		return ahead
	}
	if next == nil {
		if behind := f.last(came); copied || came-behind <= lap/2 && !r.count.came(behind) {
			return behind
		}
		return ahead
	}
	if own := next.sequence + uint64(f.index); f.at(own) && (own < came || copied) {
		return own
	}
	n := min(f.last(max(next.sequence, came)), ahead)
	for !copied && r.count.came(n) && n >= lap && came-n+lap <= seenWindow {
		n -= lap
	}
	return n
}

// settleLast counts those for which no leader will come.
func (r *receiver) settleLast() {
	var sum arrivals
	r.settle(&sum, nil)
	r.add(sum, r.last)
}

// arrive says whether a packet is the first with its number.
func (r *receiver) arrive(sum *arrivals, phase byte, sequence uint64, length int, arrival int64) bool {
	next := r.count.next
	if !r.count.arrive(sequence, phase == phaseMeasured) {
		sum.copies++
		return false
	}
	sum.bytes, sum.packets = sum.bytes+int64(length), sum.packets+1
	if phase == phaseMeasured {
		if r.count.received == 1 {
			r.firstMeasured, r.lastMeasured = arrival, arrival
		}
		if sequence >= next {
			r.lastMeasured = arrival
		}
		sum.measured += int64(length)
	}
	return true
}

func (r *receiver) add(sum arrivals, at time.Duration) {
	if sum.packets+sum.copies == 0 {
		return
	}
	r.last = at
	r.measuredBytes += sum.measured
	if bin := int(at / r.width); bin < len(r.bytes) {
		r.bytes[bin] += sum.bytes
		r.packets[bin] += sum.packets
	}
	r.arrived.Add(sum.bytes)
}

func (r *receiver) delay(nanoseconds int64) {
	if nanoseconds != r.runDelay {
		r.flushDelays()
		r.runDelay = nanoseconds
	}
	r.runLength++
}

func (r *receiver) flushDelays() {
	if r.runLength > 0 {
		r.delays.add(r.runDelay, r.runLength)
		r.runLength = 0
	}
}

// leastClockStep is the smallest step that is larger than the time between the two
// readings of a time.Time.
const leastClockStep = time.Millisecond

// clockStep is by how much the clock that people set was set between two of its
// readings, which a monotonic clock saw elapsed apart; 0 for less than
// leastClockStep. Both clocks are slewed alike (clock_gettime(2)), so only
// steps tell them apart.
func clockStep(from, to time.Time, elapsed time.Duration) time.Duration {
	if step := to.Sub(from) - elapsed; step.Abs() >= leastClockStep {
		return step.Round(leastClockStep)
	}
	return 0
}

// stepped is by how much this host's clock was set since the start.
func (r *receiver) stepped() time.Duration {
	now := time.Now()
	return clockStep(r.start.Round(0), now.Round(0), now.Sub(r.start))
}

// received is the receiver's report; step is by how much its clock was set.
func (r *receiver) received(sent protocol.Sent, step time.Duration) protocol.Received {
	out := protocol.Received{
		Bins: measurement.BinsOf(r.width, r.bytes),
		Packets: &protocol.Packets{
			Bins: measurement.BinsOf(r.width, r.packets).Bytes, Sent: sent.MeasuredPackets,
			Received: r.count.received, Duplicated: r.count.duplicated, Reordered: r.count.reordered,
			ReceivedBytes: r.measuredBytes, ArrivalTime: measurement.SecondsOf(time.Duration(max(r.lastMeasured-r.firstMeasured, 0))),
			BufferDrops: r.conn.ReceiveDrops() - r.drops,
		},
		Effective: r.effective, Facts: r.facts,
	}
	apart := time.Duration(0)
	switch {
	case r.stamped && step != 0:
		out.Packets.ClockStepped, out.Packets.ArrivalTime = true, 0
		out.Facts = append(out.Facts, fmt.Sprintf("the clock of the receiving host was stepped by %v during the test: jitter and delay variation, which count on it, are left out", step))
	case r.delays.n > 0:
		out.Packets.Jitter = measurement.Seconds(r.delays.jitter / 1e9)
		out.Packets.DelayVariation = measurement.SecondsOf(r.delays.variation(0.99))
		out.Packets.DelayMedian = measurement.SecondsOf(r.delays.variation(0.5))
		least := time.Duration(r.delays.smallest)
		if r.stamped {
			// The kernel stamps packets by the clock that people set: what that and the
			// monotonic one went apart is in the bound.
			least -= time.Duration(r.start.UnixNano())
			now := time.Now()
			apart = (now.Round(0).Sub(r.start.Round(0)) - now.Sub(r.start)).Abs()
		}
		out.Packets.LeastDelay = measurement.SecondsOf(least)
	}
	out.Clock = clockAt(r.start, apart)
	return out
}
