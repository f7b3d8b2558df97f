//go:build !linux

package thread

import (
	"errors"
	"sync"
	"time"
)

// Thread is a thread of this process; here nothing is known of it.
type Thread struct{}

// Current is nil: this system does not tell.
func Current() *Thread { return nil }

// Wanted is 0: this system does not tell.
func (*Thread) Wanted() time.Duration { return 0 }

// PreciseTimers changes nothing here.
func PreciseTimers() func() { return func() {} }

// First changes nothing here.
func First() (allowed bool, release func()) { return false, func() {} }

// Sleep blocks for d.
func Sleep(d time.Duration) { time.Sleep(d) }

// Spin is refused here: sockets are read through the runtime's network poller.
func Spin() (release func(), ok bool) { return nil, false }

// AddProcessors refuses here: no thread keeps one.
func AddProcessors(int) (remove func(), ok bool) { return func() {}, false }

// ShortSlice changes nothing here.
func ShortSlice() (restore func()) { return func() {} }

// AllowedCPUs are unknown here.
func AllowedCPUs() []int { return nil }

// Pin is not supported here.
func Pin([]int) (unpin func(), err error) { return nil, errors.ErrUnsupported }

// Gate has threads wait until all may go on.
type Gate struct {
	open chan struct{}
	once sync.Once
}

// NewGate makes a gate that is shut.
func NewGate() (*Gate, error) { return &Gate{open: make(chan struct{})}, nil }

// Wait blocks until the gate is open.
func (g *Gate) Wait() { <-g.open }

// Open lets all go on that wait, and all that come.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Close has nothing to give back.
func (*Gate) Close() error { return nil }
