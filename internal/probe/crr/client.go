package crr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// ThreadCallers is up to how many connections at a time have a thread each.
	// More share the runtime's poller: on 2 processors, 1000 threads made half as
	// many connections a second as 1100 goroutines, some of them after 1.6 s.
	ThreadCallers = measurement.MaxThreadedConnections
	// transactionTimeout is how long one transaction may take.
	transactionTimeout = 5 * time.Second
	// scarce is how long a caller rests when this host is out of ports or
	// descriptors: trying at once would only keep a CPU busy.
	scarce = time.Millisecond
	// manySegments is the size from which a request surely needs several
	// segments, so that Nagle's algorithm would hold back the last.
	manySegments = 400
	// watchInterval is how often the control connection is looked at.
	watchInterval = 50 * time.Millisecond
)

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	testID, err := session.NewID()
	if err != nil {
		return measurement.Outcome{}, err
	}
	t := &test{req: req}
	defer t.close()
	if req.Spec.Flows <= ThreadCallers {
		var giveBack func()
		t.threads, giveBack = session.TakeThreads(req.Spec.Flows)
		defer giveBack()
	}
	req.Placed = t.threads && req.Spec.Placed()
	if t.controls, err = connectControls(ctx, req, testID); err != nil {
		return measurement.Outcome{}, err
	}
	dialing, halt := context.WithCancel(ctx)
	defer halt()
	t.halt = func() { t.stop.Store(true); halt() }
	defer context.AfterFunc(ctx, func() {
		t.halt()
		for _, c := range t.controls {
			c.Conn.Interrupt()
		}
	})()
	if t.ends, err = session.PlacedBy(req.Spec, t.controls[0].Ready); err != nil {
		return measurement.Outcome{}, session.Wrap("read where the ends run", err)
	}
	ttl := datagram.StartTTLProbe(ctx, req, t.controls[0].Ready)
	defer ttl.End()
	localTTL := ttl.Result() // before the loop, which nothing should disturb
	if err := t.run(dialing, progress); err != nil {
		return measurement.Outcome{}, err
	}
	return t.outcome(localTTL)
}

// test is a crr test at the client.
type test struct {
	req      session.Request
	controls []*control // at least one
	threads  bool       // each caller has one of its own
	ends     session.Placement
	start    time.Time
	stop     atomic.Bool
	halt     func() // sets stop, and ends what is being dialled
	tally    tally
	host     *protocol.HostSeries
}

// tally is what all callers together counted in the measured time.
type tally struct {
	mu                            sync.Mutex
	connect, transaction, closing *latency.Recorder
	began, failed, everFailed     int64
	failure                       error // the first
	last                          time.Duration
	// served is when the last transaction ended well, failedSince how many failed after it, and why
	// the first of those did.
	served      time.Duration
	failedSince int64
	why         error
}

func (t *test) run(dialing context.Context, progress func(measurement.Progress)) error {
	spec := t.req.Spec
	t.tally.connect, t.tally.transaction, t.tally.closing = latency.New(), latency.New(), latency.New()
	callers := make([]*caller, spec.Flows)
	for i := range callers {
		var err error
		if callers[i], err = t.newCaller(dialing); err != nil {
			return session.Wrap("prepare the connections", err)
		}
	}
	begun, err := t.req.AwaitCommonStart(dialing)
	if err != nil {
		return err
	}
	defer begun()
	t.start = time.Now()
	for _, c := range t.controls {
		if err := c.begin(t.start.Add(session.Planned(spec) + session.Grace)); err != nil {
			return err
		}
	}
	begun()
	host := host.StartSampler(t.start)
	defer host.End()
	signs := sampling.Start(session.ProgressInterval, session.RTTProgress(t.start, t.newest, progress))
	// The server says nothing on the control connection while the test runs,
	// so that anything there is its end.
	watch := sampling.Start(watchInterval, func() {
		for _, c := range t.controls {
			if c.Conn.Readable() {
				t.halt()
			}
		}
	})
	var group errgroup.Group
	for _, c := range callers {
		c.start = t.start
		group.Go(func() error {
			if t.threads {
				defer sockets.Lock()()
			}
			return session.Pinned(t.ends.Source, c.run)
		})
	}
	err = group.Wait()
	watch.End()
	signs.End()
	t.host = host.Result()
	if err != nil {
		return session.Wrap("place the source's threads", err)
	}
	for _, c := range t.controls {
		if err := c.end(time.Now().Add(session.Grace)); err != nil {
			return err
		}
		if err := checkAnswered(c.report, t.tally.began); err != nil {
			return session.Wrap("read the server's report", err)
		}
	}
	return nil
}

