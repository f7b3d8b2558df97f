//go:build !linux && !windows && !darwin

package tcpstate

import (
	"errors"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Read is not supported here.
func Read(int, time.Duration) (measurement.TCPInfo, error) {
	return measurement.TCPInfo{}, errors.New("not supported on this operating system")
}

// MSS is unknown here.
func MSS(int) int { return 0 }

// ReceiveBuffer is unknown here.
func ReceiveBuffer(int) int { return 0 }

// SendBuffer is unknown here.
func SendBuffer(int) int { return 0 }
