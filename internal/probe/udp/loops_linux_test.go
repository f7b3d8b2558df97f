package udp

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// packetConns is a pair of UDP sockets connected to each other.
func packetConns(t *testing.T) (a, b *sockets.Conn) {
	t.Helper()
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	near, err := net.DialUDP("udp", nil, far.LocalAddr().(*net.UDPAddr))
	testutil.OK(t, err)
	address := far.LocalAddr().(*net.UDPAddr)
	testutil.OK(t, far.Close())
	back, err := net.DialUDP("udp", address, near.LocalAddr().(*net.UDPAddr))
	testutil.OK(t, err)
	for c, into := range map[*net.UDPConn]**sockets.Conn{near: &a, back: &b} {
		if *into, err = sockets.DetachUDP(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*into).Close() })
	}
	return a, b
}

// Neither end of a flow of packets allocates, with offloads and without, and
// what one sent is what the other counts.
func TestPacketLoopsDoNotAllocate(t *testing.T) {
	for name, spec := range map[string]measurement.Spec{
		"batches":  {Kind: measurement.PPS},
		"offloads": {Kind: measurement.UDP, PacketBytes: 1000, GSO: measurement.On, GRO: measurement.On, SendMethod: measurement.SendCopy},
		// By reference, where the kernel can.
		"pages":  {Kind: measurement.UDP, PacketBytes: 1000, GSO: measurement.On, GRO: measurement.On},
		"cut":    {Kind: measurement.UDP, PacketBytes: 1000, GSO: measurement.On, GRO: measurement.Off},
		"stamps": {Kind: measurement.UDP, PacketBytes: 1000, RateBitsPerSecond: 1e6, GSO: measurement.Off},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Duration = 600
			spec := spec.Defaults()
			near, far := packetConns(t)
			one, two := probetest.Conns(t)
			cookie := make([]byte, protocol.CookieBytes)
			s, err := newSender(one, near, spec, cookie, new(packetPages))
			testutil.OK(t, err)
			r, err := newReceiver(two, far, spec, cookie)
			testutil.OK(t, err)
			burst := min(s.out.Most(), 40)
			if s.pages != nil {
				burst = s.out.Most()
			}
			packets := 201 * int64(burst)
			s.warmup = 0
			s.start, r.start = time.Now(), time.Now()
			n := probetest.Allocations(200, func() {
				if _, err := s.burst(burst, time.Since(s.start)); err != nil {
					t.Fatal(err)
				}
				for r.count.received < s.measured {
					n, err := r.in.Receive()
					if err != nil {
						t.Fatalf("%d of %d packets came: %v", r.count.received, s.measured, err)
					}
					r.take(n, time.Since(r.start))
				}
			})
			if n != 0 {
				t.Errorf("a burst allocates %d times", n)
			}
			r.flushDelays()
			got := r.received(protocol.Sent{MeasuredPackets: s.measured}, r.stepped())
			if p := got.Packets; p.Received != packets || p.Duplicated+p.Reordered+p.BufferDrops != 0 || r.delays.n != p.Received {
				t.Errorf("%+v, %d delays", p, r.delays.n)
			}
			if r.arrived.Load() != packets*int64(spec.PacketBytes) {
				t.Errorf("%d bytes", r.arrived.Load())
			}
		})
	}
}

// Packets that were cut from large buffers, and of which a socket that is full
// drops runs of many laps, are counted as often as they were read.
func TestCutPacketsThatAreDroppedAreCounted(t *testing.T) {
	near, far := packetConns(t)
	one, two := probetest.Conns(t)
	cookie := make([]byte, protocol.CookieBytes)
	spec := measurement.Spec{Kind: measurement.UDP, Duration: 600, PacketBytes: 1000, GSO: measurement.On, GRO: measurement.Off, ReceiveBufferBytes: 100_000}.Defaults()
	s, err := newSender(one, near, spec, cookie, new(packetPages))
	testutil.OK(t, err)
	r, err := newReceiver(two, far, spec, cookie)
	testutil.OK(t, err)
	s.warmup = 0
	s.start, r.start = time.Now(), time.Now()
	random := rand.New(rand.NewPCG(3, 4))
	read := int64(0)
	receive := func() {
		n, err := r.in.Receive()
		if err != nil && !errors.Is(err, sockets.ErrTick) {
			t.Fatal(err)
		}
		read += int64(n)
		r.take(n, time.Since(r.start))
	}
	for range 100 {
		for range 1 + random.IntN(3*lapBuffers) {
			if _, err := s.burst(s.out.Most(), time.Since(s.start)); err != nil {
				t.Fatal(err)
			}
			if random.IntN(4) == 0 && far.Readable() {
				receive()
			}
		}
	}
	for far.Readable() {
		receive()
	}
	r.settleLast()
	if c := &r.count; c.received != read || c.duplicated+c.reordered != 0 {
		t.Errorf("%d packets were read, %d counted, %d twice, %d late", read, c.received, c.duplicated, c.reordered)
	}
	if drops := far.ReceiveDrops(); drops != s.measured-read || drops < 10*lapBuffers*int64(s.out.Most()) {
		t.Errorf("%d of %d packets were dropped and %d read", drops, s.measured, read)
	}
}

