package rr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The closed loop allocates nothing, neither at the client nor at the server.
func TestRequestResponseLoopDoesNotAllocate(t *testing.T) {
	near, done := answered(t, false)
	x := byteExchange(near)
	recorder := latency.New()
	n := probetest.Allocations(2000, func() {
		start := time.Now()
		testutil.OK(t, x.exchange(false))
		recorder.Record(time.Since(start))
	})
	testutil.OK(t, x.exchange(true))
	testutil.OK(t, <-done)
	if n != 0 {
		t.Errorf("a round trip allocates %v times", n)
	}
}

// A loop that begins when its time is over, on a busy host, still measures a round
// trip; one that was told to stop does not.
func TestLateLoopMeasuresOnce(t *testing.T) {
	for _, c := range []struct {
		warmup time.Duration
		stop   bool
		want   int64
	}{
		{0, false, 1}, {time.Second, false, 1}, {0, true, 0},
	} {
		near, done := answered(t, false)
		l := &loop{
			exchanger: byteExchange(near),
			recorder:  latency.New(), warmup: c.warmup, length: time.Second,
		}
		l.stop.Store(c.stop)
		testutil.OK(t, errors.Join(l.run(time.Now().Add(-time.Hour)), <-done))
		if got := l.recorder.Samples(); got != c.want {
			t.Errorf("warm-up %v, stopped %v: %d round trips measured, want %d", c.warmup, c.stop, got, c.want)
		}
	}
}

// lossy is an exchanger of which the first so many requests are lost.
type lossy struct {
	exchanger
	lost int
}

func (x *lossy) exchange(last bool) error {
	if x.lost--; x.lost >= 0 {
		return errLost
	}
	return x.exchanger.exchange(last)
}

// A request of the warm-up that waits for its answer beyond the measured time is lost
// in it: the one that comes through afterwards says nothing of that time.
func TestLossThatOutlastsTheLoopIsMeasured(t *testing.T) {
	near, done := answered(t, false)
	l := &loop{
		exchanger: &lossy{byteExchange(near), 1},
		recorder:  latency.New(), warmup: time.Second, length: time.Second,
	}
	testutil.OK(t, errors.Join(l.run(time.Now().Add(-time.Hour)), <-done))
	if n := l.recorder.Samples(); n != 0 || l.lost != 1 || l.measured <= 0 {
		t.Errorf("%d round trips and %d lost requests in %v", n, l.lost, l.measured)
	}
}

