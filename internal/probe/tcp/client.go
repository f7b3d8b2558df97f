package tcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
	"github.com/hopbench/hopbench/internal/thread"
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
	*session.Link
	number   int
	send     *sender   // of a flow on which this end sends, else nil
	receive  *receiver // of the others
	received protocol.Received
	sent     protocol.Sent
	untold   bool // the other end did not say what it sent
	// before is what was acknowledged before the payload, counted what was counted last.
	before  int64
	counted session.FlowCount
	reading sync.Mutex // of counted
	facts   []string
}

// test is a tcp test in progress at the client.
type test struct {
	req   session.Request
	bulk  *bulk
	flows []*flow
	start time.Time
	facts []string
	rtts  *tcpinfo.RTTMeter // of one of several pairs, else nil
	early *early            // unless nil, the test may end before its planned end
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (out measurement.Outcome, err error) {
	if !session.SharesPoller(req.Spec) {
		// Both ends know it from the spec.
		threads, giveBack := session.TakeThreads(kind.Connections(req.Spec))
		defer giveBack()
		req.Spec.ShareThreads = !threads
	}
	t := &test{req: req, bulk: newBulk(), flows: make([]*flow, kind.Connections(req.Spec))}
	if req.Spec.Pairs > 1 {
		t.rtts = tcpinfo.NewRTTMeter(session.Planned(req.Spec), session.BinsOfEach(req.Spec.Pairs))
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.connect(ctx); err != nil {
		return out, err
	}
	t.early = t.mayEndEarly()
	for _, f := range t.flows {
		if err := t.build(f); err != nil {
			return out, err
		}
	}
	defer t.keepProcessors()()
	stop := context.AfterFunc(ctx, func() {
		for _, f := range t.flows {
			f.Conn.Interrupt()
		}
	})
	defer stop()
	transfers, err := t.ready()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, transfers.end()) }()
	begun, err := req.AwaitCommonStart(ctx)
	if err != nil {
		return out, err
	}
	err = t.begin()
	begun()
	if err != nil {
		return out, err
	}
	host := host.StartSampler(t.start)
	defer host.End()
	ttl := datagram.StartTTLProbe(ctx, t.req, t.flows[0].Ready)
	defer ttl.End()
	progress(measurement.Progress{Elapsed: measurement.SecondsOf(time.Since(t.start))}) // it has begun
	signs := sampling.Start(session.ProgressInterval, session.ThroughputProgress(t.start, t.moved, progress))
	t.mark()
	ended := t.watch()
	settled := t.settle()
	err = transfers.run()
	settled()
	ended()
	signs.End()
	if err != nil {
		return out, err
	}
	return t.outcome(host.On(t.flows[0].Local), ttl.Result())
}

func (t *test) sends(f *flow) bool { return session.ClientSends(t.req.Spec, f.number) }

// note adds facts, each once: flows share most of them.
func (t *test) note(facts ...string) { t.facts = session.AppendNew(t.facts, facts...) }

func (t *test) connect(ctx context.Context) error {
	atOnce := max(session.ConnectAtOnce, len(t.flows)/session.ConnectAtOncePart)
	return session.OpenFlows(ctx, len(t.flows), atOnce, func(ctx context.Context, testID string, i int) error {
		l, err := session.Connect(ctx, t.req, testID, i)
		if err == nil {
			t.flows[i] = &flow{Link: l, number: i}
		}
		return err
	})
}

// build prepares a flow's socket and its kind of loop. What takes time is done
// here, before the start that many clients may have in common: to gather a huge
// page, the kernel waits for every CPU.
func (t *test) build(f *flow) (err error) {
	spec := t.req.Spec
	if err := prepare(f.Conn, paced(spec, f.Ready.MaxRateBitsPerSecond), t.sends(f)); err != nil {
		return &session.Error{Op: "prepare the socket", Reason: session.Unsupported, Err: err}
	}
	w := session.ControlConn{Conn: f.Conn}
	most := 0
	if session.SharesPoller(spec) && f.number > 0 { // the first one brings what the host spent, too
		bins, _ := session.BinsOf(spec)
		most = reportBytes + bins*binBytes
	}
	if t.sends(f) {
		if f.send, err = t.bulk.newSender(w, paced(spec, f.Ready.MaxRateBitsPerSecond), f.number); err == nil {
			f.send.most = most
			f.send.over = t.over()
		}
		return err
	}
	f.receive = newReceiver(w, spec, t.bulk.buffer(f.Conn, spec, f.number), f.Ready.SenderPaces)
	f.receive.most = most
	f.receive.over = t.over()
	return nil
}

// keepProcessors gives those flows that are better off with one a processor of the Go
// runtime each, until remove is called.
func (t *test) keepProcessors() (remove func()) {
	var keeping []*flow
	for _, f := range t.flows {
		if keepsProcessor(t.req.Spec, f.senderPaces()) {
			keeping = append(keeping, f)
		}
	}
	remove, ok := thread.AddProcessors(len(keeping))
	if !ok {
		return remove
	}
	keeper := sockets.NewKeeper(len(keeping))
	for _, f := range keeping {
		f.Conn.KeepProcessor(keeper)
	}
	return remove
}

