// Package hostinfo reads what this machine says of itself: which one it is, the
// time that its CPUs have spent, the packets that it lost, and what this process may
// have of it. What a system does not tell is an error or a zero that says so.
package hostinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// OthersLoad is how many other tasks run here or wait for a CPU, and the part of the CPU time
// that a hypervisor takes, 0 where that is not known.
func OthersLoad() (runnable int, stolen float64, err error) {
	before, cpuErr := ReadCPU()
	if runnable, err = ReadRunnable(); err != nil {
		return 0, 0, err
	}
	if now, err := ReadCPU(); err == nil && cpuErr == nil && now.Total > before.Total {
		stolen = float64(now.Steal-before.Steal) / float64(now.Total-before.Total)
	}
	return runnable, stolen, nil
}
