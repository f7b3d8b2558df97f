package sockets

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A system call that the Go runtime knows of hands its processor to whoever
// wants it and must get one back afterwards: about 2 µs per round trip on a
// busy machine (measured on 2 processors, Go 1.26). While such calls wait, the
// runtime's monitor also wakes up to 50 000 times a second to take processors
// back. A raw system call keeps the processor, so that nothing else may run on
// it, not even the garbage collector's stop of the world, until a signal of the
// runtime interrupts the call.
//
// So raw calls are for exchanges of small messages, only while they answer each
// other within rawWait, and only while this process has a processor left for
// everything else: it has fewer threads that transfer than processors. And they
// are for threads that transfer in bulk on a processor that was added for them
// ([Conn.HoldProcessor]).
type processor struct {
	wanted bool  // raw calls are wanted on this socket
	held   bool  // it keeps its processor
	own    bool  // the processor was added for it, nobody waits for it
	limit  int32 // how many threads may transfer for that: processors of this process
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

// SendersNice is how far behind others in line ([LockBehind]) a thread is that
// sends to a receiver on this machine: enough for the kernel's scheduler to let
// the receiver go first whenever it can run. With it, 64 flows that copy across
// one hop on 2 processors carried 100 Gbit/s instead of 55, since what was sent
// was still in the processor's cache when it was read, and 64 that do not copy a
// tenth more; 19 gained no more.
const SendersNice = 5

// LockBehind is Lock for a goroutine that sends in bulk to a receiver on this
// same machine: the receiver goes first when both want a processor. A thread may
// step back but not, without privileges, forward again (setpriority(2)), so the
// goroutine keeps it until it ends, and the thread ends with it.
func LockBehind() (unlock func()) {
	Lock()
	tid := unix.Gettid()
	if kernel, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil { // 20 less the nice value
		// Stepping back is refused to nobody.
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 20-kernel+SendersNice)
	}
	return func() { transferring.Add(-1) }
}

func newProcessor() processor {
	return processor{wanted: true, limit: int32(runtime.GOMAXPROCS(0))}
}

// busy is called after a transfer that succeeded.
func (p *processor) busy() {
	p.held = p.wanted && transferring.Load() < p.limit
}

// idle is called after a transfer that waited in vain.
func (p *processor) idle() { p.held = false }

// interrupted is called after a transfer that the runtime's signal to make way
// ended, and says whether the processor is kept: a raw call would wait again, and
// be interrupted again, for as long as nothing comes. The runtime's monitor sends
// one every 10 ms to whoever keeps his processor. Once one goes to sleep without,
// that monitor wakes up every 20 µs to take it from him, so the owner of an added
// one keeps it.
func (p *processor) interrupted() (kept bool) {
	p.held = p.held && p.own
	return p.held
}

// MostAddedProcessors bounds how many processors the Go runtime is given beyond its own
// number: it interrupts each of them every 10 ms.
const MostAddedProcessors = 64

// added counts the processors that were added to the Go runtime for threads
// that transfer. Processors are the process's, so the count is, too.
var added struct {
	sync.Mutex
	own  int // how many there were before
	used int // by how many threads
	have int // how many were added: used at most, rounded up to a power of two
}

// addProcessor gives the Go runtime one processor more (GOMAXPROCS) for a thread
// that will keep it while it waits in the kernel, and says how many it had of its
// own. It does not when there would be too many of them.
func addProcessor() (own int, ok bool) {
	added.Lock()
	defer added.Unlock()
	if added.used >= MostAddedProcessors {
		return added.own, false
	}
	if added.used == 0 {
		added.own = runtime.GOMAXPROCS(0)
	}
	if added.used++; added.used > added.have {
		// Each change stops the world: few of them, while flows come one by one.
		added.have = 1 << bits.Len(uint(added.used-1))
		runtime.GOMAXPROCS(added.own + added.have)
	}
	return added.own, true
}

// removeProcessor takes back what addProcessor gave, with that of the last thread.
func removeProcessor() {
	added.Lock()
	defer added.Unlock()
	if added.used--; added.used == 0 {
		added.have = 0
		runtime.GOMAXPROCS(added.own)
	}
}

func addedProcessor() processor {
	return processor{wanted: true, held: true, own: true, limit: math.MaxInt32}
}
