package tcp

import (
	"cmp"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/tcpinfo"
	"github.com/hopbench/hopbench/internal/thread"
)

const (
	// gracePerFlow is how much longer for each connection of a tcp test.
	gracePerFlow = 2 * time.Millisecond
	// discardBytes is how much one call drops at most.
	discardBytes = 1 << 20
	// copyBytes is what a flow receives into when the payload is asked for.
	copyBytes = sockets.OverBytes
	// fewBytes is that of each of many flows that cannot share a buffer.
	fewBytes = 8 << 10
)

// A sender's data frames, with their headers, are sized to take between minFrameTime and
// maxFrameTime, so that it can stop soon at any rate. They fill whole pages.
const (
	minFrame     = 64 << 10
	maxFrame     = 64 << 20
	minFrameTime = 5 * time.Millisecond
	maxFrameTime = 20 * time.Millisecond
)

// sender is one flow's sending side.
type sender struct {
	session.ControlConn
	payload *sockets.Payload
	// facts are about how the payload is sent.
	facts []string
	// mustFinish makes it complete a data frame that the receiver's stop, or an end
	// that this side orders, interrupts: because a frame follows it.
	mustFinish bool
	// ended is why this side ends, once it has to.
	ended error
	// counted has a server's meter count no longer what is sent.
	counted func()
	// pacing is the rate that the kernel keeps, in bit/s, 0 without one.
	pacing float64
	// most is how many bytes of RECEIVED are read, 0 for what any frame may have.
	most int
	// info is asked for samples where no goroutine of its own takes them.
	info *tcpinfo.Sampler
	// over, unless nil, says that the sender is to end before the receiver stops it.
	over   *atomic.Bool
	slow   slowness
	sent   atomic.Int64
	header [protocol.HeaderBytes]byte
}

// run sends data frames until the receiver's RECEIVED frame arrives, or until it is over and
// asks for that frame. What it says goes to received, which is nil at a server.
func (s *sender) run(received *protocol.Received) error {
	if !s.Conn.Attached() {
		s.info.WrittenBy(thread.Current())
	}
	frame, checked := minFrame, time.Now()
	for {
		began := time.Now()
		stop, err := s.sendFrame(frame, &checked)
		if err != nil {
			return s.explain(err)
		}
		if stop {
			break
		}
		if s.over != nil && s.over.Load() {
			if err := protocol.WriteFrame(&s.ControlConn, protocol.TypeSent, protocol.Sent{}); err != nil {
				return s.explain(err)
			}
			break
		}
		switch took := time.Since(began); {
		case took < minFrameTime && 2*frame <= largestFrame(s.pacing):
			frame *= 2
		case took > maxFrameTime && frame > minFrame:
			frame /= 2
		}
	}
	return s.OnFreshStack(func() error {
		if s.Served() { // the client has its result
			return protocol.Expect(&s.ControlConn, protocol.TypeReceived, protocol.MaxUnauthenticated, nil)
		}
		return protocol.Expect(&s.ControlConn, protocol.TypeReceived, cmp.Or(s.most, protocol.MaxControl), received)
	})
}

// leave ends what watches a server's sender.
func (s *sender) leave() {
	s.info.End()
	s.counted()
}

// largestFrame is that of a flow that is paced to a rate in bit/s, 0 where it is not. Buffers
// take the first frames at once, so how long those took says nothing of the next.
func largestFrame(rate float64) int {
	if rate == 0 {
		return maxFrame
	}
	return int(min(max(rate/8*maxFrameTime.Seconds(), minFrame), maxFrame))
}

// explain prefers the error frame that the other end sent before it closed
// over the reset that closing caused.
func (s *sender) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	most := protocol.MaxControl
	if s.Served() {
		most = protocol.MaxError
	}
	var remote *protocol.RemoteError
	if told := protocol.Expect(&s.ControlConn, protocol.TypeReceived, most, nil); errors.As(told, &remote) {
		return remote
	}
	return err
}

// sendFrame sends one data frame of a length with its header, and says whether the receiver
// has something to say. checked is when it last looked.
func (s *sender) sendFrame(frame int, checked *time.Time) (bool, error) {
	length := frame - len(s.header)
	protocol.PutHeader(s.header[:], protocol.TypeData, length)
	if _, err := s.WriteAll(s.header[:], s.WriteMore); err != nil {
		return false, err
	}
	stop := false
	for left := length; left > 0; {
		n, err := s.SendPayload(s.payload, s.slow.piece(left), frame-left)
		if err != nil && !errors.Is(err, sockets.ErrTick) {
			return stop, err
		}
		left -= n
		s.sent.Add(int64(n))
		s.slow.rest()
		now := time.Now()
		if now.Sub(*checked) < session.StopCheck {
			continue
		}
		*checked = now
		s.info.Due(now)
		if s.ended == nil {
			s.ended = s.Over()
		}
		if s.ended != nil && !s.mustFinish { // else the guard ends a frame that takes too long
			return stop, s.ended
		}
		if stop = stop || s.Readable(); stop && !s.mustFinish {
			return true, nil
		}
	}
	return stop, s.ended
}
