package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRRModes(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken, Spin: true})
	for _, protocol := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP} {
		for name, spec := range map[string]measurement.Spec{
			"spinning":               {Spin: true},
			"open loop":              {RequestsPerSecond: 2000},
			"open loop spinning":     {RequestsPerSecond: 2000, Spin: true},
			"in flight":              {InFlight: 8},
			"in flight, large":       {InFlight: 32, RequestBytes: 20_000, ResponseBytes: 30_000},
			"open loop, large":       {RequestsPerSecond: 500, RequestBytes: 9000, ResponseBytes: 20_000},
			"without warm-up":        {MaxWarmup: -1},
			"in flight and spinning": {InFlight: 8, Spin: true},
		} {
			t.Run(fmt.Sprintf("%s %s", protocol, name), func(t *testing.T) {
				spec.Kind, spec.Protocol, spec.Duration, spec.Timeout = measurement.RR, protocol, 0.2, 2
				if spec.MaxWarmup == 0 {
					spec.MaxWarmup = 0.02
				} else {
					spec.MaxWarmup = 1e-9 // zero is the default
				}
				out, err := Run(testContext(t), Request{ID: "rr", Spec: spec, Target: target, Token: testToken}, nil)
				if err != nil {
					t.Fatal(err)
				}
				said := strings.Contains(strings.Join(out.Facts, "; "), "could not be sent")
				if rate := spec.RequestsPerSecond; rate > 0 && protocol == measurement.OverTCP && !said {
					// Every request that was due has its latency, unless a fact
					// says that this host was too busy.
					if due := rate * float64(spec.Duration); float64(out.Latency.Samples) < due-1 || float64(out.Latency.Samples) > due+1 {
						t.Errorf("%d round trips of %v requests: %v", out.Latency.Samples, due, out.Facts)
					}
				}
				if out.Latency.Samples == 0 || out.Latency.Min <= 0 {
					t.Errorf("%+v", out.Latency)
				}
				checkWaits(t, out, spec)
			})
		}
	}
}

// A server that was not told that it may spin does not, and says so.
func TestSpinningIsTheServersToAllow(t *testing.T) {
	target := serve(t, ServerOptions{})
	for _, protocol := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP} {
		out, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: measurement.RR, Protocol: protocol, Duration: 0.1, Spin: true}, Target: target}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if wait := out.Effective["destination_wait"]; wait != "sleeping" || !strings.Contains(strings.Join(out.Facts, "; "), "serve --spin") {
			t.Errorf("%s: the destination was %q, facts %q", protocol, wait, out.Facts)
		}
	}
}

// checkWaits holds what was asked of the waiting against what is said of it.
func checkWaits(t *testing.T, out measurement.Outcome, spec measurement.Spec) {
	t.Helper()
	for _, end := range []string{"source", "destination"} {
		said := strings.Contains(strings.Join(out.Facts, "; "), end+" slept")
		wait := out.Effective[end+"_wait"]
		if want := spec.Spin && !said; wait == "spinning" != want || wait != "spinning" && wait != "sleeping" {
			t.Errorf("the %s was %q, asked to spin: %v; facts %q", end, wait, spec.Spin, out.Facts)
		}
	}
	if spec.Spin && runtime.GOOS == "linux" && runtime.GOMAXPROCS(0) > 1 && out.Effective["source_wait"] != "spinning" && out.Effective["destination_wait"] != "spinning" {
		t.Error("no end spun although there are processors enough")
	}
}

// stampAll has the kernel stamp packets until the test ends, where it can. A
// worker of the kernel's begins to, which took 0.8 s on a host that compiled:
// longer than some tests, and nearly as long as a test of a path waits for it.
func stampAll(t *testing.T) {
	t.Helper()
	near, far := wires(t)
	if err := near.EnableReceiveStamps(); errors.Is(err, sockets.ErrUnsupported) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, at, err := near.ReadStamped(b, false); err != nil && !errors.Is(err, sockets.ErrTick) {
			t.Fatal(err)
		} else if !at.IsZero() {
			return
		}
	}
	t.Fatal("the kernel stamped no packet in a minute")
}

