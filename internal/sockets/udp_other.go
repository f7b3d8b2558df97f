//go:build !linux

package sockets

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// PacketSender sends packets of one size over a connected socket, one by one:
// this system has no call for many.
type PacketSender struct {
	conn *Conn
	buf  []byte
	size int
	most int
}

// packetsAtOnce is how many packets one Send takes.
const packetsAtOnce = 16

// NewPacketSender makes the buffers for packets of size bytes. The system
// cannot cut them from large buffers.
func NewPacketSender(c *Conn, size int, segments bool) (*PacketSender, error) {
	if segments {
		return nil, ErrUnsupported
	}
	s := &PacketSender{conn: c, size: size, most: packetsAtOnce}
	s.buf = noise(s.most * size)
	return s, nil
}

// Segments says that the system does not cut packets from large buffers.
func (s *PacketSender) Segments() bool { return false }

// Send sends the packets from up to but without to, and says how many of them
// the system took.
func (s *PacketSender) Send(from, to int) (int, error) {
	for i := from; i < to; i++ {
		if _, err := s.conn.Write(s.Packet(i)); err != nil {
			if i > from {
				return i - from, nil // the next Send reports it
			}
			return 0, packetError(err)
		}
	}
	return to - from, nil
}

// PacketPages is memory that packets are sent from zero-copy, which this
// system cannot do.
type PacketPages struct{}

// NewPacketPages is not supported here.
func NewPacketPages(int, int, int, func(buffer, packet int, b []byte)) (*PacketPages, error) {
	return nil, ErrUnsupported
}

// PageBytes is 0 here.
func (p *PacketPages) PageBytes() int { return 0 }

// Close has nothing to give back here.
func (p *PacketPages) Close() error { return nil }

// SendPages is not supported here.
func (s *PacketSender) SendPages(*PacketPages, int, []byte) error { return ErrUnsupported }

// PacketReceiver receives packets over a connected socket, one by one.
type PacketReceiver struct {
	conn *Conn
	buf  []byte
	n    int
}

// NewPacketReceiver makes the buffer. The system neither joins packets nor
// gives their times.
func NewPacketReceiver(c *Conn, o ReceiveOptions) (*PacketReceiver, error) {
	if o.Join || o.Stamps {
		return nil, ErrUnsupported
	}
	return &PacketReceiver{conn: c, buf: make([]byte, maxUDPPayload)}, nil
}

// Receive waits for a packet. Its errors are ErrTick, ErrPeerGone,
// net.ErrClosed after Interrupt, or the system's.
func (r *PacketReceiver) Receive() (int, error) {
	n, err := r.conn.Read(r.buf)
	if err != nil {
		return 0, packetError(err)
	}
	r.n = n
	return 1, nil
}

// Message is the packet that the last Receive returned; it is valid until the
// next one.
func (r *PacketReceiver) Message(int) Message {
	return Message{Data: r.buf[:r.n], Length: r.n, Segment: r.n}
}

// SetFragmentMode is not supported here.
func (c *Conn) SetFragmentMode(FragmentMode) error { return ErrUnsupported }

// PathMTU is unknown here.
func (c *Conn) PathMTU() int { return 0 }

// IPHeaderBytes is the length of the IP header of this socket's packets.
func (c *Conn) IPHeaderBytes() int {
	if a, ok := c.sock.RemoteAddr().(*net.UDPAddr); ok && a.IP.To4() == nil {
		return 40
	}
	return 20
}

// SetReceiveBuffer asks for a receive buffer of so many bytes; what the system
// gave is unknown here. 0 leaves the buffer as it is.
func (c *Conn) SetReceiveBuffer(bytes int) int {
	if u, ok := c.sock.(*net.UDPConn); ok && bytes > 0 {
		_ = u.SetReadBuffer(bytes) // its effect is unknown either way
	}
	return 0
}

// SetSendBuffer is SetReceiveBuffer for sending.
func (c *Conn) SetSendBuffer(bytes int) int {
	if u, ok := c.sock.(*net.UDPConn); ok && bytes > 0 {
		_ = u.SetWriteBuffer(bytes) // its effect is unknown either way
	}
	return 0
}

// ReceiveDrops is unknown here.
func (c *Conn) ReceiveDrops() int64 { return 0 }

// SetReadTick has a Read return ErrTick after d instead of a Tick.
func (c *Conn) SetReadTick(d time.Duration) error {
	c.wait = d
	return nil
}

// QueuePathErrors is not supported here.
func (c *Conn) QueuePathErrors(bool) error { return ErrUnsupported }

// PathErrors is nothing here.
func (c *Conn) PathErrors() []PathError { return nil }

// Rejection is nothing here.
func (c *Conn) Rejection() (last PathError, found bool) { return }

func packetError(err error) error {
	switch {
	case errors.Is(err, errPeerGone):
		return ErrPeerGone
	case errors.Is(err, errTooBig):
		return ErrTooBig
	case errors.Is(err, errNoBuffers):
		return ErrNoBuffers
	}
	return err
}

// LocalAddr is the socket's own address and port.
func (c *Conn) LocalAddr() string { return c.sock.LocalAddr().String() }

// Packets is an unconnected UDP socket that answers packets one by one.
type Packets struct {
	udp  *net.UDPConn
	from netip.AddrPort
}

// DetachPackets wraps c, which the Packets now owns.
func DetachPackets(c *net.UDPConn) (*Packets, error) { return &Packets{udp: c}, nil }

// Receive waits for a packet and returns its length and sender, or ErrTick
// when none came for a Tick, or net.ErrClosed after Interrupt.
func (p *Packets) Receive(b []byte) (int, netip.AddrPort, error) {
	if err := p.udp.SetReadDeadline(time.Now().Add(Tick)); err != nil {
		return 0, netip.AddrPort{}, err
	}
	n, from, err := p.udp.ReadFromUDPAddrPort(b)
	n, err = tick(n, err)
	p.from = from
	return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), err
}

// Reply sends b to the sender of the packet that was received last.
func (p *Packets) Reply(b []byte) error {
	_, err := p.udp.WriteToUDPAddrPort(b, p.from)
	return err
}

// Interrupt wakes a Receive and lets no further one succeed.
func (p *Packets) Interrupt() {
	_ = p.udp.Close() // Receive reports it
}

// Close closes the socket.
func (p *Packets) Close() error { return p.udp.Close() }
