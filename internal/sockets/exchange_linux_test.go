package sockets

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// datagrams is a pair of connected UDP sockets on loopback.
func datagrams(t *testing.T, address string) (near, far *Conn) {
	t.Helper()
	listener, err := ListenUDP(t.Context(), netip.MustParseAddrPort(address))
	if err != nil {
		t.Skipf("needs %s: %v", address, err)
	}
	local := listener.LocalAddr().(*net.UDPAddr).AddrPort()
	near, err = DialUDP(t.Context(), netip.AddrPort{}, local, "")
	testutil.OK(t, err)
	name, err := unix.Getsockname(near.fd)
	testutil.OK(t, err)
	peer := netip.AddrPortFrom(local.Addr(), uint16(portOf(name)))
	connected, err := ConnectUDP(t.Context(), local, peer)
	testutil.OK(t, err)
	far, err = DetachUDP(connected)
	testutil.OK(t, err)
	t.Cleanup(func() { _, _, _ = listener.Close(), near.Close(), far.Close() })
	return near, far
}

func portOf(name unix.Sockaddr) int {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

func TestReadsThatDoNotBlock(t *testing.T) {
	near, far := datagrams(t, "127.0.0.1:0")
	b := make([]byte, 10)
	if _, err := near.TryRead(b); !errors.Is(err, ErrTick) {
		t.Errorf("nothing to read: %v", err)
	}
	if _, err := near.ReadWithin(b, time.Millisecond, false); !errors.Is(err, ErrTick) {
		t.Errorf("nothing to read for a millisecond: %v", err)
	}
	// It could write at once, so that the hour is not waited for.
	if _, err := near.ReadWithin(b, time.Hour, true); !errors.Is(err, ErrTick) {
		t.Errorf("ready to write: %v", err)
	}
	for i, read := range []func() (int, error){
		func() (int, error) { return near.ReadWithin(b, time.Hour, false) },
		func() (int, error) { return near.ReadWithin(b, time.Hour, true) },
	} {
		if _, err := far.TryWrite([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if n, err := read(); n != 3 || err != nil {
			t.Errorf("way %d: %d bytes, %v", i, n, err)
		}
	}
}

// The kernel's time of reception lies between sending and the return of the read.
func TestReadStamped(t *testing.T) {
	near, far := datagrams(t, "127.0.0.1:0")
	b := make([]byte, 10)
	if _, _, err := near.ReadStamped(b, false); err == nil {
		t.Error("read a time stamp that was not asked for")
	}
	testutil.OK(t, near.EnableReceiveStamps())
	if _, _, err := near.ReadStamped(b, true); !errors.Is(err, ErrTick) {
		t.Errorf("nothing to read: %v", err)
	}
	// The stamps may take a moment to begin: the kernel defers turning them on.
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		before := time.Now()
		if _, err := far.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		n, at, err := near.ReadStamped(b, false)
		if n != 3 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if at.IsZero() || at.UnixNano() < before.UnixNano() {
			continue
		}
		if at.UnixNano() > time.Now().UnixNano() {
			t.Errorf("received at %v, after it was read", at)
		}
		return
	}
	t.Error("no time stamp came")
}

func FuzzReceivedAt(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, unix.SizeofCmsghdr))
	stamp := make([]byte, unix.CmsgSpace(48))
	stamp[0], stamp[8], stamp[12], stamp[16] = byte(unix.CmsgLen(48)), unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, 1
	f.Add(append(make([]byte, 0, len(stamp)), stamp...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = receivedAt(b) // must neither panic nor loop
	})
}

func TestMark(t *testing.T) {
	for _, c := range []struct {
		address       string
		level, option int
	}{
		{"127.0.0.1:0", unix.IPPROTO_IP, unix.IP_TOS},
		{"[::1]:0", unix.IPPROTO_IPV6, unix.IPV6_TCLASS},
	} {
		near, _ := datagrams(t, c.address)
		testutil.OK(t, near.SetOptions(Options{DSCP: 46}))
		if got := near.intOption(c.level, c.option); got != 46<<2 {
			t.Errorf("%s: the field is %d, want %d", c.address, got, 46<<2)
		}
	}
}

// Neither a thread that accepts nor one that connects, both in vain, keeps the
// world from stopping.
func TestAcceptingAndConnectingLetTheWorldStop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	a, err := NewAcceptor(ln.(*net.TCPListener))
	testutil.OK(t, err)
	k, err := NewConnector(ConnectOptions{Remote: ln.Addr().(*net.TCPAddr).AddrPort()})
	testutil.OK(t, err)
	a.Expect(true)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			in, err := a.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				in.Close()
			}
		}
	}()
	stopped := make(chan struct{})
	connected := make(chan error, 1)
	go func() {
		err := k.Connect()
		_, _ = k.TryWrite([]byte("x")) // what Accept waits for
		err = errors.Join(err, k.Close())
		silent, inner := newEndpoint(netip.MustParseAddrPort("127.0.0.2:1"))
		k.remote, err = *silent, errors.Join(err, inner)
		for err == nil || errors.Is(err, ErrTick) || errors.Is(err, unix.ECONNREFUSED) {
			select {
			case <-stopped:
				connected <- k.Close()
				return
			default:
			}
			err = k.Connect()
		}
		connected <- err
	}()
	go func() {
		defer close(stopped)
		for range 50 {
			runtime.GC()
		}
	}()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Fatal("the world did not stop")
	}
	if err := <-connected; err != nil {
		t.Error(err)
	}
	a.Shutdown()
	<-accepted
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
