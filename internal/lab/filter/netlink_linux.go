package filter

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// patience is how long the kernel may take to answer. A kernel that refuses a
// whole batch answers once, and the library waits for as many answers as there
// were messages.
const patience = 10 * time.Second

// connection is a socket to the nftables of one network namespace.
type connection struct {
	*nftables.Conn
	socket *netlink.Conn
}

// dial opens one to the namespace that the descriptor netns refers to. It fails
// where the kernel has no nftables.
func dial(netns int) (*connection, error) {
	c := &connection{}
	if err := c.open(netns); err != nil {
		return nil, fmt.Errorf("open netlink for nftables: %w", err)
	}
	err := c.limited(func() error {
		_, err := c.ListTablesOfFamily(nftables.TableFamilyIPv4)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the tables of nftables: %w", err), c.CloseLasting())
	}
	return c, nil
}

// open does not leave the namespace to the library (WithNetNSFd), which looks for the calling
// thread in /proc: it is not found where that is the /proc of a container that allows no other.
func (c *connection) open(netns int) error {
	opened := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Setns(netns, unix.CLONE_NEWNET)
		if err == nil {
			c.Conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(s *netlink.Conn) error {
				c.socket = s
				return nil
			}))
		}
		opened <- err
	}()
	return <-opened
}

// limited does an exchange that ends when patience does.
func (c *connection) limited(exchange func() error) error {
	if err := c.socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return exchange()
}

// commit sends what was added as one transaction.
func (c *connection) commit() error { return c.limited(c.Flush) }
