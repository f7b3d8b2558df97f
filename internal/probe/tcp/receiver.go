package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
	"github.com/hopbench/hopbench/internal/thread"
)

// receiver is one flow's receiving side.
type receiver struct {
	session.ControlConn
	start  time.Time
	bins   []int64
	full   int // bins, once finished
	width  time.Duration
	copied bool
	buf    []byte
	// clamp is the window to be renewed with every bin, 0 none.
	clamp int
	// lowWater is how many bytes wake it, 0 for any.
	lowWater int
	grace    time.Duration
	// count is all that was received so far, for progress.
	count atomic.Int64
	// most is how many bytes of SENT are read, 0 for what any frame may have.
	most int
	// over, unless nil, says that the count is complete before the last bin has passed.
	over *atomic.Bool
	// finished is called once, when the last bin has passed, or the count is complete.
	finished func() error
	slow     slowness
	flows    int
	// alive says that something arrived after the last bin.
	alive bool
	// info is what became of the socket over time, once finished.
	info []measurement.ReceiverInfo
}

// newReceiver receives into buf what a sender sends, whose congestion control paces or not.
func newReceiver(conn session.ControlConn, spec measurement.Spec, buf []byte, paced bool) *receiver {
	n, width := session.BinsOf(spec)
	r := &receiver{
		ControlConn: conn,
		bins:        make([]int64, n),
		width:       width,
		copied:      spec.CopyPayload || !conn.DiscardsInKernel(),
		buf:         buf,
		grace:       grace(spec),
		slow:        slowness{spec.ReceiverPause.Duration(), spec.ReceiverBurn.Duration()},
		flows:       spec.Flows,
	}
	if session.SharesPoller(spec) {
		r.clamp = int(spec.WindowBytes)
	}
	if paced && waitsForBatches(spec) {
		r.lowWater = batchBytes
	}
	return r
}

const (
	// What is paced arrives packet by packet, and to wake a thread for each costs more than
	// the packet. So the receiver wakes when batchBytes have arrived, or after batchWait with
	// those that have: across one hop on 2 CPUs, bbr then carried 1.3 to 2.1 times as much.
	// What is not paced arrives in bursts: cubic carried 3 to 20 % less so.
	batchBytes = 256 << 10
	batchWait  = 5 * time.Millisecond
)

// waitsForBatches says whether a receiver is to. Not if the test is of what the receiver
// does with its window: its size, or a program that is slow.
func waitsForBatches(spec measurement.Spec) bool {
	return spec.WindowBytes == 0 && spec.ReceiveBufferBytes == 0 && spec.ReceiverPause == 0 && spec.ReceiverBurn == 0 && !spec.MPTCP
}

// stalled says that nothing arrived in the second half of the count, and that what came in the
// first did not go on later, as over a slow path.
func (r *receiver) stalled() bool {
	return !came(r.bins[r.full/2:r.full]) && !(r.alive && came(r.bins[:r.full/2]))
}

// came says that something arrived in some bins.
func came[T int64 | float64](bins []T) bool {
	return slices.ContainsFunc(bins, func(n T) bool { return n > 0 })
}

func (r *receiver) method() string {
	if r.copied {
		return measurement.ReceivedCopy
	}
	return measurement.ReceivedDiscard
}

// counted is the receiver's series as it goes on the wire.
func (r *receiver) counted() measurement.Bins {
	return measurement.BinsOf(r.width, r.bins)
}

