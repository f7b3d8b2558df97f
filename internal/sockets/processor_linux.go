package sockets

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A system call that the Go runtime knows of hands its processor to whoever
// wants it and must get one back afterwards: about 2 µs per round trip on a
// busy machine (measured on 2 processors, Go 1.26). A raw system call keeps
// the processor, so that nothing else may run on it, not even the garbage
// collector's stop of the world. A processor therefore allows it only to
// exchanges of small messages, only while they answer each other within
// rawWait, and always leaves one of the process's processors to everyone else.
type processor struct {
	wanted bool // this socket exchanges small messages
	held   bool
}

// rawWait is how long a raw system call may block.
const rawWait = 10 * time.Millisecond

// held counts the processors of this process that are kept; processors are
// the process's, so the count is, too.
var held atomic.Int32

// busy is called after a transfer that succeeded.
func (p *processor) busy() {
	if !p.wanted || p.held {
		return
	}
	if held.Add(1) < int32(runtime.GOMAXPROCS(0)) {
		p.held = true
	} else {
		held.Add(-1)
	}
}

// release is called after a transfer that waited in vain, and at the end.
func (p *processor) release() {
	if p.held {
		p.held = false
		held.Add(-1)
	}
}
