//go:build !linux && !windows && !darwin

package sockets

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// TCPInfo is not supported here.
func (c *Conn) TCPInfo(time.Duration) (measurement.TCPInfo, error) {
	return measurement.TCPInfo{}, ErrUnsupported
}

// MSS is unknown here.
func (c *Conn) MSS() int { return 0 }

// ReceiveBuffer is unknown here.
func (c *Conn) ReceiveBuffer() int { return 0 }

// SendBuffer is unknown here.
func (c *Conn) SendBuffer() int { return 0 }
