package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// progressInterval is how often a running test shows a sign of life.
const progressInterval = 200 * time.Millisecond

// connectAtOnce bounds the flows that are being connected at the same time:
// so many, or this part of very many, which a long path would delay too much.
const (
	connectAtOnce     = 16
	connectAtOncePart = 64
)

// Of many flows, all of which report at the same moment, a report is not larger than
// reportBytes and binBytes for each bin: those that a server made as large as a frame
// may be would hold gigabytes.
const (
	reportBytes = 64 << 10
	binBytes    = 32
)

// flow is one connection of a tcp test at the client.
type flow struct {
	*link
	number   int
	send     *sender   // of a flow on which this end sends, else nil
	receive  *receiver // of the others
	received protocol.Received
	sent     protocol.Sent
	untold   bool // the other end did not say what it sent
	facts    []string
}

// tcpTest is a tcp test in progress at the client.
type tcpTest struct {
	req   Request
	bulk  *bulk
	flows []*flow
	start time.Time
	facts []string
	rtts  *rttMeter // of one of several pairs, else nil
}

func runTCP(ctx context.Context, req Request, progress func(measurement.Progress)) (out measurement.Outcome, err error) {
	if !sharesPoller(req.Spec) {
		// Both ends know it from the spec.
		threads, giveBack := takeThreads(connections(req.Spec))
		defer giveBack()
		req.Spec.ShareThreads = !threads
	}
	t := &tcpTest{req: req, bulk: newBulk(), flows: make([]*flow, connections(req.Spec)), rtts: newRTTMeter(req)}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.connect(ctx); err != nil {
		return out, err
	}
	for _, f := range t.flows {
		if err := t.build(f); err != nil {
			return out, err
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, f := range t.flows {
			f.conn.Interrupt()
		}
	})
	defer stop()
	if err := req.prepared(ctx); err != nil {
		return out, err
	}
	if err := t.begin(); err != nil {
		return out, err
	}
	host := startHostSampler(t.start)
	defer host.end()
	ttl := startTTLProbe(ctx, t.req, t.flows[0].ready)
	defer ttl.end()
	progress(measurement.Progress{Elapsed: measurement.SecondsOf(time.Since(t.start))}) // it has begun
	signs := startSampler(progressInterval, throughputProgress(t.start, t.moved, progress))
	err = t.transfer()
	signs.end()
	if err != nil {
		return out, err
	}
	return t.outcome(host.result(), ttl.result())
}

func (t *tcpTest) sends(f *flow) bool { return clientSends(t.req.Spec, f.number) }

// note adds facts, each once: flows share most of them.
func (t *tcpTest) note(facts ...string) { t.facts = appendNew(t.facts, facts...) }

// connect opens every flow before any may send.
func (t *tcpTest) connect(ctx context.Context) error {
	session, err := newSession()
	if err != nil {
		return err
	}
	one := func(ctx context.Context, i int) error {
		l, err := connect(ctx, t.req, session, i)
		if err == nil {
			t.flows[i] = &flow{link: l, number: i}
		}
		return err
	}
	// The first goes alone: what it is refused, all would be.
	if err := one(ctx, 0); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(connectAtOnce, len(t.flows)/connectAtOncePart))
	for i := 1; i < len(t.flows); i++ {
		group.Go(func() error { return one(ctx, i) })
	}
	return group.Wait()
}

// build prepares a flow's socket and its kind of loop. What takes time is done
// here, before the start that many clients may have in common: to gather a huge
// page, the kernel waits for every processor.
func (t *tcpTest) build(f *flow) (err error) {
	spec := t.req.Spec
	if err := prepare(f.conn, paced(spec, f.ready.MaxRateBitsPerSecond), t.sends(f)); err != nil {
		return &Error{Op: "prepare the socket", Reason: Unsupported, Err: err}
	}
	w := wire{Conn: f.conn}
	most := 0
	if sharesPoller(spec) && f.number > 0 { // the first one brings what the host spent, too
		bins, _ := binsOf(spec)
		most = reportBytes + bins*binBytes
	}
	if t.sends(f) {
		if f.send, err = t.bulk.newSender(w, spec, f.number); err == nil {
			f.send.most = most
		}
		return err
	}
	f.receive = newReceiver(w, spec, t.bulk.buffer(f.conn, spec, f.number))
	f.receive.most = most
	return nil
}

