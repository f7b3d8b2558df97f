package linkem

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrPortClosed is what Run reports when a port was closed under it.
var ErrPortClosed = errors.New("link emulator: port closed")

// Kind is how a port reaches its network device.
type Kind string

// The kinds of port.
const (
	TAP    Kind = "tap"    // a TAP device: the link emulator's end is a file
	Packet Kind = "packet" // a packet socket on the far end of a veth pair
)

// Port is one end of a link emulator: it takes the frames that a network device sends
// and gives it frames to receive.
type Port struct {
	name string
	kind Kind
	fd   int
	ring *ring // of a packet port in use

	mu      sync.Mutex
	closed  bool          // no longer usable
	gone    bool          // the descriptor was released
	stop    func()        // ends the Run that uses the port
	idle    chan struct{} // closed when that Run has let go of it
	overrun uint64        // frames of a packet port that did not fit its ring
}

// Name is the name of the network device, as it was when the port was made.
func (p *Port) Name() string { return p.name }

// Kind is how the port reaches its device.
func (p *Port) Kind() Kind { return p.kind }

// OpenTAP makes a TAP device in the network namespace of the calling thread. The
// device is down and has no addresses; it disappears with the port. The
// returned port may be used in any thread and namespace.
//
// TAP is the port to prefer. Measured in alternation on the same two CPUs
// (Linux 6.18, one TCP flow, no delay, best of four; bench/link repeats it), TAP ports
// carried 13.5 to 15.8 Gbit/s and packet ports 12.6 to 13.5, with equal errors of
// delay, loss and rate; and a TAP device needs one device where a packet
// port needs two, and no ring of 24 MiB. A packet port is for hosts where /dev/net/tun is
// missing or closed to the user.
func OpenTAP(name string, cfg Config) (*Port, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open TAP %s: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := setUpTAP(fd, name, cfg); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Port{name: name, kind: TAP, fd: fd}, nil
}

func setUpTAP(fd int, name string, cfg Config) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("TAP name %q: %w", name, err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("create TAP %s: %w", name, err)
	}
	if err := setOffloads(fd, !cfg.NoOffload); err != nil {
		return fmt.Errorf("set offloads of TAP %s: %w", name, err)
	}
	if cfg.MTU != 0 {
		if err := setMTU(name, cfg.MTU); err != nil {
			return fmt.Errorf("set MTU of TAP %s to %d: %w", name, cfg.MTU, err)
		}
	}
	return nil
}

// setOffloads says which super-packets the reader of a TAP device takes. UDP
// segmentation came with Linux 6.2.
func setOffloads(fd int, on bool) error {
	if !on {
		return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, 0)
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6)
	if errors.Is(err, unix.EINVAL) {
		return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcp)
	}
	return err
}

func setMTU(name string, mtu int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint32(uint32(mtu))
		err = unix.IoctlIfreq(s, unix.SIOCSIFMTU, request)
	}
	return errors.Join(err, unix.Close(s))
}

// PortFromFile makes a port of a descriptor that another process opened with
// OpenTAP or OpenPacket and passed on (see File). It takes the file over: f
// must not be used any more, whether or not there is an error.
func PortFromFile(f *os.File, kind Kind, name string) (*Port, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("take over port %s: %w", name, err)
	}
	p := &Port{name: name, kind: kind, fd: fd}
	if err := p.checkKind(); err != nil {
		return nil, errors.Join(fmt.Errorf("take over port %s: %w", name, err), unix.Close(fd))
	}
	return p, nil
}

// checkKind verifies that the descriptor is what the port will use it as,
// since everything later is raw system calls.
func (p *Port) checkKind() error {
	switch p.kind {
	case TAP:
		request, err := unix.NewIfreq("")
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(p.fd, unix.TUNGETIFF, request); err != nil {
			return fmt.Errorf("not a TAP device: %w", err)
		}
		const want = unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR
		if request.Uint16()&want != want {
			return fmt.Errorf("not a TAP device with virtio headers (flags %#x)", request.Uint16())
		}
		return unix.SetNonblock(p.fd, true)
	case Packet:
		return checkPacketSocket(p.fd)
	}
	return fmt.Errorf("no kind of port is called %q; there are %q and %q", p.kind, TAP, Packet)
}

