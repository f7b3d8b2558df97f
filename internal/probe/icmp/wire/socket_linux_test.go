package wire

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func controlMessage(level, typ int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	header := unix.Cmsghdr{Level: level, Type: typ}
	header.SetLen(unix.CmsgLen(len(data)))
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&header)), unix.SizeofCmsghdr))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func bytesOf[T any](v T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

func TestParseControl(t *testing.T) {
	extended := unix.SockExtendedErr{Errno: uint32(unix.EHOSTUNREACH), Origin: unix.SO_EE_ORIGIN_ICMP, Type: 11, Info: 1300}
	offender := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{10, 77, 0, 2}}
	oob := slices.Concat(
		controlMessage(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, bytesOf([3]unix.Timespec{{Sec: 7, Nsec: 9}})),
		controlMessage(unix.IPPROTO_IP, unix.IP_TTL, bytesOf(int32(63))),
		controlMessage(unix.IPPROTO_IP, unix.IP_RECVERR, append(bytesOf(extended), bytesOf(offender)...)),
	)
	c, err := parseControl(oob)
	testutil.OK(t, err)
	if !c.Stamp.Equal(time.Unix(7, 9)) || c.TTL != 63 || !c.IsICMP() || c.Error.Info != 1300 ||
		c.Offender != netip.MustParseAddr("10.77.0.2") {
		t.Errorf("parsed %+v", c)
	}
	six := unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: netip.MustParseAddr("fd77::2").As16()}
	extended.Origin = unix.SO_EE_ORIGIN_ICMP6
	c, err = parseControl(controlMessage(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, append(bytesOf(extended), bytesOf(six)...)))
	if err != nil || c.Offender != netip.MustParseAddr("fd77::2") || !c.IsICMP() {
		t.Errorf("parsed %+v, %v", c, err)
	}
	if _, ok := c.TransmitKey(); ok {
		t.Error("an ICMP error was taken for a transmit timestamp")
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(controlMessage(unix.IPPROTO_IP, unix.IP_TTL, bytesOf(int32(63))))
	f.Add(controlMessage(unix.IPPROTO_IP, unix.IP_RECVERR, bytesOf(unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP})))
	f.Add(controlMessage(unix.SOL_SOCKET, unix.SCM_TIMESTAMPING, bytesOf([3]unix.Timespec{{Sec: 7, Nsec: 9}})))
	f.Fuzz(func(t *testing.T, oob []byte) {
		c, err := parseControl(oob)
		if err == nil && c.Offender.IsValid() && !c.Queued {
			t.Errorf("an offender without an error: %+v", c)
		}
	})
}

func TestWaiterEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWaiter(ctx)
	testutil.OK(t, err)
	cancel()
	done := make(chan error)
	go func() { done <- w.Wait(time.Now().Add(time.Hour), false) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the context did not wake the waiter")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestSockaddrRoundTrip(t *testing.T) {
	for _, text := range []string{"127.0.0.1:0", "[::1]:0"} {
		addr := netip.MustParseAddrPort(text)
		family := unix.AF_INET
		if addr.Addr().Is6() {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			t.Logf("no %v on this host", addr.Addr())
			continue
		}
		testutil.OK(t, err)
		if err := unix.Bind(fd, Sockaddr(addr)); err != nil {
			t.Errorf("bind to %v: %v", addr, err)
		}
		local, err := LocalAddr(fd)
		if err != nil || local.Addr() != addr.Addr() || local.Port() == 0 {
			t.Errorf("local address %v, %v; want %v", local, err, addr)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}