// begin sends START on every flow.
func (t *tcpTest) begin() error {
	spec := t.req.Spec
	t.start = time.Now()
	if t.req.hooks != nil {
		t.req.hooks.started(t.start)
	}
	deadline := t.start.Add(planned(spec) + graceOf(spec))
	for _, f := range t.flows {
		w := wire{Conn: f.conn, deadline: deadline}
		if err := protocol.WriteFrame(&w, protocol.TypeStart, nil); err != nil {
			return failure("start flow", err)
		}
		if f.send != nil {
			f.send.deadline = deadline
			f.send.info = watchFlow(f.conn, t.start, spec, t.rtts)
			continue
		}
		r := f.receive
		r.deadline, r.start = deadline, t.start
		r.finished = func() error {
			return protocol.WriteFrame(&r.wire, protocol.TypeReceived, protocol.Received{})
		}
	}
	return nil
}

// transfer runs every flow, few of them on a thread of its own each, and waits
// for all. The first flow that fails ends the others.
func (t *tcpTest) transfer() error {
	var group sync.WaitGroup
	var once sync.Once
	var first error // the others' are what interrupting them caused
	for i, f := range t.flows {
		group.Go(func() {
			if !f.conn.Attached() {
				defer sockets.Lock()()
			}
			if err := f.transfer(t.req.Spec); err != nil {
				once.Do(func() {
					first = failure(fmt.Sprintf("flow %d of %d", i+1, len(t.flows)), err)
					for _, other := range t.flows {
						other.conn.Interrupt()
					}
				})
			}
		})
	}
	group.Wait()
	return first
}

func (f *flow) transfer(spec measurement.Spec) error {
	if f.send != nil {
		received, err := f.send.run()
		info := f.send.info
		info.end()
		f.sent = protocol.Sent{
			Bytes: f.send.sent.Load(), Final: info.final, Info: info.series,
			Effective: senderEffective(f.send, spec), Facts: info.facts(),
		}
		f.facts = senderFacts(f.send, spec)
		f.received = received
		// Throw away what is still queued here: it belongs to no measurement.
		return errors.Join(err, f.conn.Abort())
	}
	stopClamp := keepClamp(f.conn, spec)
	sent, err := f.receive.run()
	stopClamp()
	f.received = protocol.Received{Effective: receiverEffective(f.receive, spec)}
	f.facts = receiverFacts(f.receive, spec)
	if err == nil && sent == nil && f.receive.stalled() {
		err = errSilent
	}
	if err == nil && sent == nil {
		f.facts = append(f.facts, "the sender's own figures did not arrive in time; what the receiver counted is complete")
	}
	if f.untold = sent == nil; !f.untold {
		f.sent = *sent
	}
	return err
}

func (t *tcpTest) close() error {
	for _, f := range t.flows {
		if f == nil {
			continue
		}
		if f.send != nil && f.send.info != nil {
			f.send.info.end()
		}
		// Nothing of interest is left to be delivered, and nobody to tell.
		_ = f.conn.Abort()
	}
	return failure("give back the payload", t.bulk.close())
}

// moved is how many bytes this end has sent and received so far.
func (t *tcpTest) moved() (sum int64) {
	for _, f := range t.flows {
		if f.send != nil {
			sum += f.send.sent.Load()
		} else {
			sum += f.receive.count.Load()
		}
	}
	return sum
}

