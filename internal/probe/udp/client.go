package udp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
)

// flow is one 5-tuple of a udp or pps test at the client.
type flow struct {
	*session.Link
	udp      *sockets.Conn
	reached  protocol.Reached
	send     *sender
	receive  *receiver
	sent     protocol.Sent
	received protocol.Received
}

// test is a udp or pps test in progress at the client.
type test struct {
	req   session.Request
	flows []*flow
	pages packetPages
	start time.Time
	// ended is when the last packet had come, exchanges are those of stamps.
	ended     time.Time
	exchanges []clock.Exchange
	facts     []string
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	if req.Spec.LossBound > 0 {
		begun, err := req.AwaitCommonStart(ctx)
		if err != nil {
			return measurement.Outcome{}, err
		}
		begun()
		req.Prepared = nil // its steps are tests of their own
		return searchLoss(ctx, req, progress)
	}
	return measure(ctx, req, progress)
}

// measure does one test at one rate.
func measure(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	giveBack, err := session.NeedThreads(req.Spec.Flows)
	if err != nil {
		return measurement.Outcome{}, err
	}
	defer giveBack()
	t := &test{req: req, flows: make([]*flow, req.Spec.Flows)}
	defer t.close()
	if err := t.connect(ctx); err != nil {
		return measurement.Outcome{}, err
	}
	defer context.AfterFunc(ctx, t.interrupt)()
	ttl := datagram.StartTTLProbe(ctx, req, t.flows[0].Ready)
	defer ttl.End()
	stamps := datagram.StartStamps(ctx, req, t.flows[0].Ready)
	defer stamps.End()
	localTTL := ttl.Result() // before the packets, behind which it would queue
	stamps.Begun()
	begun, err := req.AwaitCommonStart(ctx)
	if err != nil {
		return measurement.Outcome{}, err
	}
	err = t.begin()
	begun()
	if err != nil {
		return measurement.Outcome{}, err
	}
	host := host.StartSampler(t.start)
	defer host.End()
	progress(measurement.Progress{Elapsed: measurement.SecondsOf(time.Since(t.start))}) // it has begun
	signs := sampling.Start(session.ProgressInterval, session.ThroughputProgress(t.start, t.moved, progress))
	err = t.transfer()
	signs.End()
	if err != nil {
		return measurement.Outcome{}, err
	}
	t.ended = time.Now()
	t.exchanges = stamps.Result(t.start)
	return t.outcome(host.Result(), localTTL)
}

func (t *test) sends() bool { return t.req.Spec.Direction == measurement.Send }

func (t *test) interrupt() {
	for _, f := range t.flows {
		f.Conn.Interrupt()
		f.udp.Interrupt()
	}
}

func (t *test) close() {
	for _, f := range t.flows {
		if f == nil {
			continue
		}
		if f.udp != nil {
			_ = f.udp.Close() // a UDP socket has nothing to flush
		}
		// Nothing of interest is left to be delivered, and nobody to tell.
		_ = f.Conn.Abort()
	}
	_ = t.pages.close() // memory without a name: nothing is lost with it
}

// connect opens every flow, TCP first, and prepares its loop.
func (t *test) connect(ctx context.Context) error {
	return session.OpenFlows(ctx, len(t.flows), session.ConnectAtOnce, func(ctx context.Context, testID string, i int) error {
		l, err := session.Connect(ctx, t.req, testID, i)
		if err != nil {
			return err
		}
		f := &flow{Link: l}
		t.flows[i] = f
		return session.Wrap(fmt.Sprintf("prepare flow %d of %d", i+1, len(t.flows)), t.prepare(ctx, f, i))
	})
}

func (t *test) prepare(ctx context.Context, f *flow, i int) (err error) {
	spec := paced(t.req.Spec, f.Ready.MaxRateBitsPerSecond)
	payload := 0
	if t.sends() {
		payload = cmp.Or(spec.PacketBytes, datagram.MaxBytes)
	}
	f.udp, f.reached, err = datagram.Open(ctx, t.req, f.Link, i, sockets.DontFragment, payload)
	if err != nil {
		return err
	}
	w := session.ControlConn{Conn: f.Conn, Deadline: time.Now().Add(session.StartTimeout)}
	if t.sends() {
		if f.send, err = newSender(w, f.udp, spec, f.Ready.Cookie, &t.pages); err == nil {
			f.send.pace.stagger(i, spec.Flows)
		}
	} else {
		f.receive, err = newReceiver(w, f.udp, spec, f.Ready.Cookie)
	}
	return err
}

