//go:build !linux

package sockets

import "time"

// Thread is a thread of this process; here nothing is known of it.
type Thread struct{}

// CurrentThread is nil: this system does not tell.
func CurrentThread() *Thread { return nil }

// Wanted is 0: this system does not tell.
func (*Thread) Wanted() time.Duration { return 0 }
