package iperf3

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// tick is how often a test is looked at while it runs.
	tick = admission.RateTick
	// failureWait is how long after a stream failed the client may say why.
	failureWait = 2 * time.Second
	// restTimeout bounds the wait for bytes that the client sent before the end
	// of a test of so many bytes.
	restTimeout = 2 * time.Second
)

// row is what all streams had moved at a time.
type row struct {
	at    time.Duration
	bytes []int64
}

// begin starts the streams.
func (t *session) begin() error {
	for _, s := range t.streams {
		if t.udp {
			break
		}
		if name := t.params.Congestion; name != "" {
			err := s.conn.SetOptions(sockets.Options{CongestionControl: name})
			if err != nil && !noSuchAlgorithm(err) {
				return refuseErrno(codeCongestion, err, "use "+name)
			}
			if err != nil && len(t.facts) == 0 {
				t.facts = append(t.facts, "this host does not have the congestion control algorithm "+name)
			}
		}
		t.congestion = s.conn.CongestionControl()
	}
	t.usage = startUsage()
	t.start = time.Now()
	t.clock = t.params.clock(t.start)
	if err := t.say(testStart, testRunning); err != nil {
		return err
	}
	for _, s := range t.streams {
		s.launch()
	}
	return nil
}

// longest is when the test has to be over, since its start.
func (t *session) longest() time.Duration {
	if t.params.Time == 0 {
		return t.server.opts.MaxDuration
	}
	return t.omit + t.params.length() + endTimeout
}

// run waits for the client to end the test.
func (t *session) run() error {
	l := listen(t.control)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	limit := time.NewTimer(time.Until(t.start.Add(t.longest())))
	defer limit.Stop()
	omitted := time.NewTimer(time.Until(t.start.Add(t.omit)))
	defer omitted.Stop()
	watch := watch{session: t}
	var lost error
	var patience <-chan time.Time
	for {
		select {
		case m := <-l.message:
			if m.err == nil && m.state == testEnd {
				t.ended = time.Since(t.start)
				return nil
			}
			return m.unexpected()
		case <-limit.C:
			return errors.Join(refuse(codeExpired, "the test did not end within %v", t.longest()), l.end())
		case <-omitted.C:
			for _, s := range t.streams {
				s.omitRetransmits = s.retransmits()
			}
		case <-ticker.C:
			if err := watch.look(); err != nil {
				return errors.Join(err, l.end())
			}
		case lost = <-t.failed:
			// The client tells why, if it still can.
			patience = time.After(failureWait)
		case <-patience:
			return errors.Join(streamLost(lost), l.end())
		}
	}
}

func streamLost(err error) error {
	if errors.Is(err, io.EOF) {
		return refuse(codeStreamTransfer, "the client closed a stream before the end of the test")
	}
	return refuseErrno(codeStreamTransfer, err, "a stream failed")
}

// watch compares a running test with the limits.
type watch struct {
	*session
	rate admission.RateWatch
	// looks counts them; marked is what had moved at the last idleTimeout.
	looks  int
	marked int64
}

func (w *watch) look() error {
	r := row{at: time.Since(w.start), bytes: make([]int64, len(w.streams))}
	var moved int64
	for i, s := range w.streams {
		r.bytes[i] = s.bytes.Load()
		moved += r.bytes[i]
	}
	if w.params.ServerOutput && len(w.rows)*len(r.bytes) < maxCells {
		w.rows = append(w.rows, r)
	}
	if w.looks++; time.Duration(w.looks)*tick%idleTimeout == 0 {
		if least := w.params.leastRate() * idleTimeout.Seconds(); float64(moved-w.marked) < least {
			return refuse(codeNoMessage, "%d bytes moved in %v, less than the %.0f that keep a test going", moved-w.marked, idleTimeout, least)
		}
		w.marked = moved
	}
	return w.compare(r.at, moved)
}

// compare compares what had been moved at a time since the start with the limit of the rate.
func (w *watch) compare(at time.Duration, moved int64) error {
	limit := w.server.opts.MaxRate
	if limit <= 0 {
		return nil
	}
	// Clients pace whole blocks.
	if rate, over, exceeds := w.rate.Exceeds(at, moved, limit, min(w.params.Len*float64(w.params.streams()), admission.RateBurst)); exceeds {
		return refuse(codeTotalRate, "%.0f bit/s over %v, this server allows %.0f", rate, over, limit)
	}
	return nil
}

// finish exchanges the results.
func (t *session) finish() error {
	// A client that sends so many bytes says it is done when it has handed them
	// to its kernel: the rest still comes, and is part of the result.
	rest := t.params.limited() && !t.udp && t.omit == 0 && !bool(t.params.Reverse)
	user, system := t.usage.percent()
	if !rest {
		t.end(t.streams)
	}
	for _, s := range t.streams {
		s.halt.Store(true)
	}
	if err := t.say(exchangeResults); err != nil {
		return err
	}
	// The client now expects the length of a message: it cannot be told of an
	// error, only be left.
	var theirs results
	if err := readMessage(t.control, maxResults(len(t.streams)), &theirs); err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	far, err := theirs.check(len(t.streams))
	if err != nil {
		return err
	}
	if rest {
		t.takeRest(far)
		t.end(t.streams)
	}
	ours := t.results(rest)
	ours.CPUTotal, ours.CPUUser, ours.CPUSystem = user+system, user, system
	if t.params.ServerOutput {
		ours.OutputText = t.text(ours, far)
	}
	if err := writeMessage(t.control, ours); err != nil {
		return err
	}
	if err := writeState(t.control, displayResults); err != nil {
		return err
	}
	t.report(ours)
	t.goodbye()
	return nil
}

// takeRest waits for what the client had sent when it ended the test.
func (t *session) takeRest(far []streamResult) {
	timer := time.NewTimer(restTimeout)
	defer timer.Stop()
	for i, s := range t.streams {
		if s.sender {
			continue
		}
		select {
		case <-s.await(int64(far[i].Bytes)):
		case <-timer.C:
			t.facts = append(t.facts, "not all that the client sent arrived in time")
			return
		}
	}
}

// results are this end's. With exact, a stream that came here ended with its last byte.
func (t *session) results(exact bool) results {
	ours := results{HasRetransmits: -1, Congestion: t.congestion}
	for _, s := range t.streams {
		end := t.ended
		if exact && !s.sender {
			end = time.Duration(s.last.Load())
		}
		if s.sender {
			ours.HasRetransmits = 0
			if !t.udp {
				ours.HasRetransmits = 1
			}
		}
		ours.Streams = append(ours.Streams, s.result(end, s.retransmits()))
	}
	return ours
}

// goodbye waits until the client has read everything. However it leaves, the
// test is complete.
func (t *session) goodbye() {
	var b [1]byte
	_, _ = io.ReadFull(t.control, b[:])
}

func (t *session) report(ours results) {
	var bytes float64
	for _, s := range ours.Streams {
		bytes += s.Bytes
	}
	t.log.Debug("iperf3 test done", "protocol", strings.ToLower(t.protocol()), "streams", len(ours.Streams), "reverse", bool(t.params.Reverse),
		"bidirectional", bool(t.params.Bidirectional), "seconds", t.ended.Seconds(), "bytes", int64(bytes), "facts", t.facts)
}
