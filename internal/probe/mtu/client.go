package mtu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

const (
	// Bounds of the search: what IPv4 and IPv6 links must carry (RFC 791,
	// RFC 8200), the largest of common jumbo frames, and of IP packets.
	leastMTU4, leastMTU6 = 68, 1280
	jumboMTU             = 9216
	largestMTU           = 65535
	// tries is how many probes of one size are sent together: one that is
	// lost must not look like a limit.
	tries = 3
	// sizesAtOnce is how many sizes are tried at a time.
	sizesAtOnce = 36
	// mostHints is how many sizes that routers named are tried.
	mostHints = 4
	// mostPauses is how often a search goes on after the path stood still.
	mostPauses = 3
	// mostRounds bounds a search: so many sizes at a time find any in six.
	mostRounds = 8
	// readTick is how often a wait for packets looks for its end.
	readTick = 5 * time.Millisecond
	// pause is the pause between two sizes, for short queues.
	pause = time.Millisecond
	// firstAnswer is how long the first answer may take, and with it the round trip
	// become known.
	firstAnswer = 3 * time.Second
	// jitter is how much longer than two round trips an answer may take.
	jitter = 100 * time.Millisecond
)

// test is an mtu test in progress at the client.
type test struct {
	conn    *sockets.Conn
	cookie  []byte
	timeout time.Duration
	until   time.Time     // when waiting for answers has to end
	rtt     time.Duration // of the first probe that was answered, 0 before
	headers int           // bytes of IP and UDP headers
	sizes   []int         // of the probes, by sequence number less one
	in      []byte
	tooBig  []sockets.PathError // what routers answered
}

// Run does one test from this host.
func Run(ctx context.Context, req session.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	l, err := session.ConnectSingle(ctx, req)
	if err != nil {
		return measurement.Outcome{}, err
	}
	control := session.ControlConn{Conn: l.Conn, Deadline: time.Now().Add(session.HandshakeTimeout)}
	defer func() { _ = control.Abort() }() // whatever it says, the test is over
	defer context.AfterFunc(ctx, control.Interrupt)()
	conn, reached, err := datagram.Open(ctx, req, l, 0, sockets.ProbeMTU, 0)
	if err != nil {
		return measurement.Outcome{}, err
	}
	defer func() { _ = conn.Close() }() // a UDP socket has nothing to flush
	defer context.AfterFunc(ctx, conn.Interrupt)()
	if err := conn.SetFragmentMode(sockets.ProbeMTU); err != nil {
		return measurement.Outcome{}, &session.Error{Op: "probe the MTU", Reason: session.Unsupported, Err: err}
	}
	control.Deadline = time.Now().Add(session.StartTimeout)
	if err := protocol.WriteFrame(&control, protocol.TypeStart, nil); err != nil {
		return measurement.Outcome{}, session.Wrap("start", err)
	}
	t := &test{
		conn: conn, cookie: l.Ready.Cookie, timeout: req.Spec.Timeout.Duration(),
		until:   time.Now().Add(planned(req.Spec) + grace(req.Spec) - session.Reporting),
		headers: conn.IPHeaderBytes() + datagram.UDPHeaderBytes, in: make([]byte, datagram.MaxBytes+1),
	}
	out, err := t.run(ctx, reached)
	if err != nil {
		return out, err
	}
	control.Deadline = time.Now().Add(session.Grace)
	var report protocol.Report
	if err := control.EndTest(&report); err != nil {
		return out, err
	}
	out.Facts = append(out.Facts, report.Facts...)
	out.Destination.ReceivedTTL = l.Ready.ReceivedTTL
	return out, nil
}

