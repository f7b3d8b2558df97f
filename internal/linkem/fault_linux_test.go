package linkem_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/linkem/linktest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func count(t *testing.T, folder string) int {
	t.Helper()
	entries, err := os.ReadDir(folder)
	testutil.OK(t, err)
	return len(entries)
}

// udpPair is a UDP socket at each end, connected to each other.
func udpPair(t *testing.T, r *running) (conns [2]*net.UDPConn) {
	t.Helper()
	var unconnected [2]*net.UDPConn
	for i := range conns {
		if err := r.Do(i, func() (err error) {
			unconnected[i], err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.Address4(i), 0)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range conns {
		to := unconnected[1-i].LocalAddr().(*net.UDPAddr).AddrPort()
		raw, err := unconnected[i].SyscallConn()
		testutil.OK(t, err)
		var connectErr error
		if err := raw.Control(func(fd uintptr) {
			connectErr = unix.Connect(int(fd), &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
		}); err != nil || connectErr != nil {
			t.Fatal(err, connectErr)
		}
		conns[i] = unconnected[i]
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns
}

// passes waits until a datagram gets through from end 0 to end 1.
func passes(t *testing.T, conns [2]*net.UDPConn) {
	t.Helper()
	buffer := make([]byte, 16)
	eventually(t, "no datagram gets through", func() bool {
		// Errors of one try (a device that is down, a refused port) are what
		// the next try is for.
		if _, err := conns[0].Write([]byte("through?")); err != nil {
			return false
		}
		testutil.OK(t, conns[1].SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		n, err := conns[1].Read(buffer)
		return err == nil && string(buffer[:n]) == "through?"
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		needEmulator(t, kind)
		cycle := func() {
			delayed := linkem.Direction{Delay: time.Millisecond}
			r := start(t, kind, linkem.Config{Forward: delayed})
			conns := udpPair(t, r)
			passes(t, conns)
			if err := r.stop(t); err != nil {
				t.Errorf("Run: %v", err)
			}
			for _, c := range conns {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := r.Pair.Close(); err != nil {
				t.Error(err)
			}
		}
		cycle() // whatever the runtime opens once, it has opened now
		descriptors := count(t, "/proc/self/fd")
		for range 20 {
			cycle()
		}
		if now := count(t, "/proc/self/fd"); now > descriptors {
			t.Errorf("%d descriptors are open, %d were before", now, descriptors)
		}
		// The Go runtime keeps some idle threads of its own; 20 cycles
		// with two threads each would be many more.
		eventually(t, "threads are left behind", func() bool { return count(t, "/proc/self/task") < 30 })
	})
}

// A container or a service may have a filter of system calls that refuses a thread the short
// slice; frames pass all the same.
func TestSliceRefused(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWNET, func(t *testing.T) {
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call (struct seccomp_data)
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SCHED_SETATTR},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
		testutil.Need(t, err != unix.ENOSYS && err != unix.EINVAL, "a kernel with CONFIG_SECCOMP_FILTER")
		if err != 0 {
			t.Fatal(err)
		}
		eachWay(t, func(t *testing.T, kind linkem.Kind, delay time.Duration) {
			r := start(t, kind, linkem.Config{Forward: linkem.Direction{Delay: delay}})
			passes(t, udpPair(t, r))
			if err := r.stop(t); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	})
}

func TestEndsWithContextWhileBusy(t *testing.T) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		r := start(t, kind, linkem.Config{Forward: linkem.Direction{Delay: time.Minute}})
		conns := udpPair(t, r)
		eventually(t, "no frame is on the wire", func() bool {
			if _, err := conns[0].Write(make([]byte, 1000)); err != nil && !errors.Is(err, unix.EHOSTUNREACH) {
				t.Fatal(err)
			}
			return r.Counters().Forward.ReceivedFrames > 0
		})
		if err := r.stop(t); err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := r.Run(context.Background()); err == nil {
			t.Error("a link emulator ran twice")
		}
	})
}

func TestPortClosedUnderIt(t *testing.T) {
	for _, kind := range kinds {
		for end := range 2 {
			r := start(t, kind, linkem.Config{})
			passes(t, udpPair(t, r))
			if err := r.Ports[end].Close(); err != nil {
				t.Error(err)
			}
			if err := r.result(t); !errors.Is(err, linkem.ErrPortClosed) {
				t.Errorf("%s: Run said %v, want ErrPortClosed", kind, err)
			}
			if err := r.Ports[end].Close(); err != nil {
				t.Errorf("%s: close again: %v", kind, err)
			}
		}
	}
}

func TestDeviceRemovedUnderIt(t *testing.T) {
	for _, kind := range kinds {
		for end := range 2 {
			r := start(t, kind, linkem.Config{Backward: linkem.Direction{Delay: time.Millisecond}})
			passes(t, udpPair(t, r))
			testutil.OK(t, r.RemoveDevice(end))
			if err := r.result(t); err == nil || !strings.Contains(err.Error(), "device is gone") {
				t.Errorf("%s: Run said %v, want that the device is gone", kind, err)
			}
		}
	}
}

// A device that is down loses frames and works again when it is up.
func TestDeviceDownAndUp(t *testing.T) {
	eachKind(t, func(t *testing.T, kind linkem.Kind) {
		r := start(t, kind, linkem.Config{})
		conns := udpPair(t, r)
		passes(t, conns)
		testutil.OK(t, r.SetDevice(1, false))
		for range 100 {
			if _, err := conns[0].Write([]byte("lost")); err != nil {
				t.Fatal(err)
			}
		}
		testutil.OK(t, r.SetDevice(1, true))
		// A device that goes down loses its IPv6 addresses, not its IPv4 ones.
		passes(t, conns)
		if err := r.stop(t); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// hostileFrame is random bytes behind a virtio header that is random, or nearly
// right, with a true Ethernet header half of the time.
func hostileFrame(random *rand.Rand) []byte {
	size := 1 + random.IntN(2000)
	if random.IntN(4) == 0 {
		size = 1 + random.IntN(65_000)
	}
	frame := make([]byte, size)
	for i := 0; i+8 <= len(frame); i += 8 {
		binary.NativeEndian.PutUint64(frame[i:], random.Uint64())
	}
	if len(frame) > 40 && random.IntN(2) == 0 {
		frame[0] &= 1
		frame[1] = []byte{0, 1, 3, 4, 5, 0x81}[random.IntN(6)]
		binary.NativeEndian.PutUint16(frame[2:], uint16(random.IntN(100)))
		binary.NativeEndian.PutUint16(frame[4:], uint16(random.IntN(3000)))
		binary.NativeEndian.PutUint16(frame[6:], uint16(random.IntN(80)))
		binary.NativeEndian.PutUint16(frame[8:], uint16(random.IntN(40)))
		for i := range 6 {
			frame[10+i] = 0xff // to everybody
		}
		binary.BigEndian.PutUint16(frame[22:], []uint16{0x0800, 0x86dd, 0x8100, 0x0806}[random.IntN(4)])
		frame[24] = []byte{0x45, 0x60, 0x4f, 0x00}[random.IntN(4)]
	}
	return frame
}

// Whatever comes into one port, the link emulator neither ends nor stops carrying.
func TestHostileFrames(t *testing.T) {
	for _, kind := range kinds {
		for name, direction := range map[string]linkem.Direction{
			"direct": {},
			"queued": {Delay: time.Microsecond, RateBitsPerSecond: 1e11, DuplicateFraction: 0.1, ReorderFraction: 0.1},
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				needEmulator(t, kind)
				pair, err := linktest.NewPair(kind, linkem.Config{})
				testutil.OK(t, err)
				defer pair.Close()
				sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
				testutil.OK(t, err)
				defer unix.Close(sockets[0])
				c, err := linkem.New(linkem.PortOfSocket(sockets[1]), pair.Ports[1], linkem.Config{Forward: direction, Backward: direction})
				testutil.OK(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				give := func(frame []byte) {
					eventually(t, "the link emulator takes no more frames", func() bool {
						_, err := unix.Write(sockets[0], frame)
						if err != nil && err != unix.EAGAIN {
							t.Fatal(err)
						}
						return err == nil
					})
				}
				random := rand.New(rand.NewPCG(1, 2))
				for range 3000 {
					give(hostileFrame(random))
				}
				// An ARP request for the end's address must still be answered.
				request := arpRequest(pair.Address4(0), pair.Address4(1))
				answer := make([]byte, 1<<17)
				eventually(t, "no answer after hostile frames", func() bool {
					give(request)
					for {
						n, err := unix.Read(sockets[0], answer)
						if err != nil {
							return false
						}
						if isARPReply(answer[:n], pair.Address4(1)) {
							return true
						}
					}
				})
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Run: %v", err)
				}
				t.Logf("%+v", c.Counters().Forward)
			})
		}
	}
}

// arpRequest is a request of RFC 826 with a virtio header.
func arpRequest(from, to netip.Addr) []byte {
	frame := make([]byte, 10, 10+42)
	frame = append(frame, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6)
	frame = append(frame, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1)
	frame = append(frame, from.AsSlice()...)
	frame = append(frame, 0, 0, 0, 0, 0, 0)
	return append(frame, to.AsSlice()...)
}

func isARPReply(frame []byte, from netip.Addr) bool {
	const ethernet, arp = 10, 24
	return len(frame) >= arp+28 && frame[ethernet+12] == 8 && frame[ethernet+13] == 6 &&
		frame[arp+7] == 2 && netip.AddrFrom4([4]byte(frame[arp+14:])) == from
}