// newest is how long the last transaction took since it was asked for, 0 where there was none.
func (t *test) newest() (last time.Duration) {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	last, t.tally.last = t.tally.last, 0
	return last
}

func (t *test) outcome(localTTL int) (measurement.Outcome, error) {
	spec, y, server := t.req.Spec, &t.tally, t.controls[0]
	n := y.transaction.Samples()
	if n == 0 {
		err := cmp.Or(y.failure, session.ErrSilent)
		return measurement.Outcome{}, &session.Error{Op: "crr test", Reason: session.ReasonOf(err), Err: fmt.Errorf("none of %d connections was served: %w", max(y.everFailed, 1), err)}
	}
	if err := t.refused(n); err != nil {
		return measurement.Outcome{}, err
	}
	whole := y.transaction.Distribution()
	out := measurement.Outcome{
		Started: t.start, Warmup: spec.MaxWarmup, Latency: &whole,
		Metrics: measurement.Metrics{
			"connections_per_second":      float64(n) / float64(spec.Duration),
			"failed_connections_count":    float64(y.failed),
			"failed_connections_fraction": float64(y.failed) / float64(y.failed+n),
		},
		Effective: map[string]string{"first_to_close": "destination", "flow_scheduling": session.Scheduling(t.threads), "placement": t.ends.Name, "source_wait": t.wait()},
		Facts:     slices.Concat(t.ends.Facts(spec), server.report.Facts, t.backends()),
	}
	latency.AddPercentiles(out.Metrics, "connect", y.connect.Distribution(), 50, 99)
	latency.AddPercentiles(out.Metrics, "transaction", whole, 50, 99)
	latency.AddPercentiles(out.Metrics, "close", y.closing.Distribution(), 50)
	if y.failed > 0 {
		out.Facts = append(out.Facts, fmt.Sprintf("%s failed and %d were served; the first failure: %v", quantity.Count(int(y.failed), "connection"), n, y.failure))
	}
	from := float64(spec.MaxWarmup)
	out.Source = host.EndOf(t.host, from, from+float64(spec.Duration), localTTL)
	out.Destination = host.EndOf(server.report.Host, from, from+float64(spec.Duration), server.Ready.ReceivedTTL)
	return out, nil
}

// refused is an error where a path took no more connections from some moment on, though n were
// served. Each that comes to nothing takes its time, so that few do. One that nobody answered was
// waited for after the end as well; others count where they are those of half of the measured time.
func (t *test) refused(n int64) error {
	spec, y := t.req.Spec, &t.tally
	reason, part := session.ReasonOf(y.why), 0.5
	if reason == session.TimedOut {
		part = 0.1
	}
	silent := spec.MaxWarmup + spec.Duration - measurement.SecondsOf(y.served)
	if !reason.OfPath() || float64(silent) < part*float64(spec.Duration) {
		return nil
	}
	return &session.Error{Op: "crr test", Reason: reason, Err: fmt.Errorf("%s failed and none was served in the last %.2g s of %.2g s, though %d were before: %w",
		quantity.Count(int(y.failedSince), "connection"), float64(silent), float64(spec.MaxWarmup+spec.Duration), n, y.why)}
}

// wait is how this end waits for responses.
func (t *test) wait() string {
	if t.threads {
		return measurement.WaitBlocking
	}
	return measurement.WaitPoller
}

// connector makes one connection after the other, on a thread of the caller's own or
// with the runtime's poller. Nothing in it waits for longer than a tick.
type connector interface {
	io.ReadWriteCloser
	Connect() error
}

// caller does one transaction after the other.
type caller struct {
	connector
	tally                *tally
	start                time.Time
	warmup, end          time.Duration
	stop                 *atomic.Bool
	request, in          []byte
	response             int
	connected, responded time.Duration // since START, of the transaction in progress
	deadline             time.Duration
}