// begin sends START on every flow.
func (t *test) begin() error {
	t.start = time.Now()
	deadline := t.start.Add(session.Planned(t.req.Spec) + grace)
	for _, f := range t.flows {
		w := f.control()
		w.Deadline = deadline
		if err := protocol.WriteFrame(w, protocol.TypeStart, nil); err != nil {
			return session.Wrap("start flow", err)
		}
		if f.send != nil {
			f.send.start = t.start
		} else {
			f.receive.start = t.start
		}
	}
	return nil
}

// transfer runs every flow on a thread of its own and waits for all. The
// first flow that fails ends the others.
func (t *test) transfer() error {
	var group errgroup.Group
	var once sync.Once
	for i, f := range t.flows {
		group.Go(func() error {
			defer sockets.Lock()()
			err := f.transfer()
			if err != nil {
				once.Do(t.interrupt)
			}
			return session.Wrap(fmt.Sprintf("flow %d of %d", i+1, len(t.flows)), err)
		})
	}
	return group.Wait()
}

func (f *flow) control() *session.ControlConn {
	if f.receive != nil {
		return &f.receive.control
	}
	return &f.send.control
}

func (f *flow) transfer() (err error) {
	if f.receive != nil {
		if f.sent, err = f.receive.run(); err != nil {
			return err
		}
		f.received = f.receive.received(f.sent, f.receive.stepped())
		return nil
	}
	if err := f.send.run(); err != nil {
		return err
	}
	noHost := func() *protocol.HostSeries { return nil }
	if f.sent, err = f.send.finish(noHost); err != nil {
		return err
	}
	return untold(protocol.Expect(&f.send.control, protocol.TypeReceived, protocol.MaxControl, &f.received))
}

// moved is how many bytes this end has sent and received so far.
func (t *test) moved() (sum int64) {
	for _, f := range t.flows {
		if f.send != nil {
			sum += f.send.sent.Load() * int64(f.send.size)
		} else {
			sum += f.receive.arrived.Load()
		}
	}
	return sum
}

// outcome turns what the receivers counted into metrics.
func (t *test) outcome(local *protocol.HostSeries, localTTL int) (measurement.Outcome, error) {
	spec := t.req.Spec
	bins, width := session.BinsOf(spec)
	for i, f := range t.flows {
		if err := checkFlow(f, bins, width); err != nil {
			return measurement.Outcome{}, session.Wrap(fmt.Sprintf("count of flow %d", i+1), err)
		}
	}
	last := bins
	first := min(int(math.Round(spec.MaxWarmup.Duration().Seconds()/width.Seconds())), last-1)
	out := measurement.Outcome{
		Metrics:    measurement.Metrics{},
		Started:    t.start,
		Warmup:     measurement.SecondsOf(time.Duration(first) * width),
		Throughput: &measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)},
		Effective:  map[string]string{},
	}
	sum := new(packetSum)
	servers := make([]string, len(t.flows))
	for i, f := range t.flows {
		servers[i] = f.Ready.Server
		for i, n := range f.received.Bins.Bytes {
			out.Throughput.Bytes[i] += n
		}
		sum.add(f, spec)
		t.addFlow(&out, f)
	}
	t.facts = session.AppendNew(t.facts, datagram.Destinations(t.flows[0].Remote, servers)...)
	if err := sum.possible(t.req); err != nil {
		return measurement.Outcome{}, err
	}
	from, to := float64(first)*width.Seconds(), float64(last)*width.Seconds()
	remote := t.flows[0].received.Host
	if !t.sends() {
		remote = t.flows[0].sent.Host
	}
	out.Source = host.EndOf(local, from, to, localTTL)
	out.Destination = host.EndOf(remote, from, to, t.flows[0].Ready.ReceivedTTL)
	receiver := out.Source
	if t.sends() {
		receiver = out.Destination
	}
	sum.undamaged(receiver)
	sum.fill(&out, spec)
	t.fillOneWay(&out)
	ready := t.flows[0].Ready
	t.facts = session.AppendNew(t.facts, sum.facts(paced(spec, ready.MaxRateBitsPerSecond))...)
	if paced(spec, ready.MaxRateBitsPerSecond) != spec {
		t.facts = session.AppendNew(t.facts, session.PacedBy(ready.MaxRateBitsPerSecond))
	}
	out.Facts = t.facts
	return out, nil
}