// A thread that keeps its CPU while it waits makes way for the garbage
// collector, even when nothing ever comes.
func TestWaitingLetsTheWorldStop(t *testing.T) {
	near, done := answered(t, false)
	x := byteExchange(near)
	stopped := make(chan error, 1)
	go func() {
		for range 20 {
			if err := x.exchange(false); err != nil {
				stopped <- err
				return
			}
			runtime.GC()
		}
		stopped <- x.exchange(true)
	}()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the world did not stop")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A far end that stalls for a planted time shows in the open loop's
// percentiles in full: the requests that were due meanwhile waited, too. A
// closed loop would have one slow round trip among thousands.
func TestOpenLoopHidesNoStall(t *testing.T) {
	const due = 1000
	var stall time.Duration
	var d measurement.Distribution
	testutil.Longer(t, func(factor float64) string {
		stall = time.Duration(factor * float64(300*time.Millisecond))
		loop, p := pastStall(t, stall, time.Duration(factor*float64(time.Second)), due/factor)
		n := loop.recorder.Samples()
		if n+p.unsent != due || loop.recorder.Unanswered() != p.unsent {
			t.Fatalf("%d round trips of %d requests, %d unsent", n, due, p.unsent)
		}
		d = loop.recorder.Distribution()
		if n < due*6/10 { // those after the stall may not leave in time on a busy host
			return fmt.Sprintf("of %d requests only %d were sent", due, n)
		}
		return ""
	})
	// Of the requests, 300 were due in the stall, and the median of those waited
	// for at least half of it: 15 % of all were slower than that.
	if v, ok := d.At(90); !ok || v < measurement.SecondsOf(stall/2) {
		t.Errorf("p90 is %v s after a stall of %v: %+v", v, stall, d.Percentiles)
	}
	if d.Max < measurement.SecondsOf(stall)*9/10 {
		t.Errorf("the slowest took %v s, the stall %v", d.Max, stall)
	}
}

// pastStall runs an open loop towards a far end that stalls.
func pastStall(t *testing.T, stall, length time.Duration, rate float64) (*loop, *pipeline) {
	t.Helper()
	s := &stepper{stallAt: stall, stall: stall}
	loop, p, err := openLoop(t, length, rate, drainTime, func(int64) bool {
		s.pause()
		return true
	})
	testutil.OK(t, err)
	return loop, p
}

// openLoop runs an open loop, whose last responses may take drain, towards a far end that
// answers those requests of which answers, which may wait, says so.
func openLoop(t *testing.T, length time.Duration, rate float64, drain time.Duration, answers func(request int64) bool) (*loop, *pipeline, error) {
	t.Helper()
	near, far := probetest.Conns(t)
	var end sync.WaitGroup
	end.Go(func() {
		b := make([]byte, 1)
		for i := int64(0); ; i++ {
			if _, err := far.Read(b); err != nil {
				return
			}
			if !answers(i) {
				continue
			}
			if _, err := far.Write(b); err != nil {
				return
			}
		}
	})
	loop := &loop{recorder: latency.New(), length: length}
	p := newPipeline(byteCarrier(near), loop, rate, 1, 0)
	p.drain = drain
	_, err := session.OnThread(false, "", nil, func(bool) error { return p.run(time.Now()) })
	near.Interrupt()
	end.Wait()
	return loop, p, err
}

// A far end over TCP that falls silent for good leaves what was under way, or could not
// be sent for it, without an answer; what was measured before stays. With nothing
// measured, there is an error.
func TestSilenceAtTheEndIsLoss(t *testing.T) {
	for _, answers := range []int64{0, 5} {
		testutil.Longer(t, func(factor float64) string {
			length := time.Duration(factor * float64(200*time.Millisecond))
			loop, p, err := openLoop(t, length, 20/length.Seconds(), length/4, func(request int64) bool { return request < answers })
			d := loop.recorder.Distribution()
			if sent := 20 - p.unsent; sent <= answers || d.Samples < answers {
				return fmt.Sprintf("%d of 20 requests left in time, %d answers came", sent, d.Samples)
			}
			switch {
			case answers == 0 && !errors.Is(err, session.ErrSilent):
				t.Errorf("nothing was answered: %v", err)
			case answers > 0 && (err != nil || !p.silent || len(p.facts()) == 0):
				t.Errorf("after %d answers: %v, silent %v", answers, err, p.silent)
			case d.Due() != 20 || loop.lost+p.unsent != d.Unanswered:
				t.Errorf("%d answers, %d lost, %d unsent: %d and %d of 20", answers, loop.lost, p.unsent, d.Samples, d.Unanswered)
			case d.Lacks(50) != measurement.LacksAnswer:
				t.Errorf("with %d of 20 answered, the median lacks %q", answers, d.Lacks(50))
			}
			return ""
		})
	}
}

// A request that is lost costs itself and no other; responses that come late,
// twice or in another order are told apart by their sequence numbers.
func TestPipelineOverBadUDP(t *testing.T) {
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 2000)
		var held []byte
		for {
			n, from, err := far.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			send := func(p []byte) { _, _ = far.WriteToUDPAddrPort(p, from) } // a lost one is a lost one
			switch sequence := binary.BigEndian.Uint32(b[datagram.SequenceOffset:]); sequence % 10 {
			case 3: // lost
			case 5: // overtaken by the next
				held = append(held[:0], b[:n]...)
			case 6:
				send(b[:n])
				send(held)
			case 7: // twice
				send(b[:n])
				send(b[:n])
			case 8: // a stranger's sequence number first, and a short packet
				stranger := append([]byte{}, b[:n]...)
				binary.BigEndian.PutUint32(stranger[datagram.SequenceOffset:], sequence+1<<20)
				send(stranger)
				send(b[:5])
				send(b[:n])
			default:
				send(b[:n])
			}
		}
	})
	defer wg.Wait()
	defer far.Close()
	conn := probetest.UDPSocket(t, far.LocalAddr().(*net.UDPAddr).AddrPort())
	testutil.Longer(t, func(factor float64) string {
		length := time.Duration(factor * float64(500*time.Millisecond))
		loop := &loop{recorder: latency.New(), length: length}
		c := &udpCarrier{Conn: conn, request: make([]byte, datagram.HeaderBytes), in: make([]byte, 2000)}
		p := newPipeline(c, loop, 500/length.Seconds(), 1, time.Second)
		p.samples = make([]session.Sample, 0, 1000)
		if _, err := session.OnThread(false, "", nil, func(bool) error { return p.run(time.Now()) }); err != nil {
			t.Fatal(err)
		}
		sent, lost := 500-int(p.unsent), 0
		for sequence := range sent {
			if sequence%10 == 3 || sequence%10 == 5 && sequence == sent-1 { // which nobody overtakes
				lost++
			}
		}
		if n := loop.recorder.Samples(); int(loop.lost) != lost || int(n) != sent-lost {
			t.Errorf("%d answered, %d lost of %d requests, of which every tenth is lost", n, loop.lost, sent)
		}
		if rtts, gone, unsent := session.Within(p.samples, 0, length); len(rtts) != sent-lost || gone != lost || unsent != 500-sent {
			t.Errorf("kept %d, %d and %d of %d", len(rtts), gone, unsent, sent)
		}
		if n := loop.recorder.Unanswered(); int(n) != lost+500-sent {
			t.Errorf("%d are infinitely late, of %d lost and %d unsent", n, lost, 500-sent)
		}
		if sent < 20 {
			return fmt.Sprintf("of 500 requests only %d were sent", sent)
		}
		return ""
	})
}