// outcome turns what the receivers counted into metrics.
func (t *tcpTest) outcome(local *protocol.HostSeries, localTTL int) (measurement.Outcome, error) {
	spec := t.req.Spec
	bins, width := binsOf(spec)
	for i, f := range t.flows {
		if f.receive != nil {
			f.received.Bins = f.receive.counted()
		}
		if err := checkFlow(f, bins, width); err != nil {
			return measurement.Outcome{}, failure(fmt.Sprintf("count of flow %d", i+1), err)
		}
	}
	sum := measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)}
	for _, f := range t.flows {
		for i, n := range f.received.Bins.Bytes {
			sum.Bytes[i] += n
		}
	}
	window := chooseWindow(sum.Bytes, width, spec)
	out := measurement.Outcome{
		Metrics:      measurement.Metrics{},
		Warmup:       measurement.SecondsOf(time.Duration(window.first) * width),
		WarmupSteady: window.steady,
		Started:      t.start,
		Throughput:   &sum,
		Effective:    map[string]string{},
	}
	if !window.steady && spec.MaxWarmup > 0 {
		t.note(fmt.Sprintf("throughput was not steady after the longest warm-up (%v)", spec.MaxWarmup.Duration()))
	}
	from := float64(window.first) * width.Seconds()
	to := float64(window.last) * width.Seconds()
	servers := make([]string, len(t.flows))
	for i, f := range t.flows {
		t.addFlow(&out, f, window)
		servers[i] = f.ready.Server
	}
	t.note(destinations(t.flows[0].remote, servers)...)
	t.addMetrics(&out, from, to)
	if seen := largestWindow(out.Flows, from, to); spec.WindowBytes > 0 && float64(seen) > clampTolerance*float64(spec.WindowBytes) {
		t.note(fmt.Sprintf("the receive window reached %d bytes although %d were asked for", seen, spec.WindowBytes))
	}
	remote := t.flows[0].received.Host
	if !t.sends(t.flows[0]) {
		remote = t.flows[0].sent.Host
	}
	out.Source = endOf(local, from, to, localTTL)
	out.Destination = endOf(remote, from, to, t.flows[0].ready.ReceivedTTL)
	addCost(&out, to-from, out.Metrics["goodput_bits_per_second"]*(to-from)/8, 0)
	if t.req.Pairs > 1 {
		out.Pairs = []measurement.Pair{{RTT: t.rtts.series(out.Flows)}}
	}
	thinFlows(out.Flows, t.req.Pairs)
	out.Facts = append(t.facts, pacedBy(spec, t.flows[0].ready)...)
	return out, nil
}

// clampTolerance allows for the rounding of the window's scale.
const clampTolerance = 1.05

// largestWindow is the largest window that a sender saw advertised in from..to.
func largestWindow(flows []measurement.Flow, from, to float64) int64 {
	var largest int64
	for _, f := range flows {
		for _, i := range f.Info {
			if at := float64(i.At); at >= from && at <= to {
				largest = max(largest, i.SendWindow)
			}
		}
	}
	return largest
}

func (t *tcpTest) addFlow(out *measurement.Outcome, f *flow, w window) {
	result := measurement.Flow{
		Source: f.local, Destination: f.ready.Server,
		Reverse:   t.req.Spec.Direction == measurement.Both && !t.sends(f),
		SentBytes: f.sent.Bytes, Final: f.sent.Final, Info: f.sent.Info,
	}
	for _, n := range f.received.Bins.Bytes[w.first:w.last] {
		result.ReceivedBytes += int64(n)
	}
	out.Flows = append(out.Flows, result)
	addEffective(out, f.sent.Effective, f.received.Effective)
	if f.ready.Client != "" && f.ready.Client != f.local {
		t.note("the source address is translated on the way: the destination saw " + addressOf(f.ready.Client) + " where the source has " + addressOf(f.local))
	}
	t.note(f.facts...)
	t.note(f.received.Facts...)
	t.note(f.sent.Facts...)
}
