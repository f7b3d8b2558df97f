package linkem_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/linkem/linktest"
	"github.com/hopbench/hopbench/internal/testutil"
)

var kinds = []linkem.Kind{linkem.TAP, linkem.Packet}

// eachKind runs a test with each kind of port.
func eachKind(t *testing.T, test func(t *testing.T, kind linkem.Kind)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// eachWay runs it with frames that need not wait, too, and with some that do.
func eachWay(t *testing.T, test func(t *testing.T, kind linkem.Kind, delay time.Duration)) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		t.Run("direct", func(t *testing.T) { test(t, kind, 0) })
		t.Run("delayed", func(t *testing.T) { test(t, kind, time.Millisecond) })
	})
}

// needEmulator skips unless ports of the kind can be opened here.
func needEmulator(t *testing.T, kind linkem.Kind) {
	t.Helper()
	testutil.Need(t, testutil.Entered(), "a user namespace or root")
	if kind == linkem.TAP {
		f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		testutil.Need(t, err == nil, "access to /dev/net/tun")
		testutil.OK(t, f.Close())
	}
}

// running is a pair of namespaces with a link emulator that carries frames.
type running struct {
	*linktest.Pair
	*linkem.Emulator
	cancel context.CancelFunc
	ended  chan error // Run's result
}

func start(t *testing.T, kind linkem.Kind, cfg linkem.Config) *running {
	t.Helper()
	return startInspected(t, kind, cfg, nil)
}

// startInspected has an inspector see every frame, unless that is nil.
func startInspected(t *testing.T, kind linkem.Kind, cfg linkem.Config, i linkem.Inspector) *running {
	t.Helper()
	needEmulator(t, kind)
	pair, err := linktest.NewPair(kind, cfg)
	testutil.OK(t, err)
	c, err := linkem.New(pair.Ports[0], pair.Ports[1], cfg)
	testutil.OK(t, err)
	c.Inspect(i)
	return run(t, pair, c)
}

func run(t *testing.T, pair *linktest.Pair, c *linkem.Emulator) *running {
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Pair: pair, Emulator: c, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// stop ends Run and returns what it said.
func (r *running) stop(t *testing.T) error {
	t.Helper()
	r.cancel()
	return r.result(t)
}

func (r *running) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("Run does not return")
		return nil
	}
}

// Random shares as seen from outside, and every frame accounted for. The bounds
// are 99.999 % intervals of the normal approximation, and the seed is fixed.
func TestPlantedShares(t *testing.T) {
	const n, loss, twice = 5000, 0.05, 0.02
	eachWay(t, func(t *testing.T, kind linkem.Kind, delay time.Duration) {
		r := start(t, kind, linkem.Config{Forward: linkem.Direction{Delay: delay, LossFraction: loss, DuplicateFraction: twice}, Seed: 99})
		conns := udpPair(t, r)
		passes(t, conns)
		for i := range n {
			if _, err := conns[0].Write([]byte("frame")); err != nil {
				t.Fatal(err)
			}
			if i%64 == 0 {
				eventually(t, "the frames are not read", func() bool { return r.Counters().Forward.ReceivedFrames >= uint64(i) })
			}
		}
		eventually(t, "not every frame is accounted for", func() bool {
			c := r.Counters().Forward
			return c.ReceivedFrames >= n && c.ReceivedFrames+c.DuplicatedFrames == c.Frames+c.LostFrames+c.QueueDroppedFrames+c.RefusedFrames
		})
		c := r.Counters().Forward
		within := func(what string, got, of uint64, p float64) {
			t.Helper()
			if limit := 4.42 * math.Sqrt(float64(of)*p*(1-p)); math.Abs(float64(got)-float64(of)*p) > limit {
				t.Errorf("%s: %d of %d frames, not within %.0f of %.0f", what, got, of, limit, float64(of)*p)
			}
		}
		within("lost", c.LostFrames, c.ReceivedFrames, loss)
		within("duplicated", c.DuplicatedFrames, c.ReceivedFrames-c.LostFrames, twice)
		if b := r.Counters().Backward; b.LostFrames+b.DuplicatedFrames != 0 {
			t.Errorf("the other direction has a share: %+v", b)
		}
	})
}

