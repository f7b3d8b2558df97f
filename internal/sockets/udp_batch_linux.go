package sockets

import (
	"encoding/binary"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// messagesAtOnce is how many messages one system call sends or receives:
// beyond it, nothing more is gained.
const messagesAtOnce = 128

// PacketSender sends packets of one size over a connected socket, many with
// each system call: as one large buffer that the kernel or the interface cuts
// (UDP_SEGMENT), or as a batch (sendmmsg). One goroutine sends.
type PacketSender struct {
	conn     *Conn
	buf      []byte
	size     int
	most     int
	segments bool
	headers  []unix.Mmsghdr
	vectors  []unix.Iovec
}

// NewPacketSender makes the buffers for packets of size bytes. With segments,
// the kernel cuts them from large buffers.
func NewPacketSender(c *Conn, size int, segments bool) (*PacketSender, error) {
	s := &PacketSender{conn: c, size: size, segments: segments, most: messagesAtOnce}
	headers := messagesAtOnce
	if segments {
		if err := c.cutInto(size); err != nil {
			return nil, err
		}
		s.most, headers = min(MaxSegments, maxUDPPayload/size), 1
	} else {
		_ = c.cutInto(0) // what an earlier sender asked for; a kernel without it has nothing to undo
	}
	s.most = max(min(s.most, 1<<20/size), 1)
	s.buf = noise(s.most * size)
	s.headers, s.vectors = make([]unix.Mmsghdr, headers), make([]unix.Iovec, headers)
	for i := range s.headers {
		if !segments && i < s.most {
			s.vectors[i].Base = &s.buf[i*size]
			s.vectors[i].SetLen(size)
		}
		s.headers[i].Hdr.Iov = &s.vectors[i]
		s.headers[i].Hdr.SetIovlen(1)
	}
	return s, nil
}

// cutInto has the kernel cut whatever is sent into packets of size bytes.
func (c *Conn) cutInto(size int) error {
	return c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, size) })
}

// Segments says whether the kernel cuts the packets from large buffers.
func (s *PacketSender) Segments() bool { return s.segments }

// Send sends the packets from up to but without to, and says how many of them
// the kernel took. Its errors are ErrTick, ErrNoBuffers, ErrTooBig,
// ErrPeerGone or the system's. It does not allocate.
func (s *PacketSender) Send(from, to int) (int, error) {
	if !s.segments {
		return s.conn.messages(unix.SYS_SENDMMSG, &s.headers[from], to-from, unix.MSG_NOSIGNAL)
	}
	s.vectors[0].Base = &s.buf[from*s.size]
	s.vectors[0].SetLen((to - from) * s.size)
	if _, err := s.conn.messages(unix.SYS_SENDMMSG, &s.headers[0], 1, unix.MSG_NOSIGNAL); err != nil {
		return 0, err
	}
	return to - from, nil
}

// messages is one sendmmsg or recvmmsg, repeated when a signal interrupts it.
func (c *Conn) messages(trap uintptr, first *unix.Mmsghdr, n, flags int) (int, error) {
	for {
		got, _, errno := syscall.Syscall6(trap, uintptr(c.fd), uintptr(unsafe.Pointer(first)), uintptr(n), uintptr(flags), 0, 0)
		switch errno {
		case 0:
			return int(got), nil
		case unix.EINTR:
		default:
			return 0, packetErrno(errno)
		}
	}
}

// packetErrno is what a system call that sends or receives packets failed with.
func packetErrno(errno syscall.Errno) error {
	switch errno {
	case unix.EAGAIN:
		return ErrTick
	case unix.ENOBUFS:
		return ErrNoBuffers
	case unix.EMSGSIZE:
		return ErrTooBig
	case unix.ECONNREFUSED:
		return ErrPeerGone
	case unix.EPIPE:
		return net.ErrClosed
	}
	return errno
}

const (
	// joinedBytes holds the largest message of joined packets.
	joinedBytes = 1 << 16
	// joinedAtOnce messages of that size stay in the cache.
	joinedAtOnce = 4
	// controlBytes is room for a packet's control messages: segment size and time.
	controlBytes = 64
)

// PacketReceiver receives packets over a connected socket, many with each
// system call. One goroutine receives.
type PacketReceiver struct {
	conn    *Conn
	keep    int
	buf     []byte
	headers []unix.Mmsghdr
	vectors []unix.Iovec
	control []byte // empty when packets have no control messages
	name    unix.RawSockaddrAny
}

// NewPacketReceiver makes the buffers. It fails with the system's error when
// an option is not to be had.
func NewPacketReceiver(c *Conn, o ReceiveOptions) (*PacketReceiver, error) {
	r := &PacketReceiver{conn: c, keep: o.Keep}
	n := messagesAtOnce
	if o.Join {
		if err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) }); err != nil {
			return nil, err
		}
	}
	if o.Stamps {
		if err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }); err != nil {
			return nil, err
		}
	}
	if o.Join || o.Keep == 0 {
		n, r.keep = joinedAtOnce, joinedBytes
	}
	r.buf = make([]byte, n*r.keep)
	r.headers, r.vectors = make([]unix.Mmsghdr, n), make([]unix.Iovec, n)
	if o.Join || o.Stamps {
		r.control = make([]byte, n*controlBytes)
	}
	for i := range r.headers {
		r.vectors[i].Base = &r.buf[i*r.keep]
		r.vectors[i].SetLen(r.keep)
		h := &r.headers[i].Hdr
		h.Iov = &r.vectors[i]
		h.SetIovlen(1)
		if len(r.control) > 0 {
			h.Control = &r.control[i*controlBytes]
		}
	}
	r.headers[0].Hdr.Name = (*byte)(unsafe.Pointer(&r.name))
	return r, nil
}

// Receive waits for a message, takes those that are there, and returns how
// many. Its errors are ErrTick, ErrPeerGone, net.ErrClosed after Interrupt,
// or the system's. It does not allocate.
func (r *PacketReceiver) Receive() (int, error) {
	if len(r.control) > 0 {
		for i := range r.headers {
			r.headers[i].Hdr.SetControllen(controlBytes)
		}
	}
	r.headers[0].Hdr.Namelen = unix.SizeofSockaddrAny
	n, err := r.conn.messages(unix.SYS_RECVMMSG, &r.headers[0], len(r.headers), unix.MSG_WAITFORONE|unix.MSG_TRUNC)
	// After shutdown, recvmmsg returns nothing from nobody.
	if err == nil && r.headers[0].Len == 0 && r.headers[0].Hdr.Namelen == 0 {
		return 0, net.ErrClosed
	}
	return n, err
}

// Message is the i-th of those that the last Receive returned; it is valid
// until the next one.
func (r *PacketReceiver) Message(i int) Message {
	h := &r.headers[i]
	m := Message{Length: int(h.Len), Segment: int(h.Len)}
	m.Data = r.buf[i*r.keep:][:min(m.Length, r.keep)]
	if len(r.control) > 0 {
		m.readControl(r.control[i*controlBytes:][:min(int(h.Hdr.Controllen), controlBytes)])
	}
	return m
}

// readControl reads the segment size (an int, udp(7)) and the time (a struct
// timespec, socket(7)) from a packet's control messages.
func (m *Message) readControl(b []byte) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		if int(h.Len) < unix.SizeofCmsghdr || int(h.Len) > len(b) {
			return
		}
		data := b[unix.CmsgLen(0):h.Len]
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			if size := int(binary.NativeEndian.Uint32(data)); size > 0 {
				m.Segment = size
			}
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			m.At = (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
}