// The wake-up and the rest are the whole round trip.
func TestRRTimeStamps(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("only Linux gives time stamps; this is %s", runtime.GOOS)
	}
	stampAll(t)
	target := serve(t, ServerOptions{Spin: true})
	for _, spec := range []measurement.Spec{
		{Protocol: measurement.OverTCP},
		{Protocol: measurement.OverUDP},
		{Protocol: measurement.OverUDP, Spin: true},
		{Protocol: measurement.OverTCP, Spin: true, ResponseBytes: 100_000},
	} {
		spec.Kind, spec.Duration = measurement.RR, 1
		out, err := Run(testContext(t), Request{Spec: spec, Target: target}, nil)
		if err != nil {
			t.Fatal(err)
		}
		path, wakeup := out.Metrics["path_rtt_p50_seconds"], out.Metrics["wakeup_p50_seconds"]
		if path <= 0 || wakeup <= 0 || path > float64(out.Latency.Max) && path > 0.1 {
			t.Errorf("%+v: path %v, wake-up %v of round trips of %v to %v; facts %q", spec, path, wakeup, out.Latency.Min, out.Latency.Max, out.Facts)
		}
	}
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
		if n+p.unsent != due {
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
	if v, ok := percentile(d, 90); !ok || v < (stall/2).Seconds() {
		t.Errorf("p90 is %v s after a stall of %v: %+v", v, stall, d.Percentiles)
	}
	if d.Max < measurement.SecondsOf(stall)*9/10 {
		t.Errorf("the slowest took %v s, the stall %v", d.Max, stall)
	}
}

// pastStall runs an open loop towards a far end that stalls.
func pastStall(t *testing.T, stall, length time.Duration, rate float64) (*rrLoop, *pipeline) {
	t.Helper()
	near, far := wires(t)
	s := &stepper{stallAt: stall, stall: stall}
	done := make(chan error, 1)
	go func() {
		b := make([]byte, 1)
		for {
			if _, err := far.Read(b); err != nil {
				done <- err
				return
			}
			s.pause()
			if _, err := far.Write(b); err != nil {
				done <- err
				return
			}
		}
	}()
	loop := &rrLoop{recorder: latency.New(), length: length}
	p := newPipeline(&tcpCarrier{Conn: near.Conn, request: make([]byte, 1), response: 1, in: make([]byte, 64)}, loop, rate, 1, 0)
	if _, err := onThread(false, "", func(bool) error { return p.run(time.Now()) }); err != nil {
		t.Fatal(err)
	}
	near.Interrupt()
	<-done
	return loop, p
}

// A request that is lost costs itself and no other; responses that come late,
// twice or in another order are told apart by their sequence numbers.
func TestPipelineOverBadUDP(t *testing.T) {
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
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
			switch sequence := binary.BigEndian.Uint32(b[datagramSequence:]); sequence % 10 {
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
				binary.BigEndian.PutUint32(stranger[datagramSequence:], sequence+1<<20)
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
	conn := connected(t, far.LocalAddr().(*net.UDPAddr).AddrPort())
	testutil.Longer(t, func(factor float64) string {
		length := time.Duration(factor * float64(500*time.Millisecond))
		loop := &rrLoop{recorder: latency.New(), length: length}
		c := &udpCarrier{Conn: conn, request: make([]byte, datagramBytes), in: make([]byte, 2000)}
		p := newPipeline(c, loop, 500/length.Seconds(), 1, time.Second)
		p.samples = make([]sample, 0, 1000)
		if _, err := onThread(false, "", func(bool) error { return p.run(time.Now()) }); err != nil {
			t.Fatal(err)
		}
		sent, lost := 500-int(p.unsent), 0
		for sequence := range sent {
			if sequence%10 == 3 {
				lost++
			}
		}
		if n := loop.recorder.Samples(); int(loop.lost) != lost || int(n) != sent-lost {
			t.Errorf("%d answered, %d lost of %d requests, of which every tenth is lost", n, loop.lost, sent)
		}
		if rtts, gone := within(p.samples, 0, length); len(rtts) != sent-lost || int(gone) != lost {
			t.Errorf("kept %d and %d of %d", len(rtts), gone, sent)
		}
		if sent < 20 {
			return fmt.Sprintf("of 500 requests only %d were sent", sent)
		}
		return ""
	})
}

// More than the far end can do is said, and does not hang.
func TestOverloadIsSaid(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := serve(t, ServerOptions{})
	p, addr := startProxy(t, target, 1<<60, false)
	defer p.close()
	spec := measurement.Spec{Kind: measurement.RR, Duration: 0.2, MaxWarmup: 0.001, RequestsPerSecond: 1e6, RequestBytes: 1000, ResponseBytes: 1000}
	out, err := Run(testContext(t), Request{Spec: spec, Target: addr}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if facts := strings.Join(out.Facts, "; "); !strings.Contains(facts, "overload") {
		t.Errorf("facts %q", facts)
	}
	// So much that none of the measured requests ever left is no result at all.
	spec.RequestsPerSecond, spec.MaxWarmup = maxRequests, 0.1
	_, err = Run(testContext(t), Request{Spec: spec, Target: addr}, nil)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Error(), "overload") {
		t.Errorf("got %v", err)
	}
}

// connected is a detached UDP socket towards an address.
func connected(t *testing.T, to netip.AddrPort) *sockets.Conn {
	t.Helper()
	c, err := dialUDP(t.Context(), Request{Target: to}, protocol.Ready{})
	if err != nil {
		t.Fatal(err)
	}
	detached, err := sockets.DetachUDP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = detached.Close() })
	return detached
}

