package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Connector makes one TCP connection after another from and to the same
// addresses. All that a connection needs exists before it, so that none
// allocates. It belongs to one goroutine.
type Connector struct {
	// Conn is the connection made last. Only Read, Write and those of Connector's
	// own methods that hide its others are for use.
	Conn
	remote  endpoint
	source  netip.Addr
	local   *endpoint // of source, nil where the kernel chooses
	options []option
}

// ConnectOptions are the addresses and the marks of a Connector's packets.
type ConnectOptions struct {
	Remote netip.AddrPort
	Local  netip.Addr // may be invalid: the kernel chooses
	Device string     // SO_BINDTODEVICE, may be empty
	DSCP   int        // RFC 2474, 0 to 63
	// NoDelay turns Nagle's algorithm off, for requests of several segments.
	NoDelay bool
}

// endpoint is a socket address in the kernel's own form.
type endpoint struct {
	four   unix.RawSockaddrInet4
	six    unix.RawSockaddrInet6
	family int
}

func newEndpoint(a netip.AddrPort) (*endpoint, error) {
	addr := a.Addr().Unmap()
	network := [2]byte{byte(a.Port() >> 8), byte(a.Port())}
	port := *(*uint16)(unsafe.Pointer(&network))
	if addr.Is4() {
		return &endpoint{family: unix.AF_INET, four: unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: addr.As4()}}, nil
	}
	e := &endpoint{family: unix.AF_INET6, six: unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: addr.As16()}}
	if zone := addr.Zone(); zone != "" {
		link, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("interface %s of %s: %w", zone, addr, err)
		}
		e.six.Scope_id = uint32(link.Index)
	}
	return e, nil
}

func (e *endpoint) pointer() (unsafe.Pointer, uintptr) {
	if e.family == unix.AF_INET {
		return unsafe.Pointer(&e.four), unix.SizeofSockaddrInet4
	}
	return unsafe.Pointer(&e.six), unix.SizeofSockaddrInet6
}

// NewConnector prepares connections; it makes none yet.
func NewConnector(o ConnectOptions) (*Connector, error) {
	remote, err := newEndpoint(o.Remote)
	if err != nil {
		return nil, fmt.Errorf("prepare connections to %s: %w", o.Remote, err)
	}
	k := &Connector{
		remote: *remote, source: o.Local,
		options: Options{Device: o.Device, DSCP: o.DSCP, LatePort: o.Local.IsValid()}.options(remote.family == unix.AF_INET6),
	}
	if o.NoDelay {
		k.options = append(k.options, option{what: "no delay of small segments", level: unix.IPPROTO_TCP, key: unix.TCP_NODELAY, value: 1})
	}
	k.fd = -1
	if o.Local.IsValid() {
		if k.local, err = newEndpoint(netip.AddrPortFrom(o.Local, 0)); err != nil {
			return nil, fmt.Errorf("prepare connections from %s: %w", o.Local, err)
		}
	}
	return k, nil
}

// Connect makes a connection. ErrTick says that the other end has not answered
// yet: the next call goes on waiting. After any other error there is none.
func (k *Connector) Connect() error {
	if k.fd < 0 {
		if err := k.open(); err != nil {
			return err
		}
	}
	name, length := k.remote.pointer()
	for {
		_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(k.fd), uintptr(name), length)
		switch errno {
		case 0, unix.EISCONN:
			return nil
		case unix.EINTR:
			// The attempt goes on; connecting again waits for its end.
		case unix.EINPROGRESS, unix.EALREADY:
			return ErrTick
		default:
			return errors.Join(errno, k.Close())
		}
	}
}

// open makes the socket.
func (k *Connector) open() error {
	fd, _, errno := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(k.remote.family), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	k.fd = int(fd)
	if err := k.prepare(); err != nil {
		return errors.Join(err, k.Close())
	}
	return nil
}

func (k *Connector) prepare() error {
	if err := k.setTick(Tick); err != nil {
		return err
	}
	if err := setOptions(k.fd, k.options); err != nil {
		return err
	}
	if k.local == nil {
		return nil
	}
	name, length := k.local.pointer()
	if _, _, errno := syscall.RawSyscall(unix.SYS_BIND, uintptr(k.fd), uintptr(name), length); errno != 0 {
		return fmt.Errorf("bind to %s: %w", k.source, errno)
	}
	return nil
}

// Close ends the connection made last; it may be called without one.
func (k *Connector) Close() error {
	if k.fd < 0 {
		return nil
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOSE, uintptr(k.fd), 0, 0)
	k.fd = -1
	if errno != 0 {
		return errno
	}
	return nil
}
