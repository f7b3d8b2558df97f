//go:build !linux

package neighbour

// Presence is nothing where no lab can be built: no run measures there.
type Presence struct{}

// Join does nothing.
func Join(Run) (*Presence, error) { return &Presence{}, nil }

// Met is empty.
func (*Presence) Met() []Run { return nil }

// Leave does nothing.
func (*Presence) Leave() error { return nil }