// None of the loops allocates once it runs: what a run of twice the length
// allocates is no more than the progress of either takes.
func TestPipelinesDoNotAllocate(t *testing.T) {
	near, done := answered(t, false)
	loop := &loop{recorder: latency.New(), length: time.Hour}
	p := newPipeline(byteCarrier(near), loop, 0, 4, 0)
	p.end = time.Hour
	start := time.Now()
	step := func() {
		wait, err := p.sendDue(start, time.Since(start), false)
		if err == nil {
			err = p.take(start, wait)
		}
		testutil.OK(t, err)
		p.expire(time.Since(start))
	}
	if n := probetest.Allocations(2000, step); n != 0 {
		t.Errorf("a step of the pipeline allocates %d times", n)
	}
	if loop.recorder.Samples() < 1000 {
		t.Errorf("only %d round trips", loop.recorder.Samples())
	}
	near.Interrupt()
	if err := <-done; err == nil {
		t.Error("the far end did not notice the end")
	}
}

// Spinning and stamped exchanges allocate nothing either, at both ends.
func TestSpinningDoesNotAllocate(t *testing.T) {
	probetest.StampAll(t)
	near, done := answered(t, true)
	x := byteExchange(near)
	x.spin = true
	step := func() {
		testutil.OK(t, x.exchange(false))
	}
	if n := probetest.Allocations(2000, step); n != 0 {
		t.Errorf("a spinning round trip allocates %d times", n)
	}
	if x.stamp() {
		if n := probetest.Allocations(500, step); n != 0 {
			t.Errorf("a stamped round trip allocates %d times", n)
		}
		if x.received().IsZero() {
			t.Error("no time stamp came")
		}
	}
	testutil.OK(t, x.exchange(true))
	testutil.OK(t, <-done)
}

// A spinning end whose peer is silent ends by its deadline, and the runtime
// can stop the world meanwhile.
func TestSpinningEndsByDeadline(t *testing.T) {
	near, _ := probetest.Conns(t)
	near.Deadline = time.Now().Add(200 * time.Millisecond)
	done := make(chan error, 1)
	go func() {
		_, err := near.SpinRead(make([]byte, 1))
		done <- err
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case err := <-done:
		if session.ReasonOf(err) != session.TimedOut {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it spins on")
	}
}

// answered is a connection whose other end answers requests of a byte with one, without a
// follower, and says how that ended.
func answered(t *testing.T, spin bool) (near session.ControlConn, done <-chan error) {
	t.Helper()
	near, far := probetest.Conns(t)
	ended := make(chan error, 1)
	end := &responder{requests: &requests{}, spec: measurement.Spec{RequestBytes: 1, ResponseBytes: 1, InFlight: 2}, zeros: []byte{0}}
	go func() { ended <- end.answer(&far, spin) }()
	return near, ended
}

// byteExchange and byteCarrier make requests of a byte, whose responses have one.
func byteExchange(w session.ControlConn) *tcpExchange {
	return &tcpExchange{endpoint: endpoint{ControlConn: w}, request: make([]byte, 1), response: make([]byte, 1)}
}

func byteCarrier(w session.ControlConn) *tcpCarrier {
	return &tcpCarrier{Conn: w.Conn, request: make([]byte, 1), response: 1, in: make([]byte, 64)}
}

// stepper is a UDP or TCP far end in this process that answers at once, but
// for a time in which it answers nothing.
type stepper struct {
	stallAt, stall time.Duration
	start          time.Time
	once           sync.Once
}

// pause blocks for what is left of the planned stall.
func (s *stepper) pause() {
	s.once.Do(func() { s.start = time.Now() })
	if at := time.Since(s.start); at >= s.stallAt && at < s.stallAt+s.stall {
		time.Sleep(s.stallAt + s.stall - at)
	}
}

// Over UDP there is no last request: a client that asked for an answer to one would wait for
// it in vain on a path that has died, longer than the server's end does.
func TestNoLastRequestOverUDP(t *testing.T) {
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	defer silent.Close()
	conn := probetest.UDPSocket(t, silent.LocalAddr().(*net.UDPAddr).AddrPort())
	x := &udpExchange{
		endpoint: endpoint{ControlConn: session.ControlConn{Conn: conn}},
		request:  make([]byte, datagram.HeaderBytes), response: make([]byte, datagram.HeaderBytes), timeout: time.Hour,
	}
	testutil.OK(t, x.exchange(true))
	if x.sequence != 0 {
		t.Error("it sent a request")
	}
}

// An answer that is read after its timeout is late, also where the wait for it was longer than
// that.
func TestAnswerReadAfterItsTimeout(t *testing.T) {
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	defer far.Close()
	const timeout = time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, datagram.HeaderBytes)
		if _, from, err := far.ReadFromUDPAddrPort(b); err == nil {
			time.Sleep(2 * timeout)
			_, _ = far.WriteToUDPAddrPort(b, from) // if it fails, so does the test
		}
	})
	defer wg.Wait()
	conn := probetest.UDPSocket(t, far.LocalAddr().(*net.UDPAddr).AddrPort())
	testutil.OK(t, conn.SetReadTick(time.Minute))
	x := &udpExchange{
		endpoint: endpoint{ControlConn: session.ControlConn{Conn: conn}},
		request:  make([]byte, datagram.HeaderBytes), response: make([]byte, datagram.HeaderBytes), timeout: timeout, late: new(late),
	}
	if err := x.exchange(false); !errors.Is(err, errLost) || x.late.tardy != 1 {
		t.Errorf("%v, %d late answers", err, x.late.tardy)
	}
}