// run searches there, and then back within what passes there.
func (t *test) run(ctx context.Context, reached protocol.Reached) (measurement.Outcome, error) {
	out := measurement.Outcome{Metrics: measurement.Metrics{}, Effective: map[string]string{}}
	unread := t.conn.QueuePathErrors(true)
	if unread != nil {
		out.Facts = append(out.Facts, fmt.Sprintf("answers of routers cannot be read: %v", unread))
	}
	t.conn.SetReceiveBuffer(0)
	if err := t.conn.SetReadTick(readTick); err != nil {
		return out, session.Wrap("prepare the socket", err)
	}
	out.Effective["ip_header_bytes"] = fmt.Sprint(t.conn.IPHeaderBytes())
	least, most := leastMTU4, jumboMTU
	if t.conn.IPHeaderBytes() > 20 {
		least = leastMTU6
	}
	device, name := 0, ""
	if a, err := netip.ParseAddrPort(t.conn.LocalAddr()); err == nil {
		device, name = sockets.InterfaceMTU(a.Addr())
	}
	// The one that has the address need not be the one that packets leave by.
	if own := t.ownMTU(); unread == nil && own > 0 && own != device {
		device, name = own, ""
	}
	if device > 0 {
		most = min(device, largestMTU)
		out.Effective["interface_mtu_bytes"] = fmt.Sprint(device)
	}
	if name != "" {
		out.Effective["interface"] = name
	}
	forward, err := t.search(ctx, datagram.Probe, least, most)
	if err != nil {
		return out, err
	}
	if forward < least {
		return out, &session.Error{Op: "probe the MTU", Reason: session.TimedOut, Err: fmt.Errorf(
			"not even packets of %d bytes are answered, although a first one was seen from %s: a firewall may drop UDP", least, reached.Client)}
	}
	limit, fact := t.limit(forward, most, name, device)
	out.Effective["path_mtu_limit"] = limit
	facts := []string{fact}
	back, err := t.search(ctx, datagram.Mirror, least, forward)
	if err == nil && back < least { // perhaps as the path stood still for a moment
		if err = t.answers(ctx, datagram.Probe, least); err == nil {
			back, err = t.search(ctx, datagram.Mirror, least, forward)
		}
	}
	if err != nil {
		return out, err
	}
	out.Metrics["path_mtu_bytes"] = float64(forward)
	switch {
	case back < least:
		facts = append(facts, fmt.Sprintf("no answer as large as its probe came back, not even of %d bytes", least))
	case back == forward:
		facts = append(facts, fmt.Sprintf("the reverse direction carries at least %d bytes: no larger packet could be requested", back))
	}
	if back >= least {
		out.Metrics["reverse_path_mtu_bytes"] = float64(back)
	}
	out.Facts = append(out.Facts, facts...)
	return out, nil
}

// ownMTU is that of the interface that packets leave by, in bytes, as the kernel says when it
// refuses the largest packet there is; 0 where it does neither.
func (t *test) ownMTU() int {
	probe := make([]byte, largestMTU-t.headers)
	datagram.PutHeader(probe, t.cookie, datagram.Probe)
	_, _ = t.conn.Write(probe) // one that is answered all the same has no number
	for _, e := range t.conn.PathErrors() {
		if e.Own {
			return e.MTU
		}
	}
	return 0
}

// limit is what bounded the forward direction, and how that is said. A device whose MTU
// in bytes is not known has 0, one that does not have this end's address no name.
func (t *test) limit(forward, most int, device string, deviceMTU int) (limit, fact string) {
	switch {
	case forward == most && deviceMTU > largestMTU:
		return measurement.MTUSearch, fmt.Sprintf("the path carries %d bytes, the largest there is of an IP packet", most)
	case forward == most && deviceMTU > 0 && device == "":
		return measurement.MTUSearch, fmt.Sprintf("the interface that packets leave by bounds the search: the path carries at least its MTU, %d bytes", most)
	case forward == most && deviceMTU > 0:
		return measurement.MTUSearch, fmt.Sprintf("the interface %s bounds the search: the path carries at least its MTU, %d bytes", device, most)
	case forward == most:
		return measurement.MTUSearch, fmt.Sprintf("the path carries at least %d bytes, the largest size that was tried", most)
	}
	for _, e := range t.tooBig {
		if e.MTU == forward {
			return measurement.MTURouter, fmt.Sprintf("the router %s said that its next link carries %d bytes", e.From, e.MTU)
		}
	}
	const depends = "TCP depends on a clamped MSS or on probing (RFC 4821)"
	if len(t.tooBig) == 0 {
		return measurement.MTUBlackHole, fmt.Sprintf("black hole: packets of more than %d bytes vanish, and no ICMP message says that they are too big; %s", forward, depends)
	}
	e := slices.MinFunc(t.tooBig, func(a, b sockets.PathError) int { return cmp.Compare(a.MTU, b.MTU) })
	if e.MTU == 0 { // as old ones do (RFC 1191, section 5)
		return measurement.MTURouter, fmt.Sprintf("the router %s said that packets of more than %d bytes are too big for it, and not what its next link carries", e.From, forward)
	}
	if e.MTU > forward { // what is behind it says nothing
		return measurement.MTUBlackHole, fmt.Sprintf("black hole: packets of more than %d bytes vanish, up to the %d that the router %s said its next link carries, and no ICMP message says that they are too big; %s", forward, e.MTU, e.From, depends)
	}
	return measurement.MTURouter, fmt.Sprintf("the router %s said that its next link carries %d bytes, and %d pass", e.From, e.MTU, forward)
}

