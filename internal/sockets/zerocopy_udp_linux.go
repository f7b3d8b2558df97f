package sockets

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// slotBytes is what a buffer of PacketPages takes: whole small pages, and no less
	// than the largest buffer.
	slotBytes = 1 << 16
	// packetHugePages hold the buffers of PacketPages, each the next one: sender and
	// receiver take turns at a page's reference count. Across one hop on 2
	// processors, 32 buffers in one huge page carried 110 Gbit/s, in two 140, in
	// four 150; 64 in two, which leave the receiver's cache, 125.
	packetHugePages = 4
	// maxPacketBuffers is how many buffers PacketPages have at most.
	maxPacketBuffers = packetHugePages * hugePage / slotBytes
)

// PacketPages is memory that large buffers of packets are sent from zero-copy
// (sendfile(2), whose pages a UDP socket takes since Linux 6.5, MSG_SPLICE_PAGES).
// What is in it may be on its way at any time and therefore never changes: only
// the first bytes of a buffer are new each time. All flows of a test may share one.
type PacketPages struct {
	file *os.File
	fd   int
	// each is the length of a buffer in bytes.
	each int
	page int
}

// slotOf is where a buffer is in its file.
func slotOf(buffer int) int {
	return buffer%packetHugePages*hugePage + buffer/packetHugePages*slotBytes
}

// NewPacketPages makes so many buffers, 128 at most, each of so many packets of size
// bytes, and has write fill in what is to be in each packet in addition to noise. Its error
// is ErrUnsupported where the system would copy all the same.
func NewPacketPages(buffers, packets, size int, write func(buffer, packet int, b []byte)) (*PacketPages, error) {
	if !kernelSince(6, 5) {
		return nil, ErrUnsupported
	}
	if packets*size > maxUDPPayload || buffers > maxPacketBuffers {
		return nil, fmt.Errorf("make packets for sendfile: %d buffers of %d packets of %d bytes are more than %d of %d bytes",
			buffers, packets, size, maxPacketBuffers, maxUDPPayload)
	}
	content, filler := make([]byte, packetHugePages*hugePage), noise(packets*size)
	for i := range buffers {
		b := content[slotOf(i):][:packets*size]
		copy(b, filler)
		for j := range packets {
			write(i, j, b[j*size:(j+1)*size:(j+1)*size])
		}
	}
	file, page, err := memoryFile(content)
	if err != nil {
		return nil, fmt.Errorf("make packets for sendfile: %w", err)
	}
	return &PacketPages{file: file, fd: int(file.Fd()), each: packets * size, page: page}, nil
}

// PageBytes is the size in bytes of the pages of memory that hold the buffers.
func (p *PacketPages) PageBytes() int { return p.page }

// Close gives the memory back as soon as nothing of it is on its way. Nobody may
// be sending it.
func (p *PacketPages) Close() error { return p.file.Close() }

// SendPages sends a buffer whose first bytes are head, over a socket whose packets
// the kernel cuts. It is sent whole or not at all; the errors are Send's. It does
// not allocate.
func (s *PacketSender) SendPages(p *PacketPages, buffer int, head []byte) error {
	s.vectors[0].Base = unsafe.SliceData(head)
	s.vectors[0].SetLen(len(head))
	// The head waits in the socket for the rest, and is copied.
	if _, err := s.conn.messages(unix.SYS_SENDMMSG, &s.headers[0], 1, unix.MSG_NOSIGNAL|unix.MSG_MORE); err != nil {
		return err
	}
	offset, rest := int64(slotOf(buffer)+len(head)), p.each-len(head)
	for {
		n, _, errno := syscall.Syscall6(unix.SYS_SENDFILE, uintptr(s.conn.fd), uintptr(p.fd), uintptr(unsafe.Pointer(&offset)), uintptr(rest), 0, 0)
		switch {
		case errno == unix.EINTR: // before anything was taken: the head waits
		case errno != 0:
			return packetErrno(errno) // it took the head away with it
		case int(n) != rest:
			return fmt.Errorf("sendfile took %d of %d bytes", n, rest)
		default:
			return nil
		}
	}
}

// kernelSince says whether the kernel is of that version or a later one. One that
// does not say is not.
func kernelSince(major, minor int) bool {
	var name unix.Utsname
	return unix.Uname(&name) == nil && releaseSince(unix.ByteSliceToString(name.Release[:]), major, minor)
}

func releaseSince(release string, major, minor int) bool {
	var is [2]int
	if _, err := fmt.Sscanf(release, "%d.%d", &is[0], &is[1]); err != nil {
		return false
	}
	return is[0] > major || is[0] == major && is[1] >= minor
}

// hugePage is the size of the huge page that joins small ones on x86-64, and on
// arm64 whose small ones have 4 KB.
const hugePage = 2 << 20

// memoryFile is a file of anonymous memory that holds content, in huge pages if
// it is a multiple of one and the kernel has them; page is their size in bytes.
func memoryFile(content []byte) (file *os.File, page int, err error) {
	fd, err := unix.MemfdCreate("packets", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, 0, fmt.Errorf("memfd_create: %w", err)
	}
	file = os.NewFile(uintptr(fd), "packets")
	if _, err := file.Write(content); err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	for at := 0; at < len(content); at += hugePage {
		if len(content)%hugePage != 0 || join(fd, int64(at)) != nil {
			return file, os.Getpagesize(), nil // small pages have to do
		}
	}
	return file, hugePage, nil
}

// join has the kernel gather what a file holds from an offset on in one huge page
// (MADV_COLLAPSE, madvise(2); Linux 6.1). Whatever a socket buffer refers to takes a
// reference and gives it back: those to a huge page are on one count, which stays
// in the cache.
//
// A file is also made of huge pages when the system's setting says so
// (transparent_hugepage/shmem_enabled), which by default it does not.
func join(fd int, from int64) error {
	// The mapping must begin where a huge page can: it takes the aligned half of
	// a range of addresses twice as large.
	room, err := unix.MmapPtr(-1, 0, nil, 2*hugePage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	at := unsafe.Add(room, (hugePage-uintptr(room)%hugePage)%hugePage)
	_, err = unix.MmapPtr(fd, from, at, hugePage, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	if err == nil {
		err = unix.Madvise(unsafe.Slice((*byte)(at), hugePage), unix.MADV_COLLAPSE)
	}
	return errors.Join(err, unix.MunmapPtr(room, 2*hugePage))
}
