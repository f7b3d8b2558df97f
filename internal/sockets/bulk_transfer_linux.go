package sockets

import (
	"errors"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callBytes is what one call copies at most, from or to the same chunkBytes of memory again and
// again, which stay in the cache of any CPU. Calls are to be rare, since between two of them the
// runtime's monitor interrupts a thread that shares a CPU with many: across one hop on 2 CPUs, 8
// and 64 flows of cubic carried 1.2 and 1.3 times what they did with 512 KB a call, and no more
// with 4 MB. What repeats after chunkBytes is out of reach of compressors that look back less
// (LZ4, deflate).
const callBytes = 2 << 20

// aligned is the part of p from or to which a call copies that begins with byte number at of
// a stream. It lies as far into a page as that byte does, and half a page farther. The kernel
// fills a thread's pages one after the other, from the start of one if nothing of the thread
// waits there, so that both ends of a copy lie alike in a cache line; and they are not a few
// bytes apart in their pages. Both matter to rep movsb, which the kernel copies with: on a
// Zen 3, if its destination lies 1 to 31 bytes farther in a page than its source, it takes 20
// times as long. Across one hop on 2 CPUs, 1, 8 and 64 flows of cubic so carried 1.3, 1.1 and
// 1.2 times as much.
func aligned(p []byte, at int) []byte {
	if len(p) <= pageBytes {
		return p
	}
	return p[uint(at+pageBytes/2)%pageBytes:] // at overflows where an int has 32 bits
}

// SendPayload sends up to n bytes of payload, as Write does. at is how many bytes the calling
// thread has sent on this connection before, give or take whole pages (4 KB).
func (c *Conn) SendPayload(p *Payload, n, at int) (int, error) {
	switch {
	case p.pipes != nil:
		return c.sendPiped(n)
	case c.attached != nil:
		return c.Write(p.buf[:min(n, len(p.buf))])
	}
	flags := unix.MSG_NOSIGNAL
	if n > callBytes {
		flags |= unix.MSG_MORE // without it the rest of a call goes as a small packet
	}
	return c.over(unix.SYS_SENDMSG, aligned(p.buf, at), n, flags)
}

// ReadOver is Read of up to n bytes that nobody looks at: they come into the same memory, p of
// at best OverBytes, over and over. at is what it was for the sender of the first of them. It
// may be any number, but copying may then take longer.
func (c *Conn) ReadOver(p []byte, n, at int) (int, error) {
	if c.attached != nil {
		return c.Read(p[:min(n, len(p))])
	}
	p = aligned(p, at)
	got, err := 0, ErrTick
	if c.batches() {
		got, err = c.over(unix.SYS_RECVMSG, p, n, unix.MSG_DONTWAIT)
	}
	if errors.Is(err, ErrTick) {
		got, err = c.over(unix.SYS_RECVMSG, p, n, 0)
	}
	if got == 0 && err == nil {
		return 0, io.EOF
	}
	return got, err
}

// over is one sendmsg or recvmsg of up to n bytes at p, over and over.
func (c *Conn) over(trap uintptr, p []byte, n, flags int) (int, error) {
	p = p[:min(len(p), chunkBytes)]
	var pieces [callBytes / chunkBytes]unix.Iovec
	used := 0
	n = min(n, callBytes)
	for ; n > 0 && used < len(pieces); used++ {
		pieces[used].Base = unsafe.SliceData(p)
		pieces[used].SetLen(min(n, len(p)))
		n -= min(n, len(p))
	}
	message := unix.Msghdr{Iov: &pieces[0]}
	message.SetIovlen(used)
	var got uintptr
	var errno syscall.Errno
	if c.keeper.keeps() {
		got, _, errno = syscall.RawSyscall(trap, uintptr(c.fd), uintptr(unsafe.Pointer(&message)), uintptr(flags))
	} else {
		got, _, errno = syscall.Syscall(trap, uintptr(c.fd), uintptr(unsafe.Pointer(&message)), uintptr(flags))
	}
	moved, err := tried(int(got), errno)
	c.keeper.count(moved)
	return moved, err
}
