package linkem

// Inspector decides which frames a link emulator carries.
type Inspector interface {
	// Active tells whether Inspect wants to see frames now. While it does not,
	// a link emulator treats them as if it had no inspector.
	Active() bool
	// Inspect is given every frame that comes in, with its virtio header,
	// before anything else happens to it. direction is 0 for frames from New's
	// first port and 1 for the others; each direction calls from a thread of
	// its own. A frame that may not pass is dropped; back, if not nil, is then
	// sent to where it came from at once, and ahead goes on in its place. The
	// inspector must not keep frame or change it, nor change back and ahead
	// before its next call for the direction.
	Inspect(direction int, frame []byte) (pass bool, back, ahead []byte)
}
