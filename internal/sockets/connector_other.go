//go:build !linux

package sockets

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// Connector makes one TCP connection after another from and to the same
// addresses. It belongs to one goroutine.
type Connector struct {
	// Conn is the connection made last.
	*Conn
	options ConnectOptions
}

// ConnectOptions are the addresses and the marks of a Connector's packets.
type ConnectOptions struct {
	Remote  netip.AddrPort
	Local   netip.Addr // may be invalid: the system chooses
	Device  string     // not supported here
	DSCP    int        // not supported here
	NoDelay bool       // always on here
}

// connectWait bounds one connection here, where waiting cannot be resumed.
const connectWait = 5 * time.Second

// NewConnector prepares connections; it makes none yet.
func NewConnector(o ConnectOptions) (*Connector, error) {
	if o.Device != "" || o.DSCP != 0 {
		return nil, ErrUnsupported
	}
	return &Connector{options: o}, nil
}

// Connect makes a connection.
func (k *Connector) Connect() error {
	dialer := net.Dialer{Timeout: connectWait}
	if k.options.Local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(k.options.Local, 0))
	}
	c, err := dialer.Dial("tcp", k.options.Remote.String())
	if err != nil {
		return err
	}
	k.Conn, err = Detach(c.(*net.TCPConn))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// Close ends the connection made last; it may be called without one.
func (k *Connector) Close() error {
	if k.Conn == nil {
		return nil
	}
	c := k.Conn
	k.Conn = nil
	return c.Close()
}
