// Package hostinfo reads what this machine says of itself: which one it is, the
// time that its CPUs have spent, the packets that it lost, and what this process may
// have of it. What a system does not tell is an error or a zero that says so.
package hostinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"runtime"
)

// ErrUnsupported says that this operating system does not tell it.
var ErrUnsupported = errors.New("not told by this operating system")

// identity turns something that names a machine into something that only tells
// it from others: 16 hexadecimal digits, empty for empty.
func identity(of string) string {
	if of == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("hopbench identity\x00" + of))
	return hex.EncodeToString(sum[:8])
}

// OthersLoad is how many other tasks run on this machine or wait for one of so many CPUs, which
// are all that it has and not only those that this process may use, and the part of their time
// that a hypervisor takes, 0 where that is not known.
func OthersLoad() (runnable, cpus int, stolen float64, err error) {
	before, cpuErr := ReadCPU()
	if runnable, err = readRunnable(); err != nil {
		return 0, 0, 0, err
	}
	now, err := ReadCPU()
	if err != nil || cpuErr != nil {
		return runnable, runtime.NumCPU(), 0, nil
	}
	if now.Total > before.Total {
		stolen = float64(now.Steal-before.Steal) / float64(now.Total-before.Total)
	}
	return runnable, now.CPUs, stolen, nil
}
