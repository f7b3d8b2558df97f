package linkem

import (
	"math/rand/v2"
	"unsafe"

	"golang.org/x/sys/unix"
)

// meterGap is how many frames there are on average for each whose handing over
// is measured. A reading of a thread's clock is a system call of about 0.2 µs, a
// frame takes 5 to 30.
const meterGap = 16

// meter estimates the CPU time that the calling thread spends on one of
// its tasks, from a random sample of the times that it does it: fixed gaps could
// fall in with a rhythm of the frames, of which every second may be an
// acknowledgement.
type meter struct {
	random *rand.PCG
	left   int // until the next that is measured
}

func newMeter(seed uint64, index int) meter {
	m := meter{random: rand.NewPCG(seed, uint64(index)^0x6d65746572)}
	m.draw()
	return m
}

// draw chooses the next gap, from 1 to 2·meterGap − 1 alike, meterGap on average.
func (m *meter) draw() { m.left = 1 + int(m.random.Uint64()%(2*meterGap-1)) }

// begin says when the task began, or 0 when this time is not measured.
func (m *meter) begin() int64 {
	if m.left--; m.left > 0 {
		return 0
	}
	m.draw()
	return threadTime()
}

// end is the share of the whole in nanoseconds that this time stands for.
func (m *meter) end(began int64) uint64 {
	if began == 0 {
		return 0
	}
	now := threadTime()
	if now <= began {
		return 0
	}
	return uint64(now-began) * meterGap
}

// threadTime is the CPU time of the calling thread in nanoseconds
// (CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)), 0 where it is not to be had.
func threadTime() int64 {
	var t unix.Timespec
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return t.Nano()
}
