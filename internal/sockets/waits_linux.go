package sockets

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// way is how a receiver of bulk waits when it has read all there was.
type way int

const (
	// blocking is in the kernel, until the processor that delivers wakes it: where
	// both ends of a fast flow are on one machine, an interrupt to another, idle
	// processor for every packet or two. That was two fifths of what the sending
	// processor did, with one flow across one hop of a virtual machine with 2.
	blocking way = iota
	// napping is on a timer of its own processor, so that it reads what came
	// meanwhile in one call. Interrupt moderation (ethtool(8), --coalesce) is the
	// same idea, one layer below. That flow was 1.3 times as fast, with the same
	// processor time a second. It needs a processor with nothing else to do: 8
	// flows on 2 processors lost an eighth by it. So a process naps only while it
	// has more processors than threads that transfer.
	napping
	// sharing is in the kernel, on the processor of the sender, which keeps to it:
	// to wake the receiver is a switch of tasks, and what one end touches is in the
	// cache of the other. That flow was 1.5 times as fast as with blocking, in half
	// the processor time. Where payload is copied, two processors do more.
	sharing
	ways
)

// String is what is told of a way.
func (w way) String() string {
	return [ways]string{blocking: "until woken", napping: "naps", sharing: "on the sender's processor"}[w]
}

// waits chooses how a receiver waits. What is best depends on the window, the rate
// and the machine, so it receives a stretch each way now and then and goes on with
// the last in the order above that was not slower than another.
type waits struct {
	wanted bool
	limit  int32 // how many threads may transfer for it to nap
	// pin takes the thread to the sender's processor; nil where that is not wanted.
	pin *pin
	fd  int

	way     way
	length  time.Duration // of a nap
	kept    way           // the latest choice, blocking before the first
	stretch int           // number of this one in its cycle
	cycle   int           // how many stretches it has, stretches at last
	trying  [ways]way     // what it tries in this cycle, two stretches each
	tries   int
	rates   [ways]float64 // bytes per second of the last stretch of each
	bytes   int           // received in this stretch
	since   time.Time     // when it began
	sleep   unix.Timespec
}

const (
	// napBytes is how much arrives during a nap. Naps of 10 to 50 µs did the
	// same for 15 GB/s; longer ones fill the window.
	napBytes = 384 << 10
	// shortestNap is about what a timer costs; a flow for which longestNap is too
	// short, 3.9 GB/s, is woken too rarely for anything to be saved.
	shortestNap = 10 * time.Microsecond
	longestNap  = 100 * time.Microsecond
	// stretchBytes is how much is transferred before what it took is looked at.
	stretchBytes = 32 << 20
	// stretches is after how many it tries again, firstStretches the first time,
	// when what it tries may yet suffer from a window that grows. Then twice as many
	// each time: in a test of a second, 2 of 12 runs kept to a way with half the rate.
	stretches, firstStretches = 512, 32
	// notSlower is how much of the rate of another way must remain.
	notSlower = 0.9
	// timerSlack is how late a timer of the thread may be, in nanoseconds, where
	// 50 µs is usual (PR_SET_TIMERSLACK(2const)); 0 gives that back.
	timerSlack = 1000
)

// nap is a receiver's. A signal ends it early, which does no harm.
func (w *waits) nap() {
	w.sleep = unix.NsecToTimespec(w.length.Nanoseconds())
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&w.sleep)), 0, 0)
}

// took counts n bytes that a call received.
func (w *waits) took(n int) {
	if w.bytes += n; !w.wanted || w.bytes < stretchBytes {
		return
	}
	now := time.Now()
	before := w.way
	w.choose(float64(w.bytes) / now.Sub(w.since).Seconds())
	w.bytes, w.since = 0, now
	switch {
	case w.way == sharing:
		w.pin.to(incomingProcessor(w.fd)) // the sender may have moved
	case before == sharing:
		w.pin.release()
	}
}

// choose is how to go on after a stretch of so many bytes per second.
func (w *waits) choose(rate float64) {
	if w.stretch == 0 {
		w.rates = [ways]float64{blocking: rate}
		if w.plan(rate); w.tries == 0 {
			return // and look again after the next
		}
	} else if w.stretch <= 2*w.tries {
		// In the first of two stretches the window may still be growing.
		w.rates[w.way] = rate
	}
	w.cycle = max(w.cycle, firstStretches)
	switch w.stretch++; {
	case w.stretch == w.cycle:
		w.stretch, w.way, w.cycle = 0, blocking, min(2*w.cycle, stretches)
	case w.stretch <= 2*w.tries:
		w.way = w.trying[(w.stretch-1)/2]
	default:
		w.way = w.best()
		w.kept = w.way
	}
}

// plan is what to try when a stretch of blocking had this rate.
func (w *waits) plan(rate float64) {
	w.tries = 0
	if w.length = napAt(rate); w.length == 0 {
		return
	}
	if transferring.Load() < w.limit {
		w.trying[w.tries] = napping
		w.tries++
	}
	if w.pin != nil {
		w.trying[w.tries] = sharing
		w.tries++
	}
}

func (w *waits) best() way {
	best, most := blocking, max(w.rates[blocking], w.rates[napping], w.rates[sharing])
	for way := range ways {
		if w.rates[way] >= notSlower*most {
			best = way
		}
	}
	return best
}

// napAt is the length of a nap at a rate in bytes per second, 0 for a rate at which
// all ways are as good.
func napAt(rate float64) time.Duration {
	length := time.Duration(napBytes / rate * float64(time.Second))
	if rate <= 0 || length > longestNap {
		return 0
	}
	return max(length, shortestNap)
}

// punctual lets the calling thread's timers be as late as slack says.
func punctual(slack uintptr) error { return unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0) }

// stay is the other half of sharing: a fast sender keeps to the processor on which
// it is, or the kernel's scheduler would take it to an idle one whenever the
// receiver has joined it. Now and then it lets the scheduler choose again.
type stay struct {
	pin     *pin // nil where that is not wanted
	stretch int
	bytes   int
	since   time.Time
}

// sent counts n bytes that a call took.
func (s *stay) sent(n int) {
	if s.bytes += n; s.pin == nil || s.bytes < stretchBytes {
		return
	}
	now := time.Now()
	rate := float64(s.bytes) / now.Sub(s.since).Seconds()
	fast := napAt(rate) > 0
	s.bytes, s.since = 0, now
	s.stretch++
	switch kept := s.pin.at >= 0; {
	case kept && (!fast || s.stretch >= stretches):
		s.pin.release()
	case !kept && fast:
		s.pin.to(currentProcessor())
		s.stretch = 0
	}
}
