package linkem

// Inspect has an inspector see every frame. It is called before Run.
func (c *Emulator) Inspect(i Inspector) { c.inspector = i }

// inspects tells whether frames are to be shown to an inspector now.
func (d *direction) inspects() bool {
	i := d.emulator.inspector
	return i != nil && i.Active()
}

// rate is the speed of the wire now that its inspector is active, or is not, in
// bit/s.
func (d *direction) rate() float64 {
	if d.inspects() {
		return d.config.inspectedRate()
	}
	return d.config.RateBitsPerSecond
}

// inspect shows a frame to the inspector and sends what that wants sent back.
// next is the frame to carry: this one, another in its place, or nil for none.
func (d *direction) inspect(frame []byte) (next []byte, err error) {
	pass, back, ahead := d.emulator.inspector.Inspect(d.index, frame)
	if pass {
		return frame, nil
	}
	d.tally.denied.Add(1)
	if ahead != nil {
		d.tally.added.Add(1)
	}
	if back == nil {
		return ahead, nil
	}
	other := d.emulator.directions[1-d.index]
	other.tally.added.Add(1)
	if errno := d.from.write(back); errno != 0 {
		return ahead, other.notSent(errno)
	}
	other.sent(back, len(back))
	return ahead, nil
}

// inspectDirect shows a frame that need not wait to the inspector, and carries
// what may go on.
func (d *direction) inspectDirect(frame []byte) error {
	next, err := d.inspect(frame)
	if err != nil || next == nil {
		return err
	}
	return d.passOn(next)
}

// inspectQueued shows the frame of n bytes that was just read to the inspector,
// and admits what may go on.
func (d *direction) inspectQueued(n int) error {
	frame := d.slab.head(n)
	if n > len(frame) {
		frame = d.slab.gather(d.buffer[:0], n)
	}
	next, err := d.inspect(frame)
	if err != nil || next == nil {
		return err
	}
	if &next[0] != &frame[0] {
		d.slab.fill(next)
	}
	d.admit(len(next))
	return nil
}