// A flow that waits for its own rate does not make another wait, keeps its order,
// and loses what its queue has no room for.
func TestFlowsDoNotWaitForEachOther(t *testing.T) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		// A queue of 128 KiB lasts a second.
		r := start(t, kind, linkem.Config{Forward: linkem.Direction{PerFlowRateBitsPerSecond: 1e6}})
		slow, quick := udpPair(t, r), udpPair(t, r)
		passes(t, slow)
		passes(t, quick)
		const n = 200 // of 1442 bytes on the wire: more than the queue holds
		for i := range n {
			if _, err := slow[0].Write(append([]byte{byte(i)}, make([]byte, 1399)...)); err != nil {
				t.Fatal(err)
			}
		}
		sent := time.Now()
		eventually(t, "the frames are not read", func() bool { return r.Counters().Forward.ReceivedFrames >= n })
		passes(t, quick)
		took := time.Since(sent)
		c := r.Counters().Forward
		if waiting := c.ReceivedFrames - c.Frames - c.LostFrames - c.QueueDroppedFrames - c.RefusedFrames; waiting == 0 && took < 500*time.Millisecond {
			t.Error("nothing waits, so nothing could be overtaken")
		}
		if c.QueueDroppedFrames == 0 {
			t.Error("a queue of 128 KiB took 280 kB")
		}
		last, buffer := -1, make([]byte, 2000)
		for passed := range 60 {
			testutil.OK(t, slow[1].SetReadDeadline(time.Now().Add(30*time.Second)))
			size, err := slow[1].Read(buffer)
			if err != nil {
				t.Fatalf("after %d datagrams: %v", passed, err)
			}
			if size != 1400 { // one that passes sent
				continue
			}
			if int(buffer[0]) <= last {
				t.Fatalf("datagram %d came behind %d", buffer[0], last)
			}
			last = int(buffer[0])
		}
	})
}

func TestDelayIsNeverLess(t *testing.T) {
	const there, back = 3 * time.Millisecond, 2 * time.Millisecond
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		r := start(t, kind, linkem.Config{Forward: linkem.Direction{Delay: there}, Backward: linkem.Direction{Delay: back}})
		conns := udpPair(t, r)
		passes(t, conns)
		buffer := make([]byte, 16)
		// Drain what the tries of passes left.
		for err := error(nil); err == nil; {
			err = conns[1].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			testutil.OK(t, err)
			_, err = conns[1].Read(buffer)
		}
		for i := range 50 {
			for _, c := range conns {
				testutil.OK(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			}
			began := time.Now()
			for _, step := range []struct {
				from, to *net.UDPConn
				least    time.Duration
			}{{conns[0], conns[1], there}, {conns[1], conns[0], there + back}} {
				if _, err := step.from.Write([]byte{byte(i)}); err != nil {
					t.Fatal(err)
				}
				if n, err := step.to.Read(buffer); err != nil || n != 1 || buffer[0] != byte(i) {
					t.Fatalf("echo %d: read %x: %v", i, buffer[:n], err)
				}
				if took := time.Since(began); took < step.least {
					t.Errorf("echo %d took %v, less than %v", i, took, step.least)
				}
			}
		}
	})
}

