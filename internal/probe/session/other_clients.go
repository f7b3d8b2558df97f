package session

import (
	"net/netip"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Telling is what a server tells a client of others that test with it at the same time.
type Telling int

// What a server may tell.
const (
	TellNothing Telling = iota // of clients that belong together
	TellCount                  // to clients that did not prove who they are
	TellAddress
)

// Client is whose a test is.
type Client struct {
	Run     string // which of all, empty where the client does not say
	Address netip.Addr
}

// same says that two tests are of one run, or where one of them does not say, of one
// client address.
func (c Client) same(other Client) bool {
	if c.Run != "" && other.Run != "" {
		return c.Run == other.Run
	}
	return admission.Client(c.Address) == admission.Client(other.Address)
}

// maxOthers bounds how many addresses a test is told apart.
const maxOthers = 16

// others is what a server does for other clients while it does a test. The lock of the
// counts guards it.
type others struct {
	counts *Counts
	of     Client
	moved  map[netip.Addr]int64
	sum    int64
}

// watchOthers begins to count what others move, until end; nil where the server tells
// nothing of it.
func (m *Meter) watchOthers() *others {
	c := m.counts
	if c.tell == TellNothing {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	o := &others{counts: c, of: m.client, moved: map[netip.Addr]int64{}}
	c.watching[o] = struct{}{}
	return o
}

func (o *others) end() {
	if o == nil {
		return
	}
	o.counts.mu.Lock()
	defer o.counts.mu.Unlock()
	delete(o.counts.watching, o)
}

// told is what was moved so far, nil without anything.
func (o *others) told() *measurement.OtherClients {
	if o == nil {
		return nil
	}
	c := o.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if len(o.moved) == 0 {
		return nil
	}
	out := &measurement.OtherClients{Count: len(o.moved), Bytes: o.sum}
	var most netip.Addr
	for a, n := range o.moved {
		if !most.IsValid() || n > o.moved[most] || n == o.moved[most] && a.Less(most) {
			most = a
		}
	}
	if c.tell == TellAddress {
		out.Address = most.String()
	}
	return out
}

// settle tells all who watch what was moved since it was called last. The caller holds the
// lock.
func (c *Counts) settle() {
	moved := map[Client]int64{}
	for g := range c.running {
		n := g.moved()
		moved[g.meter.client] += n - g.told
		g.told = n
	}
	for of, n := range moved {
		c.tellOthers(of, n)
	}
}

// tellOthers tells those who watch what was moved for a client. The caller holds the lock.
func (c *Counts) tellOthers(of Client, moved int64) {
	if moved <= 0 {
		return
	}
	for o := range c.watching {
		if o.of.same(of) {
			continue
		}
		o.sum += moved
		if _, known := o.moved[of.Address]; known || len(o.moved) < maxOthers {
			o.moved[of.Address] += moved
		}
	}
}
