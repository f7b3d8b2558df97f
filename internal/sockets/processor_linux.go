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
// collector's stop of the world. So only exchanges of small messages may make
// them, only while they answer each other within rawWait, and only while this
// process has a processor left for everything else: it has fewer threads that
// transfer than processors.
type processor struct {
	wanted bool  // this socket exchanges small messages
	held   bool  // it keeps its processor
	limit  int32 // processors of this process
}

// rawWait is how long a raw system call may block.
const rawWait = 10 * time.Millisecond

// transferring counts the threads of this process that transfer. Processors
// are the process's, so the count is, too.
var transferring atomic.Int32

// Lock ties the calling goroutine, which is about to transfer, to its thread,
// until the returned function is called.
func Lock() func() {
	runtime.LockOSThread()
	transferring.Add(1)
	return func() {
		transferring.Add(-1)
		runtime.UnlockOSThread()
	}
}

func newProcessor() processor {
	return processor{wanted: true, limit: int32(runtime.GOMAXPROCS(0))}
}

// busy is called after a transfer that succeeded.
func (p *processor) busy() {
	p.held = p.wanted && transferring.Load() < p.limit
}

// idle is called after a transfer that waited in vain or was interrupted.
func (p *processor) idle() { p.held = false }
