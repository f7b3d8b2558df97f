package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Packets is an unconnected UDP socket in blocking mode that answers packets
// one by one, each from the address that it was sent to. One goroutine, which
// should be locked to its thread, receives and replies; others may Interrupt.
type Packets struct {
	fd int
	// mu keeps the descriptor from being closed under Interrupt.
	mu     sync.Mutex
	closed bool

	// The fields below are what recvmsg and sendmsg need, made once.
	message unix.Msghdr
	vector  unix.Iovec
	name    unix.RawSockaddrAny
	control [128]byte
}

// DetachPackets takes the socket of c out of the network poller and closes c.
func DetachPackets(c *net.UDPConn) (*Packets, error) {
	local, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("detach socket: address is %v", c.LocalAddr())
	}
	conn, err := detach(c)
	if err != nil {
		return nil, err
	}
	p := &Packets{fd: conn.fd}
	name, err := unix.Getsockname(p.fd)
	if err = errors.Join(err, conn.setTick(0)); err != nil {
		return nil, fmt.Errorf("detach socket: %w", errors.Join(err, conn.Close()))
	}
	_, four := name.(*unix.SockaddrInet4)
	if local.IP.IsUnspecified() {
		if err := p.tellDestination(four); err != nil {
			return nil, fmt.Errorf("ask for the destination of packets: %w", errors.Join(err, conn.Close()))
		}
	}
	return p, nil
}

// tellDestination asks for the address that each packet was sent to: a host
// with several addresses must not answer from another one.
func (p *Packets) tellDestination(four bool) error {
	if four {
		return unix.SetsockoptInt(p.fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return unix.SetsockoptInt(p.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

func (p *Packets) prepare(b []byte) {
	p.vector.Base = unsafe.SliceData(b)
	p.vector.SetLen(len(b))
	p.message.Name = (*byte)(unsafe.Pointer(&p.name))
	p.message.Iov = &p.vector
	p.message.SetIovlen(1)
	p.message.Control = &p.control[0]
}

// Receive waits for a packet and returns its length and sender, or
// net.ErrClosed after Interrupt. It does not allocate.
func (p *Packets) Receive(b []byte) (int, netip.AddrPort, error) {
	p.prepare(b)
	p.message.Namelen = unix.SizeofSockaddrAny
	p.message.SetControllen(len(p.control))
	for {
		n, errno := p.call(unix.SYS_RECVMSG, 0)
		switch errno {
		case 0:
			// After shutdown, recvmsg returns nothing from nobody.
			if p.message.Namelen == 0 {
				return 0, netip.AddrPort{}, net.ErrClosed
			}
			p.stripInterface()
			return int(n), sender(&p.name), nil
		case unix.EINTR:
		default:
			return 0, netip.AddrPort{}, errno
		}
	}
}

// sender is the address in a kernel's socket address of either family.
func sender(name *unix.RawSockaddrAny) netip.AddrPort {
	if name.Addr.Family == unix.AF_INET {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), port(a.Port))
	}
	a := (*unix.RawSockaddrInet6)(unsafe.Pointer(name))
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), port(a.Port))
}

// port converts from network byte order.
func port(p uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&p))
	return uint16(b[0])<<8 | uint16(b[1])
}

// stripInterface clears the interface in a received packet-info message, so
// that the same message sent back fixes the source address and leaves the
// route to the kernel. Any other message is not sent back.
func (p *Packets) stripInterface() {
	length := int(p.message.Controllen)
	if length < unix.SizeofCmsghdr {
		p.message.SetControllen(0)
		return
	}
	// in_pktinfo begins with the interface index, in6_pktinfo ends with it.
	h := (*unix.Cmsghdr)(unsafe.Pointer(&p.control[0]))
	offset := -1
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO:
		offset = unix.CmsgLen(0)
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO:
		// A link-local address means nothing without its interface.
		if p.control[unix.CmsgLen(0)] != 0xfe {
			offset = unix.CmsgLen(16)
		} else {
			p.message.SetControllen(int(h.Len))
			return
		}
	}
	if offset < 0 || offset+4 > length {
		p.message.SetControllen(0)
		return
	}
	clear(p.control[offset : offset+4])
	p.message.SetControllen(unix.CmsgSpace(int(h.Len) - unix.CmsgLen(0)))
}

// Reply sends b to the sender of the packet that was received last. It does
// not allocate.
func (p *Packets) Reply(b []byte) error {
	p.prepare(b)
	if p.message.Controllen == 0 {
		p.message.Control = nil
	}
	for {
		switch _, errno := p.call(unix.SYS_SENDMSG, unix.MSG_NOSIGNAL); errno {
		case 0:
			return nil
		case unix.EINTR:
		case unix.EAGAIN:
			return ErrTick
		default:
			return errno
		}
	}
}

func (p *Packets) call(trap, flags uintptr) (uintptr, syscall.Errno) {
	n, _, errno := syscall.Syscall(trap, uintptr(p.fd), uintptr(unsafe.Pointer(&p.message)), flags)
	return n, errno
}

// Interrupt wakes a Receive and lets no further one succeed.
func (p *Packets) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		// On an unconnected socket it wakes readers and yet says ENOTCONN
		// (inet_shutdown, net/ipv4/af_inet.c).
		_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
	}
}

// Close closes the socket; nobody may be in Receive or Reply.
func (p *Packets) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return unix.Close(p.fd)
}