// None of the loops allocates once it runs: what a run of twice the length
// allocates is no more than the progress of either takes.
func TestPipelinesDoNotAllocate(t *testing.T) {
	near, far := wires(t)
	done := make(chan error, 1)
	go func() {
		err := oneByteEnd(&far, false)
		done <- err
	}()
	loop := &rrLoop{recorder: latency.New(), length: time.Hour}
	p := newPipeline(&tcpCarrier{Conn: near.Conn, request: make([]byte, 1), response: 1, in: make([]byte, 64)}, loop, 0, 4, 0)
	p.end = time.Hour
	start := time.Now()
	step := func() {
		wait, err := p.sendDue(start, time.Since(start), false)
		if err == nil {
			err = p.take(start, wait)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.expire(time.Since(start))
	}
	if n := allocations(2000, step); n != 0 {
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
	stampAll(t)
	near, far := wires(t)
	done := make(chan error, 1)
	go func() {
		err := oneByteEnd(&far, true)
		done <- err
	}()
	x := &tcpExchange{endpoint: endpoint{wire: near, spin: true}, request: make([]byte, 1), response: make([]byte, 1)}
	step := func() {
		if err := x.exchange(false); err != nil {
			t.Fatal(err)
		}
	}
	if n := allocations(2000, step); n != 0 {
		t.Errorf("a spinning round trip allocates %d times", n)
	}
	if x.stamp() {
		if n := allocations(500, step); n != 0 {
			t.Errorf("a stamped round trip allocates %d times", n)
		}
		if x.received().IsZero() {
			t.Error("no time stamp came")
		}
	}
	if err := x.exchange(true); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A spinning end whose peer is silent ends by its deadline, and the runtime
// can stop the world meanwhile.
func TestSpinningEndsByDeadline(t *testing.T) {
	near, _ := wires(t)
	near.deadline = time.Now().Add(200 * time.Millisecond)
	done := make(chan error, 1)
	go func() {
		_, err := near.spinRead(make([]byte, 1))
		done <- err
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case err := <-done:
		if reasonOf(err) != TimedOut {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it spins on")
	}
}

// A far end that vanishes, or falls silent, ends every mode with a reason.
func TestRRModesFaults(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := serve(t, ServerOptions{Token: testToken, Spin: true})
	var wg sync.WaitGroup
	for _, spec := range []measurement.Spec{
		{Spin: true}, {InFlight: 8}, {RequestsPerSecond: 1000}, {InFlight: 4, RequestBytes: 100_000, ResponseBytes: 100_000},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.RR, 0.3, 0.01
		for _, stall := range []bool{false, true} {
			// Rather more than the opening, and less than the test exchanges.
			opening := bytesOf(t, target, spec)
			wg.Go(func() {
				p, addr := startProxy(t, target, opening+200, stall)
				defer p.close()
				_, err := Run(testContext(t), Request{Spec: spec, Target: addr, Token: testToken}, nil)
				if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Vanished && e.Reason != TimedOut {
					t.Errorf("%+v, stalled %v: %v", spec, stall, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestRRModesCancelled(t *testing.T) {
	target := serve(t, ServerOptions{Spin: true})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.RR, Spin: true},
		{Kind: measurement.RR, InFlight: 8},
		{Kind: measurement.RR, RequestsPerSecond: 100, Protocol: measurement.OverUDP},
		{Kind: measurement.CRR, Flows: 2},
		{Kind: measurement.Load, IdleDuration: 0.1, Flows: 1},
	} {
		spec.Duration = 600
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := Run(ctx, Request{Spec: spec, Target: target}, func(measurement.Progress) { cancel() })
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Cancelled {
			t.Errorf("%v: got %v", spec, err)
		}
		cancel()
	}
}

// oneByteEnd answers requests of a byte with one, without a follower.
func oneByteEnd(w *wire, spin bool) error {
	end := &rrEnd{spec: measurement.Spec{RequestBytes: 1, ResponseBytes: 1, InFlight: 2}, zeros: []byte{0}}
	return end.answer(w, spin)
}
