package message

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SocketPair makes a connected pair of stream sockets, as files.
func SocketPair(name string) (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of unix sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// rightsBytes is the room that the descriptors of a message take.
var rightsBytes = unix.CmsgSpace(4 * maxDescriptors)

// rightsOf hands descriptors over (SCM_RIGHTS of unix(7)).
func rightsOf(files []*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return unix.UnixRights(fds...)
}

func filesOf(oob []byte, flags int) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptors of a message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			CloseAll(files)
			return nil, fmt.Errorf("read descriptors of a message: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return files, fmt.Errorf("message carries more than %d descriptors", maxDescriptors)
	}
	return files, nil
}