// senderPaces says whether the congestion control of the sending end paces.
func (f *flow) senderPaces() bool {
	if f.send != nil {
		return sockets.Paces(f.Conn.CongestionControl())
	}
	return f.Ready.SenderPaces
}

// begin sends START on every flow.
func (t *test) begin() error {
	spec := t.req.Spec
	t.start = time.Now()
	if t.req.Hooks != nil {
		t.req.Hooks.Started(t.start)
	}
	deadline := t.start.Add(session.Planned(spec) + grace(spec))
	for _, f := range t.flows {
		w := session.ControlConn{Conn: f.Conn, Deadline: deadline}
		if err := protocol.WriteFrame(&w, protocol.TypeStart, nil); err != nil {
			return session.Wrap("start flow", err)
		}
		if f.send != nil {
			f.send.Deadline = deadline
			f.send.info = watchFlow(f.Conn, t.start, spec, t.rtts)
			continue
		}
		r := f.receive
		r.Deadline, r.start = deadline, t.start
		r.finished = func() error {
			return protocol.WriteFrame(&r.ControlConn, protocol.TypeReceived, protocol.Received{})
		}
	}
	return nil
}

// transfer runs the flow. Of ten thousand, the stack of each counts while it waits: what is
// large is in the functions that are called after that.
func (f *flow) transfer(req *session.Request) error {
	if f.send != nil {
		return f.allSent(req, f.send.run(&f.received))
	}
	stopClamp := keepClamp(f.Conn, &req.Spec)
	sent, err := f.receive.run()
	stopClamp()
	return f.allReceived(req, sent, err)
}

// allSent is what is left to do when the flow has sent.
func (f *flow) allSent(req *session.Request, err error) error {
	if req.Watch != nil {
		f.count() // there is nobody to ask any more soon
	}
	if err == nil && f.stalled(req.Spec) {
		err = session.ErrSilent
	}
	info := f.send.info
	info.End()
	f.sent = protocol.Sent{
		Bytes: f.send.sent.Load(), Final: info.Final, Info: info.Series,
		Effective: senderEffective(f.send, req.Spec), Facts: info.Facts(),
	}
	f.facts = senderFacts(f.send, req.Spec)
	// Throw away what is still queued here: it belongs to no measurement.
	return errors.Join(err, f.Conn.Abort())
}

// stalled says that nothing arrived in the last tenth of the other end's count, and that nothing
// of what was sent is acknowledged for as long as a receiver waits for a silent end: the path
// lost the flow. The other end's count came back, as it has nothing else to wait for. A flow that
// starves among others has few timeouts in a row, unless it starved for half of the count.
func (f *flow) stalled(spec measurement.Spec) bool {
	bins := f.received.Bins.Bytes
	before, _, ok := f.Conn.Acknowledged()
	info, err := f.Conn.TCPInfo(0)
	if came(bins[len(bins)*9/10:]) || !ok || err != nil || info.SentBytes-info.RetransmittedBytes <= before {
		return false
	}
	for end := time.Now().Add(grace(spec) - 2*session.Grace); time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		if now, _, ok := f.Conn.Acknowledged(); !ok || now > before || f.Conn.Readable() {
			return false // also a connection that has ended
		}
	}
	return !came(bins[len(bins)/2:]) || f.Conn.LostInARow() >= lostTimeouts
}

// lostTimeouts is how many timeouts in a row are no chance. With round trips of up to 0.1 s there
// are so many in the time that is waited.
const lostTimeouts = 4

// allReceived is what is left to do when the flow has received; sent is nil where the
// sender's own figures did not come.
func (f *flow) allReceived(req *session.Request, sent *protocol.Sent, err error) error {
	f.received = protocol.Received{Info: f.receive.info, Effective: receiverEffective(f.receive, req.Spec)}
	f.facts = receiverFacts(f.receive, req.Spec)
	if err == nil && sent == nil && f.receive.stalled() {
		err = session.ErrSilent
	}
	if err == nil && sent == nil {
		f.facts = append(f.facts, "the sender's own figures did not arrive in time; what the receiver counted is complete")
	}
	if f.untold = sent == nil; !f.untold {
		f.sent = *sent
	}
	return err
}

func (t *test) close() error {
	for _, f := range t.flows {
		if f == nil {
			continue
		}
		if f.send != nil && f.send.info != nil {
			f.send.info.End()
		}
		// Nothing of interest is left to be delivered, and nobody to tell.
		_ = f.Conn.Abort()
	}
	return session.Wrap("give back the payload", t.bulk.close())
}

// mark notes how much of each flow was acknowledged before its payload, where its count is
// looked at: of ten thousand flows, each system call before the start counts.
func (t *test) mark() {
	if t.req.Watch == nil && t.early == nil {
		return
	}
	for _, f := range t.flows {
		if f.send != nil {
			f.before, _, _ = f.Conn.Acknowledged()
		}
	}
}