// File returns a duplicate of the port's descriptor to pass to another process,
// which calls PortFromFile. The port itself should then be closed, unused.
func (p *Port) File() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("duplicate port %s: %w", p.name, ErrPortClosed)
	}
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate port %s: %w", p.name, err)
	}
	return os.NewFile(uintptr(fd), p.name), nil
}

// Close ends a Run that uses the port, waits for it, and releases the device:
// a TAP device disappears. It may be called at any time and more than once.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		idle := p.idle
		p.mu.Unlock()
		if idle != nil {
			<-idle
		}
		return nil
	}
	p.closed = true
	stop, idle := p.stop, p.idle
	if stop == nil {
		defer p.mu.Unlock()
		return p.closeDescriptor()
	}
	p.mu.Unlock()
	stop()
	<-idle // Run closes the descriptor, when its threads no longer use it
	return nil
}

// closeDescriptor is called with the lock held.
func (p *Port) closeDescriptor() error {
	p.gone = true
	if err := unix.Close(p.fd); err != nil {
		return fmt.Errorf("close port %s: %w", p.name, err)
	}
	return nil
}

// acquire reserves the port for one Run, which stop ends.
func (p *Port) acquire(stop func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("port %s: %w", p.name, ErrPortClosed)
	}
	if p.stop != nil {
		return fmt.Errorf("port %s is in use by another link emulator", p.name)
	}
	if p.kind == Packet {
		ring, err := mapRing(p.fd)
		if err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
		p.ring = ring
	}
	p.stop, p.idle = stop, make(chan struct{})
	return nil
}

// letGo closes the port after the Run that acquired it; wasClosed tells whether
// somebody had asked for that before.
func (p *Port) letGo() (wasClosed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasClosed = p.closed
	p.closed = true
	if p.ring != nil {
		err = p.ring.close()
		p.ring = nil
	}
	p.countOverruns()
	err = errors.Join(err, p.closeDescriptor())
	close(p.idle)
	return wasClosed, err
}

// overruns is how many frames did not fit the ring so far.
func (p *Port) overruns() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countOverruns()
	return p.overrun
}

// countOverruns adds what the kernel counted since the last call. It is called
// with the lock held.
func (p *Port) countOverruns() {
	if p.kind != Packet || p.gone {
		return
	}
	// It cannot fail on a packet socket, and if it did, there would be nothing to count.
	if stats, err := unix.GetsockoptTpacketStats(p.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		p.overrun += uint64(stats.Drops)
	}
}

// write gives one frame to the device. The call does not wait.
func (p *Port) write(frame []byte) unix.Errno {
	_, errno := p.call(unix.SYS_WRITE, unsafe.Pointer(unsafe.SliceData(frame)), len(frame))
	return errno
}

// writeVector gives one frame in pieces to the device.
func (p *Port) writeVector(pieces []unix.Iovec) unix.Errno {
	_, errno := p.call(unix.SYS_WRITEV, unsafe.Pointer(unsafe.SliceData(pieces)), len(pieces))
	return errno
}

func (p *Port) read(buffer []byte) (int, unix.Errno) {
	return p.call(unix.SYS_READ, unsafe.Pointer(unsafe.SliceData(buffer)), len(buffer))
}

func (p *Port) readVector(pieces []unix.Iovec) (int, unix.Errno) {
	return p.call(unix.SYS_READV, unsafe.Pointer(unsafe.SliceData(pieces)), len(pieces))
}

// call is a system call on the port, again when a signal cut it short.
func (p *Port) call(which uintptr, at unsafe.Pointer, length int) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(which, uintptr(p.fd), uintptr(at), uintptr(length))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// refusal tells errors that concern one frame, or a device that is down and
// may come up again, from those that end a port.
func refusal(errno unix.Errno) bool {
	switch errno {
	case unix.EINVAL, // headers that make no sense
		unix.EMSGSIZE,                          // longer than the device takes
		unix.EIO,                               // a TAP device that is down
		unix.ENETDOWN,                          // a packet socket's device that is down
		unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, // no memory just now
		unix.EFAULT, unix.EPROTO, unix.EOPNOTSUPP, // what a driver says of odd headers
		unix.E2BIG:
		return true
	}
	return false
}
