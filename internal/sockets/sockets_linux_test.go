package sockets

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/sockets/ttl"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conns is a connection with both ends detached; the second end accepted it.
func conns(t *testing.T, address string) (*Conn, *Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	testutil.OK(t, err)
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	testutil.OK(t, err)
	far, err := ln.Accept()
	testutil.OK(t, err)
	detached := func(c net.Conn) *Conn {
		d, err := Detach(c.(*net.TCPConn))
		testutil.OK(t, err)
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	return detached(near), detached(far)
}

// read reads through ticks, until the test's own deadline.
func read(t *testing.T, f func() (int, error)) (int, error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if n, err := f(); !errors.Is(err, ErrTick) {
			return n, err
		}
	}
	t.Fatal("nothing arrived")
	return 0, nil
}

// What is sent over and over is the payload, and what is read over and over is all of it.
func TestOverAndOver(t *testing.T) {
	const total = callBytes*2 + 12345
	near, far := conns(t, "127.0.0.1:0")
	p := NewPayload()
	sent := 0
	var want []byte
	wire, buffer := make([]byte, 0, total), make([]byte, OverBytes)
	for sent < total || len(wire) < total {
		if sent < total {
			n, err := near.SendPayload(p, total-sent, sent)
			if err != nil && !errors.Is(err, ErrTick) {
				t.Fatal(err)
			}
			from := aligned(p.buf, sent)
			sent += n
			for left := n; left > 0; left -= min(left, chunkBytes) { // each call begins anew
				want = append(want, from[:min(left, chunkBytes)]...)
			}
		}
		// Less than a chunk at a time, of which nothing is overwritten.
		at := len(wire)
		seen := aligned(buffer, at)
		n, err := far.ReadOver(buffer, min(total-at, chunkBytes), at)
		if err != nil && !errors.Is(err, ErrTick) {
			t.Fatal(err)
		}
		wire = append(wire, seen[:n]...)
	}
	if !bytes.Equal(wire, want) {
		t.Error("what came is not the payload over and over")
	}
	if _, err := near.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	small := make([]byte, 7)
	for got := 0; got < 1000; {
		n, err := read(t, func() (int, error) { return far.ReadOver(small, 1000-got, got) })
		testutil.OK(t, err)
		if n > len(small)*callBytes/chunkBytes {
			t.Fatalf("%d bytes in one read", n)
		}
		got += n
	}
	testutil.OK(t, near.Close())
	if n, err := read(t, func() (int, error) { return far.ReadOver(small, 10, 0) }); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v at the end", n, err)
	}
}

// Both ends of a copy are half a page apart in their pages, and a buffer holds a chunk from there.
func TestAligned(t *testing.T) {
	buffer := make([]byte, OverBytes)
	for _, at := range []int{0, 8, 2047, 2048, 4095, 4096, math.MaxInt32, math.MinInt32, -8} {
		p := aligned(buffer, at)
		if apart := (len(buffer) - len(p) - at) & (pageBytes - 1); apart != pageBytes/2 || len(p) < chunkBytes {
			t.Errorf("at %d: %d bytes apart, and %d bytes of %d", at, apart, len(p), chunkBytes)
		}
	}
	if small := make([]byte, 7); len(aligned(small, 3)) != len(small) {
		t.Error("a buffer of less than a page is cut")
	}
}

// A receiver with a low water waits for so many bytes, and takes fewer when its wait is over.
func TestReceiveLowWater(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	const enough = 10_000
	testutil.OK(t, far.SetReceiveLowWater(enough, 5*time.Millisecond))
	if n, err := far.Read(make([]byte, 2*enough)); n != 0 || !errors.Is(err, ErrTick) {
		t.Errorf("%d bytes of nothing, %v", n, err)
	}
	if _, err := near.Write(make([]byte, enough-1)); err != nil {
		t.Fatal(err)
	}
	if unread := far.Unread(); unread != 0 {
		t.Errorf("%d bytes could have been read", unread)
	}
	if n, err := read(t, func() (int, error) { return far.Read(make([]byte, 2*enough)) }); n != enough-1 || err != nil {
		t.Errorf("%d bytes, %v, want those that there are", n, err)
	}
	// What is there is read at once, however long the wait.
	testutil.OK(t, far.SetReceiveLowWater(enough, time.Hour))
	for name, receive := range map[string]func() (int, error){
		"read": func() (int, error) { return far.Read(make([]byte, 2*enough)) },
		"over": func() (int, error) { return far.ReadOver(make([]byte, 2*enough), 2*enough, 0) },
		"drop": func() (int, error) { return far.Discard(make([]byte, 2*enough)) },
	} {
		if _, err := near.Write(make([]byte, enough-1)); err != nil {
			t.Fatal(err)
		}
		if n, err := receive(); n != enough-1 || err != nil {
			t.Errorf("%s: %d bytes, %v, want %d", name, n, err, enough-1)
		}
	}
}