// watch has whoever wants to watch the flows, until the returned function is called. The
// kernel tells of one path of a connection of Multipath TCP, and not of all.
func (t *test) watch() (ended func()) {
	if t.req.Watch == nil || t.req.Spec.MPTCP {
		return func() {}
	}
	read := make([]session.ReadFlow, len(t.flows))
	for i, f := range t.flows {
		read[i] = f.count
	}
	return t.req.Watch(t.start, read)
}

// count is what the flow has counted so far.
func (f *flow) count() (session.FlowCount, bool) {
	if f.receive != nil {
		return session.FlowCount{Bytes: f.receive.count.Load()}, true
	}
	f.reading.Lock()
	defer f.reading.Unlock()
	if bytes, info, ok := f.Conn.Acknowledged(); ok {
		f.counted = session.FlowCount{Bytes: max(bytes-f.before, 0), RTT: info.RTT.Duration(), CongestionWindow: info.CongestionWindow, Retransmits: info.Retransmits}
	}
	return f.counted, f.counted != session.FlowCount{}
}

// moved is how many bytes this end has sent and received so far.
func (t *test) moved() (sum int64) {
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
func (t *test) outcome(local *protocol.HostSeries, localTTL int) (measurement.Outcome, error) {
	spec := t.req.Spec
	bins, width := session.BinsOf(spec)
	for i, f := range t.flows {
		if f.receive != nil {
			f.received.Bins = f.receive.counted()
		}
		if err := checkFlow(f, bins, width); err != nil {
			return measurement.Outcome{}, session.Wrap(fmt.Sprintf("count of flow %d", i+1), err)
		}
	}
	sum := measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, bins)}
	for _, f := range t.flows {
		for i, n := range f.received.Bins.Bytes {
			sum.Bytes[i] += n
		}
	}
	window := chooseWindow(sum.Bytes, width, spec)
	if e := t.early; e != nil && e.over.Load() {
		window, sum.Bytes = e.window, sum.Bytes[:min(len(e.bins), bins)]
	}
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
		servers[i] = f.Ready.Server
	}
	t.note(datagram.Destinations(t.flows[0].Remote, servers)...)
	t.addMetrics(&out, from, to)
	if seen := largestWindow(out.Flows, from, to); spec.WindowBytes > 0 && float64(seen) > clampTolerance*float64(spec.WindowBytes) {
		t.note(fmt.Sprintf("the receive window reached %d bytes although %d were asked for", seen, spec.WindowBytes))
	}
	remote := t.flows[0].received.Host
	if !t.sends(t.flows[0]) {
		remote = t.flows[0].sent.Host
	}
	out.Source = host.EndOf(local, from, to, localTTL)
	out.Destination = host.EndOf(remote, from, to, t.flows[0].Ready.ReceivedTTL)
	host.AddCost(&out, to-from, out.Metrics["goodput_bits_per_second"]*(to-from)/8, 0)
	if t.req.Spec.Pairs > 1 {
		out.Pairs = []measurement.Pair{{RTT: t.rtts.Series(out.Flows)}}
	}
	thinFlows(out.Flows, t.req.Spec.Pairs)
	if ready := t.flows[0].Ready; paced(spec, ready.MaxRateBitsPerSecond) != spec {
		t.note(session.PacedBy(ready.MaxRateBitsPerSecond))
		out.Effective["pacing_bits_per_second"] = strconv.FormatFloat(paced(spec, ready.MaxRateBitsPerSecond).PacingBitsPerSecond, 'f', -1, 64)
	}
	out.Facts = t.facts
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

func (t *test) addFlow(out *measurement.Outcome, f *flow, w window) {
	result := measurement.Flow{
		Source: f.Local, Destination: f.Ready.Server,
		Reverse:   t.req.Spec.Direction == measurement.Both && !t.sends(f),
		SentBytes: f.sent.Bytes, Final: f.sent.Final, Info: f.sent.Info,
		Receiver: f.received.Info,
	}
	for _, n := range f.received.Bins.Bytes[w.first:w.last] {
		result.ReceivedBytes += int64(n)
	}
	out.Flows = append(out.Flows, result)
	session.AddEffective(out, f.sent.Effective, f.received.Effective)
	t.note(f.TranslatedSource()...)
	t.note(f.facts...)
	t.note(f.received.Facts...)
	t.note(f.sent.Facts...)
}

// checkFlow compares what the two ends of a tcp flow counted with each other.
func checkFlow(f *flow, bins int, width time.Duration) error {
	if err := session.CheckBins(f.received.Bins, bins, width); err != nil {
		return err
	}
	if f.send != nil {
		return session.CheckAtMost("bytes", session.Sum(f.received.Bins.Bytes), f.send.sent.Load())
	}
	if f.untold {
		return nil // which the outcome says
	}
	return session.CheckAtMost("bytes", float64(f.receive.count.Load()), f.sent.Bytes)
}
