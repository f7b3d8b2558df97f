package sockets

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