func (t *test) addFlow(out *measurement.Outcome, f *flow) {
	result := measurement.Flow{Source: f.udp.LocalAddr(), Destination: f.Ready.Server, SentBytes: f.sent.Bytes, ReceivedBytes: f.received.Packets.ReceivedBytes}
	out.Flows = append(out.Flows, result)
	session.AddEffective(out, f.sent.Effective, f.received.Effective)
	if f.reached.Client != result.Source {
		t.facts = session.AppendNew(t.facts, "the source address or port is translated on the way: the destination saw "+f.reached.Client+" where the source has "+result.Source)
	}
	t.facts = session.AppendNew(t.facts, f.received.Facts...)
	t.facts = session.AppendNew(t.facts, f.sent.Facts...)
}

// packetSum is what all flows of a test counted together, of the packets that were
// sent in the measured time.
type packetSum struct {
	sent, received, duplicated, reordered, drops, sentBits float64
	bytes                                                  float64             // received
	bitsPerSecond, packetsPerSecond                        float64             // received, each flow's over its own time
	arrival                                                measurement.Seconds // from first to last, of the flow that took longest
	jitter                                                 float64             // weighted by packets
	variation                                              measurement.Seconds
	stepped                                                bool // some receiver's clock was: no delays
	// everything is packets sent at any time, warm-up included, that came by its end.
	everything float64
	size       int
}

func (s *packetSum) add(f *flow, spec measurement.Spec) {
	p := f.received.Packets
	seconds := spec.Duration
	if queued(p.ArrivalTime, spec) && p.Received > 1 {
		// From the first packet to the last, in which all but one came.
		seconds = p.ArrivalTime * measurement.Seconds(p.Received) / measurement.Seconds(p.Received-1)
	}
	s.bitsPerSecond += float64(p.ReceivedBytes) * 8 / float64(seconds)
	s.packetsPerSecond += float64(p.Received) / float64(seconds)
	s.everything += session.Sum(p.Bins)
	s.bytes += float64(p.ReceivedBytes)
	s.arrival = max(s.arrival, p.ArrivalTime)
	s.sent += float64(p.Sent)
	s.sentBits += float64(p.Sent) * float64(f.sent.PacketBytes) * 8
	s.received += float64(p.Received)
	s.duplicated += float64(p.Duplicated)
	s.reordered += float64(p.Reordered)
	s.drops += float64(p.BufferDrops)
	s.jitter += float64(p.Jitter) * float64(p.Received)
	s.variation = max(s.variation, p.DelayVariation)
	s.stepped = s.stepped || p.ClockStepped
	s.size = f.sent.PacketBytes
}

// undamaged leaves out of the drops of the receiving sockets the packets that the path damaged:
// the kernel counts both together there, and alone for all sockets of the receiving end.
func (s *packetSum) undamaged(receiver measurement.End) {
	full := 0.0
	for _, d := range receiver.Drops {
		if strings.HasPrefix(d.Place, "UDP receive buffer") || strings.HasPrefix(d.Place, "UDP memory") {
			full += d.Packets
		}
	}
	if receiver.DropsCounted {
		s.drops = min(s.drops, full)
	}
}

// errNothingSent is a test without packets.
var errNothingSent = errors.New("no packet was sent in the measured time: the rate is too low for it, or the sending host too busy")

// nothingArrived is why a test has no result all of whose packets were lost.
type nothingArrived struct {
	err           error
	sent          int64   // packets
	bitsPerSecond float64 // at which they were sent
}

