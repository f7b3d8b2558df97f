//go:build !linux

package thread

import (
	"errors"
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

// AllowedCPUs are unknown here.
func AllowedCPUs() []int { return nil }

// Pin is not supported here.
func Pin([]int) (unpin func(), err error) { return nil, errors.ErrUnsupported }
