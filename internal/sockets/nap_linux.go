package sockets

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A receiver that waits in the kernel is woken by the processor that delivers.
// Where both ends of a fast flow are on one machine, that is an interrupt to
// another, idle processor for every packet or two: two fifths of what the sending
// processor did, with one flow across one hop of a virtual machine with 2. So a
// receiver of bulk that has read all there was naps first, on a timer of its own
// processor, and reads what came meanwhile in one call. Interrupt moderation
// (ethtool(8), --coalesce) is the same idea, one layer below. That flow was 1.3
// times as fast, with the same processor time a second.
//
// It needs a processor with nothing else to do: 8 flows on 2 processors lost an
// eighth by it. So a process naps only while it has more processors than threads
// that transfer. And what a nap is worth depends on the window, the rate and the
// machine, so the receiver tries: it receives a stretch awake, one with naps, and
// goes on with whichever was not slower.
type nap struct {
	wanted  bool
	limit   int32         // how many threads may transfer for it to nap
	length  time.Duration // of a nap, 0 while it stays awake
	stretch int           // number of this one, of stretches
	bytes   int           // received in it
	since   time.Time     // when it began
	awake   float64       // bytes per second of the last stretch without naps
	sleep   unix.Timespec
}

const (
	// napBytes is how much arrives during a nap. Naps of 10 to 50 µs did the
	// same for 15 GB/s; longer ones fill the window.
	napBytes = 384 << 10
	// shortestNap is about what a timer costs; a flow for which longestNap is too
	// short, 3.9 GB/s, is woken too rarely for naps to save anything.
	shortestNap = 10 * time.Microsecond
	longestNap  = 100 * time.Microsecond
	// stretchBytes is how much is received before what it took is looked at.
	stretchBytes = 32 << 20
	// stretches is after how many it tries again.
	stretches = 128
	// notSlower is how much of the rate without naps must remain with them.
	notSlower = 0.9
	// timerSlack is how late a timer of the thread may be, in nanoseconds, where
	// 50 µs is usual (PR_SET_TIMERSLACK(2const)); 0 gives that back.
	timerSlack = 1000
)

// take naps. A signal ends a nap early, which does no harm.
func (p *nap) take() {
	p.sleep = unix.NsecToTimespec(p.length.Nanoseconds())
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&p.sleep)), 0, 0)
}

// took counts n bytes that a call received.
func (p *nap) took(n int) {
	if p.bytes += n; !p.wanted || p.bytes < stretchBytes {
		return
	}
	now := time.Now()
	p.choose(float64(p.bytes) / now.Sub(p.since).Seconds())
	p.bytes, p.since = 0, now
}

// choose is how to go on after a stretch of so many bytes per second.
func (p *nap) choose(rate float64) {
	switch {
	case p.stretch == 0:
		p.awake = rate
		if p.length = napAt(rate); p.length == 0 || transferring.Load() >= p.limit {
			p.length = 0
			return // and look again after the next
		}
	// In the first stretch with naps the window may still be growing.
	case p.stretch == 2 && rate < notSlower*p.awake:
		p.length = 0
	}
	if p.stretch++; p.stretch == stretches {
		p.stretch, p.length = 0, 0
	}
}

// napAt is the length of a nap at a rate in bytes per second, 0 for none.
func napAt(rate float64) time.Duration {
	length := time.Duration(napBytes / rate * float64(time.Second))
	if rate <= 0 || length > longestNap {
		return 0
	}
	return max(length, shortestNap)
}

// punctual lets the calling thread's timers be as late as slack says.
func punctual(slack uintptr) error { return unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0) }