// run counts data frames until the sender's SENT frame, which it returns, or
// until the connection or the deadline ends; after the count is complete,
// neither of these is an error but only a lost SENT frame (nil), unless nothing
// at all arrived from then to the deadline.
func (r *receiver) run() (*protocol.Sent, error) {
	var header [protocol.HeaderBytes]byte
	end := time.Duration(len(r.bins)) * r.width
	have, frame, left, done, last := 0, 0, 0, false, 0
	var came arrival
	watch := func() {}
	if !r.Conn.Attached() {
		s := tcpinfo.StartReceiver(r.Conn, thread.Current(), r.start, r.flows)
		watch = func() {
			s.End()
			r.info = s.Series
		}
		defer s.End()
	} else {
		r.lowWater = 0 // the poller would not wake it for fewer
	}
	if r.lowWater > 0 {
		if err := r.SetReceiveLowWater(r.lowWater, batchWait); err != nil {
			return nil, err
		}
	}
	finish := func(at time.Duration) error {
		done, r.full = true, min(int(at/r.width), len(r.bins))
		watch()
		if r.lowWater > 0 { // what follows is short
			if err := r.SetReceiveLowWater(0, sockets.Tick); err != nil {
				return err
			}
		}
		return r.OnFreshStack(r.finished)
	}
	for {
		var n int
		var err error
		switch {
		case left == 0:
			n, err = r.Conn.Read(header[have:])
			have += n
		case r.copied:
			n, err = r.Conn.ReadOver(r.buf, r.slow.piece(left), frame-left)
		default:
			n, err = r.Discard(r.buf[:r.slow.piece(min(left, len(r.buf)))])
		}
		at := time.Since(r.start)
		since := came.since(at)
		payload := left > 0
		if payload {
			left -= n
			bin := int(at / r.width)
			if bin != last && bin < len(r.bins) {
				r.renewClamp()
			}
			r.book(int64(n), since, at, bin)
			last = bin
			r.count.Add(int64(n))
		}
		// What was read across the end is counted: some of it came before.
		if !done && (at >= end || r.over != nil && r.over.Load()) {
			if err := finish(at); err != nil {
				return nil, err
			}
		}
		if err != nil && !errors.Is(err, sockets.ErrTick) {
			if done {
				return nil, nil
			}
			return nil, err
		}
		r.alive = r.alive || done && n > 0
		if payload {
			r.slow.rest()
		}
		if err := r.Guard.Halted(); err != nil {
			return nil, err
		}
		// The clock was read already; reading the deadline costs nothing more.
		if over, err := r.spent(at - end); over {
			return nil, err
		}
		if have < len(header) {
			continue
		}
		have = 0
		h, err := protocol.ParseHeader(header[:])
		if err != nil {
			return nil, err
		}
		if h.Type == protocol.TypeData {
			left, frame = h.Length, h.Length+len(header)
			continue
		}
		if !done && h.Type == protocol.TypeSent && r.Served() { // the client has enough
			if err := finish(at); err != nil {
				return nil, err
			}
		}
		var sent *protocol.Sent
		err = r.OnFreshStack(func() (err error) {
			sent, err = r.last(h, done)
			return err
		})
		return sent, err
	}
}

// spent says whether nothing more is waited for so long after the planned end, with an error
// where nothing came from then on. What comes from a queue is waited for longer than a silent
// end, but by a server, whose client says first that it gives up.
func (r *receiver) spent(after time.Duration) (bool, error) {
	switch {
	case after > r.grace && r.alive:
		return true, nil
	case after > r.grace, after > r.grace-2*session.Grace && !r.alive && !r.Served():
		return true, session.ErrSilent
	}
	return false, nil
}

// arrival says since when what is read has come.
type arrival struct {
	last time.Duration // when the read before ended
	// What was read within together of first came after before.
	first, before time.Duration
}

// together is how long the reads of one large packet may take: the end of a frame, and the
// header of the next, may lie in it.
const together = 100 * time.Microsecond

// since is after what time that came which was read at a time, by the next read.
func (a *arrival) since(at time.Duration) time.Duration {
	if at-a.first > together {
		a.first, a.before = at, a.last
	}
	a.last = at
	return a.before
}

// book counts n bytes that were read at a time in a bin, and came since another.
// Those of a first read in a bin are shared out by time between it and the bin before. A
// path brings packets that offloading joined, of up to 64 KB; whether a measured window
// got one more of them than it lost is chance, but the same chance in every trial of a
// path, so that more trials would not average it out.
func (r *receiver) book(n int64, before, at time.Duration, bin int) {
	begin := time.Duration(bin) * r.width
	if before = max(before, begin-r.width); before < begin && 0 < bin && bin <= len(r.bins) {
		earlier := int64(float64(n) * float64(begin-before) / float64(at-before))
		r.bins[bin-1] += earlier
		n -= earlier
	}
	if bin < len(r.bins) {
		r.bins[bin] += n
	}
}

// renewClamp does for one of many flows what keepClamp does for one of few.
func (r *receiver) renewClamp() {
	if r.clamp > 0 {
		// It worked once; it fails only when the connection has ended.
		_ = r.RenewClamp(r.clamp)
	}
}

// last reads the control frame that ends a flow.
func (r *receiver) last(h protocol.Header, done bool) (*protocol.Sent, error) {
	if r.Served() && h.Type == protocol.TypeSent && done {
		// What the client says of its own sending is not wanted here.
		_, err := io.CopyN(io.Discard, &r.ControlConn, int64(h.Length))
		return new(protocol.Sent), err
	}
	most := cmp.Or(r.most, protocol.MaxControl)
	if r.Served() { // a client has no more to say than an error, and thousands of flows
		most = protocol.MaxError
	}
	payload, err := protocol.ReadPayload(&r.ControlConn, h, most)
	if err != nil {
		return nil, err
	}
	sent := new(protocol.Sent)
	if err := protocol.Decode(h.Type, payload, protocol.TypeSent, sent); err != nil {
		return nil, err
	}
	if !done {
		return nil, fmt.Errorf("%w: the sender ended before the receiver asked it to", protocol.ErrMalformed)
	}
	return sent, nil
}