// A port is opened in one process and used in another; a duplicate of its
// descriptor is what they hand over.
func TestPortHandedOver(t *testing.T) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		needEmulator(t, kind)
		pair, err := linktest.NewPair(kind, linkem.Config{})
		testutil.OK(t, err)
		defer pair.Close()
		for i, port := range pair.Ports {
			f, err := port.File()
			testutil.OK(t, err)
			testutil.OK(t, port.Close())
			if _, err := port.File(); !errors.Is(err, linkem.ErrPortClosed) {
				t.Errorf("File of a closed port: %v, want ErrPortClosed", err)
			}
			if pair.Ports[i], err = linkem.PortFromFile(f, kind, "far end"); err != nil {
				t.Fatal(err)
			}
		}
		c, err := linkem.New(pair.Ports[0], pair.Ports[1], linkem.Config{})
		testutil.OK(t, err)
		r := run(t, pair, c)
		transfer(t, r, r.Address4(1))
		if err := r.stop(t); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestPortFromWrongFile(t *testing.T) {
	for _, kind := range append([]linkem.Kind{"string"}, kinds...) {
		f, err := os.Open(os.DevNull)
		testutil.OK(t, err)
		if _, err := linkem.PortFromFile(f, kind, "nothing"); err == nil {
			t.Errorf("%s: %s is taken for a port", kind, os.DevNull)
		}
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: the file is still open (%v)", kind, err)
		}
	}
}

func TestTCPArrivesIntact(t *testing.T) {
	for _, kind := range kinds {
		for _, noOffload := range []bool{false, true} {
			for name, direction := range map[string]linkem.Direction{
				"direct":  {},
				"delayed": {Delay: time.Millisecond},
			} {
				cfg := linkem.Config{Forward: direction, Backward: direction, NoOffload: noOffload, Seed: 7}
				t.Run(fmt.Sprintf("%s/offload=%v/%s", kind, !noOffload, name), func(t *testing.T) {
					r := start(t, kind, cfg)
					t.Run("IPv4", func(t *testing.T) { transfer(t, r, r.Address4(1)) })
					t.Run("IPv6", func(t *testing.T) { transfer(t, r, r.Address6(1)) })
					if err := r.stop(t); err != nil {
						t.Errorf("Run: %v", err)
					}
					checkTransferred(t, r.Counters(), noOffload)
				})
			}
		}
	}
}

// checkTransferred verifies that super-packets were carried if, and only if, they
// were to be, and that no frame went unaccounted.
func checkTransferred(t *testing.T, counters linkem.Counters, noOffload bool) {
	t.Helper()
	const full = 1514
	for _, d := range []linkem.DirectionCounters{counters.Forward, counters.Backward} {
		if super := d.Bytes > full*d.Frames; super == noOffload {
			t.Errorf("%d frames with %d bytes; offloads off: %v", d.Frames, d.Bytes, noOffload)
		}
	}
}

// transfer sends bytes in both directions over one connection and compares digests.
func transfer(t *testing.T, r *running, to netip.Addr) {
	t.Helper()
	const size = 8 << 20
	var listener *net.TCPListener
	err := r.Do(1, func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
		return err
	})
	testutil.OK(t, err)
	defer listener.Close()
	type received struct {
		digest [sha256.Size]byte
		err    error
	}
	got := make(chan received, 1)
	go func() {
		conn, err := listener.AcceptTCP()
		if err != nil {
			got <- received{err: err}
			return
		}
		defer conn.Close()
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(hash, conn), conn); err != nil {
			got <- received{err: err}
			return
		}
		got <- received{digest: [sha256.Size]byte(hash.Sum(nil)), err: conn.CloseWrite()}
	}()
	var conn *net.TCPConn
	err = r.Do(0, func() (err error) {
		conn, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
		return err
	})
	testutil.OK(t, err)
	defer conn.Close()
	testutil.OK(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	payload := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	if _, err := random.Read(payload); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(payload)
		if err == nil {
			err = conn.CloseWrite()
		}
		wrote <- err
	}()
	echo := sha256.New()
	n, err := io.Copy(echo, conn)
	testutil.OK(t, err)
	testutil.OK(t, <-wrote)
	there := <-got
	if there.err != nil {
		t.Fatal(there.err)
	}
	want := sha256.Sum256(payload)
	if there.digest != want {
		t.Error("the bytes that arrived are not those that were sent")
	}
	if n != size || [sha256.Size]byte(echo.Sum(nil)) != want {
		t.Errorf("the %d bytes that came back are not the %d that were sent", n, size)
	}
}
