package linkem_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

const virtioAndEthernet = 10 + 14

// censor stops datagrams that hold "stop": their sender gets them back, and
// their receiver gets "gone" in place of "stop".
type censor struct {
	active  atomic.Bool
	longest atomic.Int64 // frame that was whole
	broken  atomic.Int64 // frames that were not
}

func (c *censor) Active() bool { return c.active.Load() }

func (c *censor) Inspect(_ int, frame []byte) (pass bool, back, ahead []byte) {
	if len(frame) > virtioAndEthernet+20 && binary.BigEndian.Uint16(frame[virtioAndEthernet-2:]) == 0x0800 {
		if int(binary.BigEndian.Uint16(frame[virtioAndEthernet+2:])) == len(frame)-virtioAndEthernet {
			c.longest.Store(max(c.longest.Load(), int64(len(frame))))
		} else {
			c.broken.Add(1)
		}
	}
	at := bytes.Index(frame, []byte("stop"))
	if at < 0 {
		return true, nil, nil
	}
	frame = plain(frame)
	ahead = bytes.Replace(frame, []byte("stop"), []byte("gone"), 1)
	back = bytes.Clone(frame)
	swap := func(at, n int) {
		copy(back[at:], frame[at+n:at+2*n])
		copy(back[at+n:], frame[at:at+n])
	}
	swap(10, 6)                   // Ethernet addresses
	swap(virtioAndEthernet+12, 4) // IP addresses
	swap(virtioAndEthernet+20, 2) // ports
	return false, back, ahead
}

// plain is a UDP frame that asks the device for nothing and has no checksum,
// which IPv4 allows.
func plain(frame []byte) []byte {
	frame = bytes.Clone(frame)
	clear(frame[:10])
	clear(frame[virtioAndEthernet+26 : virtioAndEthernet+28])
	return frame
}

func TestInspectorDecides(t *testing.T) {
	eachWay(t, func(t *testing.T, kind linkem.Kind, delay time.Duration) {
		way := linkem.Direction{Delay: delay}
		i := &censor{}
		r := startInspected(t, kind, linkem.Config{Forward: way, Backward: way}, i)
		conns := udpPair(t, r)
		passes(t, conns)
		i.active.Store(true)
		exchange := func(send string, at [2]string) {
			t.Helper()
			if _, err := conns[0].Write([]byte(send)); err != nil {
				t.Fatal(err)
			}
			for end, want := range at {
				if want != "" {
					receives(t, conns[end], want)
				}
			}
		}
		exchange("pass on", [2]string{"", "pass on"})
		exchange("stop it", [2]string{"stop it", "gone it"})
		i.active.Store(false)
		exchange("stop it", [2]string{"", "stop it"})
		eventually(t, "no frame on the wire", func() bool {
			c := r.Counters()
			return unaccounted(c.Forward) == 0 && unaccounted(c.Backward) == 0
		})
		if err := r.stop(t); err != nil {
			t.Error(err)
		}
		forward, backward := r.Counters().Forward, r.Counters().Backward
		if forward.DeniedFrames != 1 || forward.AddedFrames != 1 || backward.AddedFrames != 1 || backward.DeniedFrames != 0 {
			t.Errorf("forward %+v\nbackward %+v", forward, backward)
		}
		for _, d := range []linkem.DirectionCounters{forward, backward} {
			if unaccounted(d) != 0 {
				t.Errorf("frames are not accounted for: %+v", d)
			}
		}
	})
}

// unaccounted is how many frames came into a direction that have not been seen
// to end: those on the wire.
func unaccounted(d linkem.DirectionCounters) int64 {
	came := d.ReceivedFrames + d.DuplicatedFrames + d.AddedFrames
	went := d.Frames + d.LostFrames + d.QueueDroppedFrames + d.RefusedFrames + d.DeniedFrames
	return int64(came - went)
}

// receives waits for a datagram and passes over those that passes() sent.
func receives(t *testing.T, conn *net.UDPConn, want string) {
	t.Helper()
	buffer := make([]byte, 100)
	testutil.OK(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %q: %v", want, err)
		}
		if got := string(buffer[:n]); got == want {
			return
		} else if got != "through?" {
			t.Fatalf("received %q, want %q", got, want)
		}
	}
}

// An inspector sees every frame whole, also super-packets that wait in pieces.
func TestInspectorSeesWholeFrames(t *testing.T) {
	eachWay(t, func(t *testing.T, kind linkem.Kind, delay time.Duration) {
		way := linkem.Direction{Delay: delay}
		i := &censor{}
		r := startInspected(t, kind, linkem.Config{Forward: way, Backward: way}, i)
		i.active.Store(true)
		transfer(t, r, r.Address4(1))
		if err := r.stop(t); err != nil {
			t.Error(err)
		}
		if i.broken.Load() > 0 || i.longest.Load() < 4096 {
			t.Errorf("%d frames were not whole, the longest had %d bytes", i.broken.Load(), i.longest.Load())
		}
	})
}
