package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What one end of a link writes, the other reads, whatever its size.
func TestLink(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 1)
	start(t, y.options("vm-1", links))
	a := take(t, y.arrived)
	if a.Name != "vm-1" || a.Version != "test" || len(a.Labels) != 1 || a.Labels[0] != "role=client" {
		t.Errorf("arrived: %+v", a)
	}
	far := take(t, links)
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // of several messages
	for _, way := range []struct{ from, to io.ReadWriter }{{a.Link, far}, {far, a.Link}} {
		for _, said := range [][]byte{[]byte("hello"), large} {
			_, err := way.from.Write(said)
			testutil.OK(t, err)
			heard := make([]byte, len(said))
			_, err = io.ReadFull(way.to, heard)
			testutil.OK(t, err)
			if !bytes.Equal(heard, said) {
				t.Fatalf("%d bytes are not what was said", len(said))
			}
		}
	}
	testutil.OK(t, a.Link.Close())
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the link was closed, and the other end reads %v", err)
	}
}

// An agent joins at an address on a link, too, which has an interface.
func TestJoinOnALink(t *testing.T) {
	y := newYardAt(t, netip.MustParseAddrPort("[::1]:0"))
	links := make(chan io.ReadWriteCloser, 1)
	start(t, y.optionsAt(fmt.Sprintf("[::1%%lo]:%d", y.broker.Addr().Port()), "vm-1", links))
	take(t, y.arrived)
	take(t, links)
}

// An agent whose process ends is gone at once, and says so.
func TestAgentEnds(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 1)
	stop := start(t, y.options("vm-1", links))
	a := take(t, y.arrived)
	take(t, links)
	testutil.OK(t, stop())
	_, err := a.Link.Read(make([]byte, 1))
	if err == nil || !strings.Contains(err.Error(), "the agent ends") && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// connections are those that a test can cut.
type connections struct {
	mu  sync.Mutex
	all []net.Conn
}

func (c *connections) add(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conns...)
}

// cut ends all of them at whatever byte they are.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close()
	}
	c.all = nil
}

// cutting is a broker whose connection to the coordinator a test can cut.
type cutting struct {
	*broker.Broker
	connections
}

func (c *cutting) InProcessConn() (net.Conn, error) {
	conn, err := c.Broker.InProcessConn()
	c.add(conn)
	return conn, err
}

// A coordinator that loses its connection to the broker has another, and agents join there.
func TestCoordinatorComesBack(t *testing.T) {
	y := newYard(t)
	cut := &cutting{Broker: y.broker}
	arrived, lost := make(chan bus.Arrival, 16), make(chan error, 16)
	c, err := bus.Coordinate(cut, bus.CoordinatorOptions{
		Fleet: fleet, OnArrival: func(a bus.Arrival) { arrived <- a }, OnDisconnect: func(err error) { lost <- err },
	})
	testutil.OK(t, err)
	testutil.OK(t, y.bus.Close())
	links := make(chan io.ReadWriteCloser, 16)
	start(t, y.options("vm-1", links))
	take(t, arrived)
	take(t, links)
	cut.cut()
	take(t, lost)
	start(t, y.options("vm-2", links))
	if who := take(t, arrived).Name; who != "vm-2" {
		t.Errorf("%s arrived: the link of vm-1 goes on", who)
	}
	testutil.OK(t, c.Close())
}

// An agent that is expelled is told, and its connection ends.
func TestExpelled(t *testing.T) {
	y := newYard(t)
	links := make(chan io.ReadWriteCloser, 1)
	o := y.options("vm-1", links)
	states := away(&o)
	start(t, o)
	a := take(t, y.arrived)
	take(t, links)
	testutil.OK(t, y.broker.Expel(a.Agent))
	if err := take(t, states); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Error(err)
	}
	testutil.OK(t, a.Link.Close())
}