// The rate of a test is that of requests and responses together, as a server measures it.
func TestRateIsOfBothDirections(t *testing.T) {
	spec := measurement.Spec{RequestsPerSecond: 10, RequestBytes: 100, ResponseBytes: 300}
	if got := Kind().Rate(spec); got != 10*400*8 {
		t.Errorf("%v bit/s", got)
	}
}

// prompt answers each request at once, and wakes a little later than it is to.
type prompt struct{ sent, answered uint32 }

func (c *prompt) send(uint32) error { c.sent++; return nil }
func (c *prompt) rest() bool        { return false }
func (c *prompt) push() error       { return nil }

func (c *prompt) receive(wait time.Duration) (first uint32, n int, err error) {
	if first, n = c.answered, int(c.sent-c.answered); n > 0 {
		c.answered = c.sent
		return first, n, nil
	}
	time.Sleep(wait + 50*time.Microsecond)
	return 0, 0, sockets.ErrTick
}

// An open loop that is told to stop, as that of a load test is, had no overload for the request
// that was due just then.
func TestEarlyEndIsNoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := &loop{recorder: latency.New(), length: time.Hour}
		p := newPipeline(&prompt{}, loop, 100, 1, 0)
		time.AfterFunc(55*time.Millisecond, func() { loop.stop.Store(true) })
		testutil.OK(t, p.run(time.Now()))
		if n := loop.recorder.Samples(); n != 6 || p.unsent != 0 || loop.recorder.Unanswered() != 0 || len(p.facts()) > 0 {
			t.Errorf("%d answers, %d unsent: %q", n, p.unsent, p.facts())
		}
	})
}

// far is an exchanger over a long path.
type far struct {
	takes     time.Duration
	exchanges int
	stamped   bool
}

func (f *far) exchange(bool) error {
	f.exchanges++
	time.Sleep(f.takes)
	return nil
}

func (f *far) stamp() bool {
	f.stamped = true
	return true
}

func (f *far) received() time.Time { return time.Now() }

// On a long path, where a median would lack round trips, none is divided: each may take seconds.
func TestLongRoundTripsAreNotDivided(t *testing.T) {
	for takes, divided := range map[time.Duration]bool{time.Millisecond: true, 6 * time.Millisecond: false, 1500 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			f := &far{takes: takes}
			l := &loop{exchanger: f, recorder: latency.New(), length: 15 * time.Second}
			if err := l.run(time.Now()); err != nil || f.stamped != divided || (l.path != nil) != divided {
				t.Errorf("%v: %v, stamped %v", takes, err, f.stamped)
			}
			if most := int(l.length/takes) + 1; !divided && f.exchanges != most {
				t.Errorf("%v: %d round trips, want %d", takes, f.exchanges, most)
			}
		})
	}
}

// A path may be dead of which nothing was answered in the last tenth of the measured time.
func TestSilence(t *testing.T) {
	for answered, want := range map[time.Duration]time.Duration{
		11 * time.Second: 0, 10500 * time.Millisecond: 0, 9 * time.Second: 2 * time.Second, time.Second: 10 * time.Second,
		12 * time.Second: 0, // during the answers to the last requests
	} {
		l := &loop{warmup: time.Second, measured: 10 * time.Second, answered: answered}
		if got := l.silence(); got != want {
			t.Errorf("answered until %v: silent for %v, want %v", answered, got, want)
		}
	}
}
