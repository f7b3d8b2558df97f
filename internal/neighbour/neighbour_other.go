//go:build !linux

package neighbour

// Presence is nothing where no lab can be built: no run measures there.
type Presence struct{}

// Join does nothing.
func Join(Run) (*Presence, error) { return &Presence{}, nil }

// Others is empty.
func (*Presence) Others() []Run { return nil }

// Alive is 0.
func (*Presence) Alive() int { return 0 }

// Leave does nothing.
func (*Presence) Leave() error { return nil }