func (e *nothingArrived) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *nothingArrived) Unwrap() error { return e.err }

// possible says why there is no result, if there is none.
func (s *packetSum) possible(req session.Request) error {
	switch {
	case s.sent == 0:
		return &session.Error{Op: "send packets", Reason: session.Failed, Err: errNothingSent}
	case s.everything == 0 && s.received == 0:
		return &nothingArrived{sent: int64(s.sent), bitsPerSecond: s.sentBits / float64(req.Spec.Duration), err: &session.Error{Op: "receive packets", Reason: session.TimedOut, Err: fmt.Errorf(
			"none of %.0f packets of %d bytes arrived, although the first small one had: a firewall may drop UDP to %s, or the path silently drops larger packets (try a smaller packet_bytes)",
			s.sent, s.size, req.Target)}}
	}
	return nil
}

// longerArrival is how much longer than they were sent packets may take to arrive, and
// lateArrival, in seconds, what jitter and a busy host may add; beyond, a queue grew on the
// way, and they came no faster than it let them through.
const (
	longerArrival = 1.02
	lateArrival   = 0.02
)

// queued says that those of a flow took longer.
func queued(arrival measurement.Seconds, spec measurement.Spec) bool {
	return arrival > longerArrival*spec.Duration+lateArrival
}

// fill sets every metric of the Catalogue for udp and pps. The rates are of the packets
// that were sent in the measured time, over that time, so that they are the sent ones
// less the loss; of a flow over the time of their arrival where that was longer.
func (s *packetSum) fill(out *measurement.Outcome, spec measurement.Spec) {
	m := out.Metrics
	if spec.Kind == measurement.PPS {
		m["packets_per_second"] = s.packetsPerSecond
	} else {
		m["goodput_bits_per_second"] = s.bitsPerSecond
		m["received_packets_per_second"] = s.packetsPerSecond
	}
	m["sent_bits_per_second"] = s.sentBits / float64(spec.Duration)
	m["loss_fraction"] = sampling.ClampFraction((s.sent - s.received) / s.sent)
	if s.received > 0 {
		m["reordered_fraction"] = sampling.ClampFraction(s.reordered / s.received)
		m["duplicated_fraction"] = s.duplicated / s.received
	}
	if s.received > 0 && !s.stepped {
		m["jitter_seconds"] = s.jitter / s.received
		m["delay_variation_p99_seconds"] = float64(s.variation)
	}
	bytes := s.bytes
	if spec.Kind == measurement.PPS {
		bytes = 0 // its catalogue has no cost per byte
	}
	host.AddCost(out, float64(spec.Duration), bytes, s.received)
}

// rateReached is the part of the rate that was asked for from which on a sender is not
// said to have missed it.
const rateReached = 0.99

// missed says that the sender sent less than it was asked to: more is missing than the one
// packet of each flow of which only a part was due in the measured time.
func (s *packetSum) missed(spec measurement.Spec) bool {
	due := spec.RateBitsPerSecond * float64(spec.Duration)
	return s.sentBits < rateReached*due && s.sentBits+float64(spec.Flows*s.size*8) < due
}

// facts are what a reader of the metrics must know; spec has the rate that was sent at.
func (s *packetSum) facts(spec measurement.Spec) (facts []string) {
	if s.drops > 0 {
		facts = append(facts, fmt.Sprintf("the receiving socket's buffer was full %.0f times: those packets were lost in the receiving host, not on the path", s.drops))
	}
	if s.missed(spec) {
		sent := s.sentBits / float64(spec.Duration)
		facts = append(facts, fmt.Sprintf("the sending host did not keep to the rate: it sent %s of %s; its CPUs were too busy, or its interface takes no more", session.BitRate(sent), session.BitRate(spec.RateBitsPerSecond)))
	}
	if queued(s.arrival, spec) {
		facts = append(facts, fmt.Sprintf("a queue on the path grew: the packets of a flow that were sent in %.3g s took %.3g s to arrive, which is what its rate is over", float64(spec.Duration), float64(s.arrival)))
	}
	return facts
}