// A sender that can send no more says why, whether the kernel cuts its packets or not.
func TestSenderSaysWhyItEnds(t *testing.T) {
	for name, spec := range map[string]measurement.Spec{
		"one by one": {Kind: measurement.PPS, Duration: 600},
		"offloads":   {Kind: measurement.UDP, Duration: 600, PacketBytes: 1000, GSO: measurement.On, SendMethod: measurement.SendCopy},
	} {
		t.Run(name, func(t *testing.T) {
			near, _ := packetConns(t)
			control, _ := probetest.Conns(t)
			s, err := newSender(control, near, spec.Defaults(), make([]byte, protocol.CookieBytes), new(packetPages))
			testutil.OK(t, err)
			s.start = time.Now()
			testutil.OK(t, near.Close())
			if stop, err := s.burst(1, 0); err == nil || !strings.HasPrefix(err.Error(), "send packets: ") {
				t.Errorf("stops %v: %v", stop, err)
			}
		})
	}
}

// What hosts and routers answer to some packets does not end a test; what this host answers to
// each does.
func TestRejectedPackets(t *testing.T) {
	for _, errno := range []error{sockets.ErrPeerGone, syscall.EHOSTUNREACH, syscall.EACCES, syscall.ENETUNREACH} {
		near, _ := packetConns(t)
		control, _ := probetest.Conns(t)
		s, err := newSender(control, near, measurement.Spec{Kind: measurement.PPS, Duration: 600}.Defaults(), make([]byte, protocol.CookieBytes), new(packetPages))
		testutil.OK(t, err)
		s.start = time.Now()
		for range 2 * maxRejected {
			if stop, err := s.retry(errno); stop || err != nil {
				t.Fatalf("%v: stops %v, %v", errno, stop, err)
			}
			_, err := s.burst(1, 0)
			testutil.OK(t, err)
		}
		for range maxRejected {
			_, err = s.retry(errno)
			testutil.OK(t, err)
		}
		if stop, err := s.retry(errno); !stop || !errors.Is(err, errno) {
			t.Errorf("%v each time: stops %v, %v", errno, stop, err)
		}
	}
}

// The kernel's time of each packet is taken where packets are few, whatever their size.
func TestTimesOfFewPacketsAreTheKernels(t *testing.T) {
	for _, c := range []struct {
		packets float64 // of a flow, per second
		size    int
		want    string
	}{
		{90e3, 64, measurement.ReceiveTimeKernel}, {110e3, 64, measurement.ReceiveTimeRead},
		{90e3, 1400, measurement.ReceiveTimeKernel}, {110e3, 1400, measurement.ReceiveTimeRead},
		{1000, 0, measurement.ReceiveTimeKernel}, {0, 64, measurement.ReceiveTimeRead},
	} {
		const flows = 2
		bytes := c.size
		if bytes == 0 {
			bytes = ethernetBytes
		}
		spec := measurement.Spec{Kind: measurement.UDP, Flows: flows, PacketBytes: c.size, RateBitsPerSecond: c.packets * flows * 8 * float64(bytes), Duration: 1}
		_, far := packetConns(t)
		control, _ := probetest.Conns(t)
		r, err := newReceiver(control, far, spec.Defaults(), make([]byte, protocol.CookieBytes))
		testutil.OK(t, err)
		if got := r.effective["receive_time"]; got != c.want {
			t.Errorf("%v packets of %d bytes a second: the time is that of %s", c.packets, c.size, got)
		}
	}
}
