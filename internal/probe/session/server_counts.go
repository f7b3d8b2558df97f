package session

import (
	"maps"
	"sync"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Counts are what a server has done since it began. The lock is that of all its meters too, so that the
// bytes of a connection that ends are counted once at any moment.
type Counts struct {
	mu             sync.Mutex
	began          map[measurement.Kind]uint64
	refused        map[string]uint64
	running        map[*gauge]struct{}
	received, sent int64 // of connections that have ended

	tell     Telling
	watching map[*others]struct{}
}

// NewCounts are those of a server that has done nothing yet.
func NewCounts(tell Telling) *Counts {
	return &Counts{
		began: map[measurement.Kind]uint64{}, refused: map[string]uint64{}, running: map[*gauge]struct{}{},
		tell: tell, watching: map[*others]struct{}{},
	}
}

// Begin counts a test.
func (c *Counts) Begin(kind measurement.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began[kind]++
}

// Refuse counts a refusal or failure by its reason.
func (c *Counts) Refuse(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[reason]++
}

// Totals are what was counted up to a moment.
type Totals struct {
	Began                    map[measurement.Kind]uint64
	Refused                  map[string]uint64
	ReceivedBytes, SentBytes int64 // of payload
}

// NewMeter is for one test of a client.
func (c *Counts) NewMeter(of Client) *Meter { return &Meter{counts: c, client: of} }

// Totals may be called at any time.
func (c *Counts) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Totals{Began: maps.Clone(c.began), Refused: maps.Clone(c.refused), ReceivedBytes: c.received, SentBytes: c.sent}
	for g := range c.running {
		n := g.moved()
		if g.sends {
			out.SentBytes += n
		} else {
			out.ReceivedBytes += n
		}
	}
	return out
}

// gauge tells how many bytes of payload a connection has moved so far, one way.
type gauge struct {
	meter *Meter
	sends bool
	moved func() int64
	paced float64 // to which rate this end's kernel does in bit/s; 0 where it does not
	told  int64   // of what moved, what those who watch others know
}
