package ftp

import (
	"net"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// apply gives a connection to the end that sends, or receives, a file what the test asks of
// that end.
func apply(conn *sockets.Conn, spec measurement.Spec, sends bool) error {
	o := sockets.Options{DSCP: spec.DSCP}
	if sends {
		o.CongestionControl = spec.CongestionControl
	}
	err := conn.SetOptions(o)
	if err == nil && !sends && spec.WindowBytes > 0 {
		err = conn.ClampWindow(int(spec.WindowBytes))
	}
	return err
}

// prepare makes one end of a data connection as the test asks.
func prepare(c *net.TCPConn, spec measurement.Spec, sends bool) (net.Conn, error) {
	conn, err := sockets.Attach(c)
	if err == nil {
		err = apply(conn, spec, sends)
	}
	if err != nil || sends || spec.WindowBytes <= 0 {
		return c, err
	}
	return &clamped{c, conn, int(spec.WindowBytes)}, nil
}

// clamped is a receiving connection that renews the clamp of its window, which the kernel
// moves, as data comes.
type clamped struct {
	*net.TCPConn
	conn  *sockets.Conn
	clamp int // bytes
}

func (c *clamped) Read(p []byte) (int, error) {
	// It worked once; it fails only when the connection has ended.
	_ = c.conn.RenewClamp(c.clamp)
	return c.TCPConn.Read(p)
}
