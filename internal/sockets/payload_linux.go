package sockets

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewPayloadFile is NewPayload for sendfile(2) from anonymous memory
// (memfd_create(2)): the kernel queues references to the file's pages and
// copies nothing.
func NewPayloadFile() (*Payload, error) {
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a payload for sendfile: %w", err)
	}
	p := &Payload{file: os.NewFile(uintptr(fd), "payload"), fd: fd}
	if _, err := p.file.Write(noise(payloadFileBytes)); err != nil {
		return nil, fmt.Errorf("make a payload for sendfile: %w", errors.Join(err, p.file.Close()))
	}
	return p, nil
}
