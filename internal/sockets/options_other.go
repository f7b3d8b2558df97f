//go:build !linux

package sockets

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Control refuses what cannot be set on this system; the buffers are set when
// the connection exists. It is a net.Dialer's Control.
func (o Options) Control(_, _ string, _ syscall.RawConn) error {
	var errs []error
	refuse := func(wanted bool, what string) {
		if wanted {
			errs = append(errs, fmt.Errorf("set %s: %w", what, ErrUnsupported))
		}
	}
	refuse(o.MSS > 0, "MSS")
	refuse(o.DSCP > 0, "DSCP")
	refuse(o.CongestionControl != "", "congestion control")
	refuse(o.Device != "", "device")
	return errors.Join(errs...)
}

// SetOptions sets the buffers, and refuses what cannot be set on this system.
func (c *Conn) SetOptions(o Options) error {
	err := o.Control("", "", nil)
	tcp, ok := c.sock.(*net.TCPConn)
	if !ok {
		return err
	}
	if o.SendBuffer > 0 {
		err = errors.Join(err, tcp.SetWriteBuffer(o.SendBuffer))
	}
	if o.ReceiveBuffer > 0 {
		err = errors.Join(err, tcp.SetReadBuffer(o.ReceiveBuffer))
	}
	return err
}

// SetPacing is not supported here.
func (c *Conn) SetPacing(float64) error { return ErrUnsupported }

// DSCP is unknown here.
func (c *Conn) DSCP() int { return 0 }

// MultipathTCP is false: only Linux has it.
func (c *Conn) MultipathTCP() bool { return false }