func TestTransfer(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	if far.Readable() {
		t.Error("readable before anything was sent")
	}
	buf := make([]byte, 1<<20)
	if n, err := far.Read(buf); n != 0 || !errors.Is(err, ErrTick) {
		t.Errorf("read of nothing: %d, %v, want a tick", n, err)
	}
	p := NewPayload()
	sent, got := 0, 0
	for sent < 3<<20 {
		n, err := near.SendPayload(p, 3<<20-sent, sent)
		if err != nil && !errors.Is(err, ErrTick) {
			t.Fatal(err)
		}
		sent += n
		n, err = far.Discard(buf)
		if err != nil && !errors.Is(err, ErrTick) {
			t.Fatal(err)
		}
		got += n
	}
	for got < sent {
		n, err := read(t, func() (int, error) { return far.Discard(buf) })
		testutil.OK(t, err)
		got += n
	}
	if got != sent {
		t.Errorf("discarded %d of %d bytes", got, sent)
	}
	for _, b := range buf {
		if b != 0 {
			t.Fatal("Discard copied")
		}
	}
	if _, err := near.WriteMore([]byte("he")); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte("llo")); err != nil {
		t.Fatal(err)
	}
	text := ""
	for len(text) < 5 {
		n, err := read(t, func() (int, error) { return far.Read(buf[:5]) })
		testutil.OK(t, err)
		text += string(buf[:n])
	}
	if text != "hello" {
		t.Errorf("read %q", text)
	}
	testutil.OK(t, near.CloseWrite())
	if n, err := read(t, func() (int, error) { return far.Discard(buf) }); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

func TestInterruptWakes(t *testing.T) {
	near, _ := conns(t, "127.0.0.1:0")
	done := make(chan error, 1)
	go func() {
		defer Lock()()
		for {
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, ErrTick) {
				done <- err
				return
			}
		}
	}()
	near.Interrupt()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a read after Interrupt succeeded")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still blocked")
	}
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	near.Interrupt() // and of a closed one is harmless
	if err := near.Close(); err != nil {
		t.Error("the second Close:", err)
	}
}

func TestAbortResets(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	testutil.OK(t, near.Abort())
	if _, err := read(t, func() (int, error) { return far.Read(make([]byte, 1)) }); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func TestCloseWriteAfterTheOtherEndHasLeft(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	testutil.OK(t, far.Abort())
	if err := near.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := read(t, func() (int, error) { return near.Read(make([]byte, 1)) }); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the read after it: %v", err)
	}
}

func TestFacts(t *testing.T) {
	near, far := conns(t, "127.0.0.1:0")
	testutil.OK(t, near.SetOptions(Options{CongestionControl: "reno"}))
	if cc := near.CongestionControl(); cc != "reno" {
		t.Errorf("congestion control is %q", cc)
	}
	if err := near.SetOptions(Options{CongestionControl: "nonesuch"}); err == nil {
		t.Error("an unknown congestion control was accepted")
	}
	info, err := near.TCPInfo(time.Second)
	testutil.OK(t, err)
	if info.At != 1 || info.MSS <= 0 || info.CongestionWindow <= 0 || info.PathMTU <= 0 || info.RTT <= 0 {
		t.Errorf("TCP_INFO: %+v", info)
	}
	if got := near.InForce(); got.MSS <= 0 || got.SendBuffer <= 0 || got.ReceiveBuffer <= 0 || got.CongestionControl == "" {
		t.Errorf("in force: %+v", got)
	}
	testutil.OK(t, far.ClampWindow(70_000))
	if got := far.WindowClamp(); got != 70_000 {
		t.Errorf("window clamp is %d", got)
	}
	if err := near.NoDelay(); err != nil {
		t.Error(err)
	}
	if ttl := far.ReceivedTTL(); ttl != 64 {
		t.Errorf("received TTL is %d, want 64 on loopback", ttl)
	}
}

func TestReceivedHopLimit(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	_ = ln.Close()
	if _, far := conns(t, "[::1]:0"); far.ReceivedTTL() != 64 {
		t.Errorf("received hop limit is %d, want 64 on loopback", far.ReceivedTTL())
	}
}

// A server bound to every address answers from the one that was asked.
func TestPacketsAnswerFromTheAddressAsked(t *testing.T) {
	for _, c := range []struct{ network, bind, ask string }{
		{"udp4", "0.0.0.0", "127.0.0.2"},
		{"udp", "::", "127.0.0.2"},
		{"udp", "::", "::1"},
		{"udp4", "127.0.0.1", "127.0.0.1"},
	} {
		t.Run(c.bind+" "+c.ask, func(t *testing.T) {
			u, err := net.ListenUDP(c.network, &net.UDPAddr{IP: net.ParseIP(c.bind)})
			testutil.Need(t, err == nil, "an address to bind: "+c.bind)
			port := u.LocalAddr().(*net.UDPAddr).Port
			p, err := DetachPackets(u)
			testutil.OK(t, err)
			done := make(chan error, 1)
			senders := make(chan netip.AddrPort, 1)
			go func() {
				b := make([]byte, 100)
				for {
					n, from, err := p.Receive(b)
					if errors.Is(err, ErrTick) {
						continue
					}
					if err != nil {
						done <- err
						return
					}
					senders <- from
					if err := p.Reply(b[:n]); err != nil {
						done <- err
						return
					}
				}
			}()
			client, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(c.ask), Port: port})
			testutil.Need(t, err == nil, "a route to "+c.ask)
			defer client.Close()
			testutil.OK(t, ttl.Enable(client))
			testutil.OK(t, client.SetDeadline(time.Now().Add(20*time.Second)))
			if _, err := client.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			// A connected socket accepts packets of that very address only.
			n, received, err := ttl.Read(client, b)
			if err != nil || string(b[:n]) != "hello" || received != 64 {
				t.Errorf("%q with TTL %d, %v", b[:n], received, err)
			}
			want := client.LocalAddr().(*net.UDPAddr).AddrPort()
			if from := <-senders; from != want {
				t.Errorf("sender is %v, want %v", from, want)
			}
			p.Interrupt()
			select {
			case err := <-done:
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("Interrupt did not wake")
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