func (t *test) newCaller(ctx context.Context) (*caller, error) {
	spec := t.req.Spec
	var c *caller
	var connector connector = newPolledConnector(ctx, t.req, func() time.Duration { return c.deadline - time.Since(c.start) })
	if t.threads {
		var err error
		connector, err = sockets.NewConnector(sockets.ConnectOptions{
			Remote: t.req.Target, Local: t.req.Source, Device: spec.Device, DSCP: spec.DSCP,
			NoDelay: spec.RequestBytes > manySegments,
		})
		if err != nil {
			return nil, err
		}
	}
	c = &caller{
		connector: connector, tally: &t.tally, stop: &t.stop,
		warmup:   spec.MaxWarmup.Duration(),
		end:      (spec.MaxWarmup + spec.Duration).Duration(),
		request:  make([]byte, protocol.TransactionBytes+spec.RequestBytes),
		in:       make([]byte, spec.ResponseBytes+1),
		response: spec.ResponseBytes,
	}
	protocol.PutTransaction(c.request, t.controls[0].Ready.Cookie)
	return c, nil
}

// run does transactions until the end. Where the host is so busy that the first is
// late, there is still one of the measured time.
func (c *caller) run() error {
	for measured := false; !c.stop.Load(); {
		began := time.Since(c.start)
		if began >= c.end && measured {
			break
		}
		measured = measured || began >= c.warmup
		c.deadline = min(began+transactionTimeout, c.end+session.Grace-session.Reporting)
		err := c.dialogue()
		err = errors.Join(err, c.Close())
		closed := time.Since(c.start)
		c.count(began, closed, err)
		if isScarce(err) {
			time.Sleep(scarce)
		}
	}
	return nil
}

// dialogue makes one connection, sends the request, and reads the response and
// the end, which the server sends first.
func (c *caller) dialogue() error {
	for {
		err := c.Connect()
		if err == nil {
			break
		}
		if err := c.wait(err); err != nil {
			return err
		}
	}
	c.connected = time.Since(c.start)
	for done := 0; done < len(c.request); {
		n, err := c.Write(c.request[done:])
		if done += n; err != nil || done < len(c.request) {
			if err := c.wait(err); err != nil {
				return err
			}
		}
	}
	for got := 0; ; {
		n, err := c.Read(c.in[got:])
		got += n
		switch {
		case got > c.response:
			return fmt.Errorf("%w: the response is longer than %d bytes", protocol.ErrMalformed, c.response)
		case n > 0 && got == c.response:
			c.responded = time.Since(c.start)
		case err == io.EOF && got == c.response: //nolint:errorlint // Read's very value, in a hot loop
			return nil
		case err == io.EOF: //nolint:errorlint // as above
			return io.ErrUnexpectedEOF
		default: // nothing yet, or a part: a trickle must not be waited for
			if err := c.wait(err); err != nil {
				return err
			}
		}
	}
}

// wait lets a tick or a part of a message pass, up to the deadline, and returns every
// other error.
func (c *caller) wait(err error) error {
	if err != nil && err != sockets.ErrTick { //nolint:errorlint // the sockets' very value, in a hot loop
		return err
	}
	if time.Since(c.start) > c.deadline || c.stop.Load() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// count books a transaction, if it began in the measured time or is the first to end. How
// long it takes decides nothing: those that outlast the end are the slow ones.
func (c *caller) count(began, closed time.Duration, err error) {
	y := c.tally
	y.mu.Lock()
	defer y.mu.Unlock()
	y.began++
	if err != nil {
		if c.stop.Load() {
			return // it was this test that ended it
		}
		y.everFailed++
		if y.failure == nil {
			y.failure = explainScarce(err)
		}
		if began >= c.warmup {
			y.failed++
		}
		if !isScarce(err) {
			y.failedSince++
			y.why = cmp.Or(y.why, err)
		}
		if began >= c.warmup && !isScarce(err) {
			y.transaction.Lose(1)
			if c.connected < began {
				y.connect.Lose(1)
			}
		}
		return
	}
	y.last = c.responded - began
	y.served, y.failedSince, y.why = closed, 0, nil
	if began < c.warmup || began >= c.end && y.transaction.Samples() > 0 {
		return
	}
	y.connect.Record(c.connected - began)
	y.transaction.Record(c.responded - began)
	y.closing.Record(closed - c.responded)
}

// isScarce says that this host has run out of something that connections need
// and that comes back by itself.
func isScarce(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || sockets.OutOfDescriptors(err) || errors.Is(err, syscall.ENOBUFS)
}

func explainScarce(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: no local port was free, or the source address is not this host's: see sysctl net.ipv4.ip_local_port_range, and that nothing on the way keeps the server from closing first", err)
	case sockets.OutOfDescriptors(err):
		return fmt.Errorf("%w: allow more open files (ulimit -n)", err)
	}
	return err
}
