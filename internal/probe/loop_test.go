package probe

import (
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

// wires is a connection with both ends detached.
func wires(t *testing.T) (a, b session.ControlConn) { return wiresBy(t, sockets.Detach) }

// attachedWires is a connection with both ends in the runtime's poller.
func attachedWires(t *testing.T) (a, b session.ControlConn) { return wiresBy(t, sockets.Attach) }

// wiresBy is a connection whose ends were taken over by take.
func wiresBy(t *testing.T, take func(*net.TCPConn) (*sockets.Conn, error)) (a, b session.ControlConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	end := func(c net.Conn) session.ControlConn {
		conn, err := take(c.(*net.TCPConn))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return session.ControlConn{Conn: conn, Deadline: time.Now().Add(time.Minute)}
	}
	return end(near), end(far)
}

// allocations is how often f allocates, by itself and in what runs beside it.
// It is testing.AllocsPerRun without its restriction to one processor, on
// which two threads that block in system calls would wait for each other's.
func allocations(runs int, f func()) int {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int(after.Mallocs-before.Mallocs) / runs
}

// The closed loop allocates nothing, neither at the client nor at the server.
func TestRequestResponseLoopDoesNotAllocate(t *testing.T) {
	near, far := wires(t)
	done := make(chan error, 1)
	go func() {
		err := oneByteEnd(&far, false)
		done <- err
	}()
	x := &tcpExchange{endpoint: endpoint{ControlConn: near}, request: make([]byte, 1), response: make([]byte, 1)}
	recorder := latency.New()
	n := allocations(2000, func() {
		start := time.Now()
		if err := x.exchange(false); err != nil {
			t.Fatal(err)
		}
		recorder.Record(time.Since(start))
	})
	if err := x.exchange(true); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
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
		near, far := wires(t)
		done := make(chan error, 1)
		go func() {
			err := oneByteEnd(&far, false)
			done <- err
		}()
		l := &rrLoop{
			exchanger: &tcpExchange{endpoint: endpoint{ControlConn: near}, request: make([]byte, 1), response: make([]byte, 1)},
			recorder:  latency.New(), warmup: c.warmup, length: time.Second,
		}
		l.stop.Store(c.stop)
		if err := errors.Join(l.run(time.Now().Add(-time.Hour)), <-done); err != nil {
			t.Fatal(err)
		}
		if got := l.recorder.Samples(); got != c.want {
			t.Errorf("warm-up %v, stopped %v: %d round trips measured, want %d", c.warmup, c.stop, got, c.want)
		}
	}
}

// A thread that keeps its processor while it waits makes way for the garbage
// collector, even when nothing ever comes.
func TestWaitingLetsTheWorldStop(t *testing.T) {
	near, far := wires(t)
	done := make(chan error, 1)
	go func() {
		err := oneByteEnd(&far, false)
		done <- err
	}()
	x := &tcpExchange{endpoint: endpoint{ControlConn: near}, request: make([]byte, 1), response: make([]byte, 1)}
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

// Neither do the two ends of a bulk transfer, frame by frame, on threads or in
// the poller, whichever way the payload is sent and received.
func TestStreamLoopsDoNotAllocate(t *testing.T) {
	for name, connected := range map[string]func(*testing.T) (session.ControlConn, session.ControlConn){"thread": wires, "poller": attachedWires} {
		for _, spec := range []measurement.Spec{
			{Duration: 60, SendMethod: measurement.SendCopy},
			{Duration: 60, CopyPayload: true},
			{Duration: 60, SendMethod: measurement.SendZerocopy},
		} {
			if runtime.GOOS != "linux" && spec.SendMethod == measurement.SendZerocopy {
				continue
			}
			near, far := connected(t)
			shared := newBulk()
			s, err := shared.newSender(near, spec, 0)
			if err != nil {
				t.Fatal(err)
			}
			s.mustFinish = true
			r := newReceiver(far, spec, make([]byte, discardBytes))
			r.start = time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.run() // ends, with an error, when the sender closes
			}()
			checked := time.Now()
			n := allocations(500, func() {
				if _, err := s.sendFrame(minFrame, &checked); err != nil {
					t.Fatal(err)
				}
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			<-done
			if got, want := r.count.Load(), s.sent.Load(); got != want {
				t.Errorf("%s %+v: received %d of %d bytes", name, spec, got, want)
			}
			if n != 0 {
				t.Errorf("%s %+v: a data frame allocates %v times", name, spec, n)
			}
			if err := shared.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestChooseWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const width = 10 * time.Millisecond
	series := func(n int, at func(i int) float64) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = at(i)*1e6 + rng.NormFloat64()*2e4
		}
		return s
	}
	spec := measurement.Spec{Duration: 1, MaxWarmup: 0.5}
	for _, c := range []struct {
		name           string
		at             func(i int) float64
		earliest, last int
		steady         bool
	}{
		{"steady from the start", func(int) float64 { return 1 }, 5, 30, true},
		{"slow start for 200 ms", func(i int) float64 { return min(float64(i)/20, 1) }, 15, 40, true},
		{"overshoot for 150 ms", func(i int) float64 {
			if i < 15 {
				return 2
			}
			return 1
		}, 15, 40, true},
		{"rising all the time", func(i int) float64 { return float64(i) / 150 }, 50, 50, false},
	} {
		s := series(150, c.at)
		w := chooseWindow(s, width, spec)
		if w.first < c.earliest || w.first > c.last || w.steady != c.steady {
			t.Errorf("%s: window %+v, want it to start in %d..%d, steady %v", c.name, w, c.earliest, c.last, c.steady)
		}
		if w.last-w.first != 100 || w.last > len(s) {
			t.Errorf("%s: window %+v is not a second long", c.name, w)
		}
	}
	// Whatever the series, the window fits it.
	for range 2000 {
		spec := measurement.Spec{Duration: measurement.Seconds(0.01 + rng.Float64()), MaxWarmup: measurement.Seconds(rng.Float64() * 0.5)}
		n, width := session.BinsOf(spec)
		w := chooseWindow(make([]float64, n), width, spec)
		if w.first < 0 || w.last > n || w.first >= w.last {
			t.Fatalf("%+v: window %+v of %d bins", spec, w, n)
		}
	}
}
