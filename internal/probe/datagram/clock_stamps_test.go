package datagram

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answerStamps answers requests for stamps with the time since a moment, until the test
// ends, and says where. Each answer is changed first.
func answerStamps(t *testing.T, since time.Time, change func(answer []byte) []byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	testutil.OK(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := make([]byte, 100)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(in)
			if err != nil {
				return
			}
			answer := bytes.Clone(in[:n])
			PutStamp(answer, time.Since(since))
			// A copy of an answer, and a stray packet, are nothing new.
			for _, b := range [][]byte{change(answer), change(answer), answer[:HeaderBytes]} {
				if _, err := conn.WriteToUDPAddrPort(b, from); err != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func startStamps(t *testing.T, target netip.AddrPort, clockID string) *Stamps {
	ready := protocol.Ready{Server: target.String(), Cookie: make([]byte, protocol.CookieBytes), ClockID: clockID}
	s := StartStamps(context.Background(), session.Request{Target: target}, ready)
	t.Cleanup(s.End)
	s.Begun()
	return s
}

// The exchanges bound the truth, each request counts once, and there are some of before
// the test and some of after it.
func TestStamps(t *testing.T) {
	epoch := time.Now().Add(-time.Hour)
	target := answerStamps(t, epoch, func(b []byte) []byte { return b })
	var start time.Time
	var all []clock.Exchange
	answered := false
	for range 20 { // on a busy machine all answers of a row may come too late
		s := startStamps(t, target, "another clock")
		start = time.Now()
		all = s.Result(start)
		if answered = len(all) > 0 && all[0].Sent < 0 && all[len(all)-1].Sent > 0; answered {
			break
		}
	}
	if !answered || len(all) > 2*stampsInRow+1 {
		t.Fatalf("%d exchanges: %v", len(all), all)
	}
	least, most, ok := clock.Bounds(all, 0, 0)
	if truth := start.Sub(epoch); !ok || truth < least || truth > most {
		t.Errorf("%v to %v (%v), in truth %v", least, most, ok, truth)
	}
}

// Who has the same clock, answers no stamps, or answers nonsense, gives none.
func TestNoStamps(t *testing.T) {
	target := answerStamps(t, time.Now(), func(b []byte) []byte { return b })
	spoilt := func(change func(b []byte)) netip.AddrPort {
		return answerStamps(t, time.Now(), func(b []byte) []byte {
			b = bytes.Clone(b)
			change(b)
			return b
		})
	}
	for name, s := range map[string]*Stamps{
		"a server that says of no clock": startStamps(t, target, ""),
		"the cookie of another test":     startStamps(t, spoilt(func(b []byte) { b[0]++ }), "c"),
		"another kind":                   startStamps(t, spoilt(func(b []byte) { b[KindOffset] = Echo }), "c"),
		"a number that nobody sent":      startStamps(t, spoilt(func(b []byte) { b[SequenceOffset] = 1 }), "c"),
		"a time that cannot be":          startStamps(t, spoilt(func(b []byte) { b[HeaderBytes] = 0xff }), "c"),
	} {
		if all := s.Result(time.Now()); len(all) != 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// FuzzStamp: whatever comes, an exchange is of a request that was sent, once.
func FuzzStamp(f *testing.F) {
	cookie := make([]byte, protocol.CookieBytes)
	answer := make([]byte, StampBytes)
	PutHeader(answer, cookie, Stamp)
	PutStamp(answer, time.Hour)
	f.Add(answer, answer)
	f.Add(answer[:HeaderBytes], []byte{})
	f.Fuzz(func(t *testing.T, one, other []byte) {
		now := time.Now()
		s := &Stamps{cookie: cookie, sent: []time.Time{now, now}}
		for _, b := range [][]byte{one, other, one} {
			s.take(b, now)
		}
		if len(s.exchanges) > 2 {
			t.Errorf("%d exchanges of two requests", len(s.exchanges))
		}
		for _, x := range s.exchanges {
			if x.at < 0 || x.at > protocol.MaxStamp {
				t.Errorf("a stamp of %v", x.at)
			}
		}
	})
}
