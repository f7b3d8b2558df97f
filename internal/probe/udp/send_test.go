package udp

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPacer(t *testing.T) {
	for _, c := range []struct {
		rate        float64 // packets of one flow per second
		size, flows int
		burst       float64
	}{{1, 1000, 1, 1}, {1000, 1000, 1, 1}, {40_000, 100, 2, 10}, {1e6, 64, 1, 44}, {0, 64, 1, 0}} {
		spec := measurement.Spec{RateBitsPerSecond: c.rate * 8 * float64(c.size*c.flows), Flows: c.flows}
		p := newPacer(spec, c.size, 44)
		if p.burst != c.burst {
			t.Errorf("%v packets/s: bursts of %v, want %v", c.rate, p.burst, c.burst)
		}
		if c.rate == 0 {
			if n, wait := p.due(0); n != 44 || wait != 0 {
				t.Errorf("unlimited: %d, %v", n, wait)
			}
			continue
		}
		// A sender that always wakes when it asked to keeps the rate.
		sent, now := 0, time.Duration(0)
		for now < 10*time.Second {
			n, wait := p.due(now)
			sent += n
			p.sent += float64(n)
			now += wait + 1
		}
		if want := c.rate * 10; math.Abs(float64(sent)-want) > c.burst+1 {
			t.Errorf("%v packets/s: %d in ten seconds", c.rate, sent)
		}
		// One that sleeps for a second is not forgiven more than it may be.
		n, _ := p.due(now + time.Second)
		if n > 44 || p.perSecond*(now+time.Second).Seconds()-p.sent > p.perSecond*forgiveTime.Seconds()+p.burst+1 {
			t.Errorf("%v packets/s: %d after a stall, %v sent", c.rate, n, p.sent)
		}
		// It makes up for the rest without haste.
		now += time.Second
		began, second := now, 0
		for now < began+measurement.Seconds(1.1/catchUp).Duration() {
			n, wait := p.due(now)
			sent += n
			p.sent += float64(n)
			if at := now - began; at > time.Second && at <= 2*time.Second {
				second += n
			}
			now += wait + 1
		}
		if want := c.rate * now.Seconds(); math.Abs(float64(sent)-want) > c.burst+1 {
			t.Errorf("%v packets/s: %d in %v with a stall, want %.0f", c.rate, sent, now, want)
		}
		if most := (1+catchUp)*c.rate + c.burst + 1; float64(second) > most {
			t.Errorf("%v packets/s: made up for at %d a second, want %v at most", c.rate, second, most)
		}
	}
}

// What a sender missed of the warm-up, such as its beginning, it does not send in the measured
// time, for which the rate is given.
func TestMeasuredTimeHasNoMoreThanTheRate(t *testing.T) {
	const size, perSecond = 1000, 10_000
	for _, late := range []time.Duration{0, 9 * time.Millisecond, 150 * time.Millisecond, 210 * time.Millisecond} {
		spec := measurement.Spec{RateBitsPerSecond: perSecond * 8 * size, Flows: 1, MaxWarmup: 0.2, Duration: 1}
		p := newPacer(spec, size, 44)
		warmup, end := spec.MaxWarmup.Duration(), session.Planned(spec)
		measured := 0
		for now := late; now < end; {
			n, wait := p.due(now)
			p.sent += float64(n)
			if now >= warmup {
				measured += n
			}
			now += wait + 1
		}
		if want := perSecond * spec.Duration; math.Abs(float64(measured)-float64(want)) > p.burst+1 {
			t.Errorf("begun %v late: %d packets in the measured time, want %v", late, measured, want)
		}
	}
}

// Flows take turns: whatever part of a second is measured has the packets of the whole rate.
func TestPacersOfManyFlows(t *testing.T) {
	for _, c := range []struct {
		rate  float64 // packets of all flows per second
		flows int
		burst float64
	}{{85, 100, 1}, {425, 1024, 1}, {8000, 8, 1}, {80_000, 8, 2}} {
		var sent []time.Duration
		for flow := range c.flows {
			p := newPacer(measurement.Spec{RateBitsPerSecond: c.rate * 8 * 100, Flows: c.flows}, 100, 44)
			p.stagger(flow, c.flows)
			for now := time.Duration(0); now < 3*time.Second; {
				n, wait := p.due(now)
				for range n {
					sent = append(sent, now)
				}
				p.sent += float64(n)
				now += wait + 1
			}
		}
		const window = 200 * time.Millisecond
		for from := 200 * time.Millisecond; from < 2800*time.Millisecond; from += 50 * time.Millisecond {
			n := 0
			for _, at := range sent {
				if at >= from && at < from+window {
					n++
				}
			}
			if want := c.rate * window.Seconds(); math.Abs(float64(n)-want) > 3*c.burst+1 {
				t.Errorf("%d flows: %d packets in %v from %v on, want %v", c.flows, n, window, from, want)
			}
		}
	}
}

func FuzzParseFollower(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	packet := make([]byte, 40)
	putFollower(packet, cookie, follower{phase: phaseMeasured, lap: 1408, place: 47, index: 3})
	f.Add(packet, uint64(1<<40))
	f.Add(packet[:datagram.DataBytes-1], uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, near uint64) {
		got, ok := parseFollower(b, cookie)
		if !ok {
			return
		}
		again := slices.Clone(b)
		putFollower(again, cookie, got)
		clear(again[dataSequence:followLap]) // which nobody reads
		clear(b[dataSequence:followLap])
		if !bytes.Equal(again, b) {
			t.Fatalf("% x is read as %+v", b, got)
		}
		near &= maxSequence
		if s := got.last(near); !got.at(s) || s > near && s != uint64(got.place) || near >= s && near-s >= uint64(got.lap) {
			t.Fatalf("%+v is at %d, the last before %d", got, s, near)
		}
	})
}

func FuzzParseData(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	packet := make([]byte, 40)
	copy(packet, cookie)
	putData(packet, phaseMeasured, 1<<40+5, -9)
	f.Add(packet)
	f.Add(packet[:datagram.DataBytes-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		phase, sequence, at, ok := parseData(b, cookie)
		if !ok {
			return
		}
		again := slices.Clone(b)
		putData(again, phase, sequence, at)
		if !bytes.Equal(again, b) {
			t.Fatalf("% x is read as %d, %d, %d", b, phase, sequence, at)
		}
	})
}

// A client that sends packets hears why its server ends the test.
func TestSenderIsToldWhy(t *testing.T) {
	near, far := probetest.Conns(t)
	said := session.Refusal(session.TimedOut, "0 bytes moved in 2m0s")
	testutil.OK(t, protocol.WriteFrame(&far, protocol.TypeError, session.ErrorFrame(said)))
	_, err := (&sender{control: near}).finish(func() *protocol.HostSeries { return nil })
	if got := session.ReasonOf(err); got != session.TimedOut {
		t.Errorf("the reason is %q (%v), want %q", got, err, session.TimedOut)
	}
}