// search finds the largest IP packet, in bytes, of which an answer comes; less
// than least when none does.
func (t *test) search(ctx context.Context, kind byte, least, most int) (int, error) {
	s := newSizeSearch(least, most)
	for pauses := 0; ; {
		t.tooBig = append(t.tooBig, t.conn.PathErrors()...)
		var hints []int
		for _, e := range t.tooBig {
			if !slices.Contains(hints, e.MTU) {
				hints = append(hints, e.MTU)
			}
		}
		before := *s
		sizes := s.next(hints)
		if len(sizes) == 0 {
			return s.passed, nil
		}
		probes := sizes
		if s.passed >= least { // first, so that a queue that the others fill does not lose it
			probes = append([]int{s.passed}, sizes...)
		}
		passed, err := t.round(ctx, kind, probes)
		if err != nil {
			return 0, err
		}
		if s.passed >= least && len(passed) == 0 && pauses < mostPauses {
			// Not even what passed before does: the round says nothing of sizes.
			if err := t.answers(ctx, kind, s.passed); err != nil {
				return 0, err
			}
			*s = before
			pauses++
			continue
		}
		for n := range passed {
			if n > s.passed && !slices.Contains(sizes, n) { // of an earlier round
				sizes = append(sizes, n)
			}
		}
		s.add(sizes, func(n int) bool { return passed[n] })
		if s.round == 1 && s.passed < least {
			return s.passed, nil
		}
	}
}

// answers waits for a packet of a size that passed before to be answered, and is an error where
// none is.
func (t *test) answers(ctx context.Context, kind byte, size int) error {
	for end := time.Now().Add(firstAnswer); time.Now().Before(end); {
		if passed, err := t.round(ctx, kind, []int{size}); err != nil || len(passed) > 0 {
			return err
		}
	}
	return &session.Error{Op: "probe the MTU", Reason: session.TimedOut, Err: fmt.Errorf("packets of %d bytes, which passed before, are not answered any more", size)}
}

// round sends probes of several sizes and waits for answers to all of them, as long as
// wait says at most. It returns which sizes passed, also those of earlier rounds whose
// answers came now.
func (t *test) round(ctx context.Context, kind byte, sizes []int) (map[int]bool, error) {
	began, first := time.Now(), len(t.sizes)
	passed := map[int]bool{}
	for _, size := range sizes {
		t.sizes = append(t.sizes, size)
		probe := make([]byte, size-t.headers)
		datagram.PutHeader(probe, t.cookie, kind)
		binary.BigEndian.PutUint32(probe[datagram.SequenceOffset:], uint32(len(t.sizes)))
		for range tries {
			// The first error may be that of an earlier probe; a second means
			// that this host itself refuses the size, which is an answer.
			if _, err := t.conn.Write(probe); err != nil {
				_, _ = t.conn.Write(probe)
			}
		}
		thread.Sleep(pause)
	}
	sent, left := time.Now(), time.Until(t.until)
	unanswered := func(size int) bool { return !passed[size] }
	for slices.ContainsFunc(sizes, unanswered) && time.Since(sent) < t.wait(left) {
		n, err := t.conn.Read(t.in)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue // a tick, or what a router answered; PathErrors reads it
		}
		i, ok := answeredProbe(t.in[:n], t.cookie, kind)
		if !ok || i >= len(t.sizes) {
			continue
		}
		want := datagram.HeaderBytes
		if kind == datagram.Mirror {
			want = t.sizes[i] - t.headers
		}
		if n != want {
			continue
		}
		passed[t.sizes[i]] = true
		if i >= first && t.rtt == 0 {
			t.rtt = time.Since(began)
		}
	}
	return passed, nil
}

// wait is how long answers are waited for when there is so much time left: twice as long as
// the first one took, since a queue may hold up others, but never less than the timeout.
func (t *test) wait(left time.Duration) time.Duration {
	longest := firstAnswer
	if t.rtt > 0 {
		longest = 2*t.rtt + jitter
	}
	return max(t.timeout, min(longest, left/2)) // a search has further rounds
}

// answeredProbe says which of the probes a packet answers, from 0.
func answeredProbe(packet, cookie []byte, kind byte) (int, bool) {
	if len(packet) < datagram.HeaderBytes || packet[datagram.KindOffset] != kind || !bytes.Equal(packet[:protocol.CookieBytes], cookie) {
		return 0, false
	}
	n := int(binary.BigEndian.Uint32(packet[datagram.SequenceOffset:]))
	return n - 1, n > 0
}
