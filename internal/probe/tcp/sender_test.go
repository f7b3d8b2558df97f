package tcp

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a server says when it ends a test in which it sends is a frame of its own, not part
// of the data frame that it was sending.
func TestHaltedSenderFinishesItsFrame(t *testing.T) {
	near, far := probetest.Conns(t)
	near.Guard = &session.Guard{}
	defer near.Guard.Rest()
	// A slow sender looks after each piece of a frame whether it is to end.
	s, err := newBulk().newSender(near, measurement.Spec{SendMethod: measurement.SendCopy, SenderPause: 1e-9}, 0)
	testutil.OK(t, err)
	s.mustFinish = true
	why := session.Refusal(session.Limit, "too fast")
	near.Guard.Halt(why)
	sent := make(chan error, 1)
	go func() {
		_, err := s.sendFrame(4*minFrame, new(time.Time))
		if !errors.Is(err, why) {
			err = errors.Join(errors.New("the sender goes on"), err)
		} else {
			err = protocol.WriteFrame(&near, protocol.TypeError, session.ErrorFrame(why))
		}
		sent <- err
	}()
	h, err := protocol.ReadHeader(&far)
	testutil.OK(t, err)
	if h.Type != protocol.TypeData || h.Length != 4*minFrame-protocol.HeaderBytes {
		t.Fatalf("first comes %+v", h)
	}
	_, err = io.CopyN(io.Discard, &far, int64(h.Length))
	testutil.OK(t, err)
	testutil.OK(t, <-sent)
	if err := protocol.Expect(&far, protocol.TypeSent, protocol.MaxControl, nil); session.ReasonOf(err) != session.Limit {
		t.Errorf("after the frame comes %v, want the server's reason", err)
	}
}

func TestLargestFrame(t *testing.T) {
	for rate, want := range map[float64]int{0: maxFrame, 2e6: minFrame, 1e9: 2_500_000, 1e12: maxFrame} {
		if got := largestFrame(rate); got != want {
			t.Errorf("at %.0f bit/s frames have up to %d bytes, want %d", rate, got, want)
		}
	}
}
