package udp

// seenWindow is how many of the latest sequence numbers a packetCount tells
// apart; a packet from before them counts as reordered, because whether it is
// a duplicate is no longer known.
const seenWindow = 1 << 18

// packetCount counts the packets of one flow by their sequence numbers. What
// it counts concerns the packets that were sent in the measured time alone;
// the order is that of all packets. It does not allocate.
type packetCount struct {
	seen [seenWindow / 64]uint64
	// next is one more than the largest sequence number that came.
	next uint64

	received   int64 // distinct packets
	duplicated int64 // further copies
	reordered  int64 // RFC 4737 section 3.3: smaller than the next expected
}

// arrive counts a packet and says whether it is the first with its number.
func (c *packetCount) arrive(sequence uint64, measured bool) bool {
	switch {
	case sequence >= c.next:
		c.skip(sequence)
		c.next = sequence + 1
		c.mark(sequence)
	case c.next-sequence <= seenWindow && !c.mark(sequence):
		if measured {
			c.duplicated++
		}
		return false
	case measured:
		c.reordered++
	}
	if measured {
		c.received++
	}
	return true
}

// came says whether the packet with a number came, as far as that is still known.
func (c *packetCount) came(sequence uint64) bool {
	return sequence < c.next && c.next-sequence <= seenWindow && c.seen[sequence%seenWindow/64]&(1<<(sequence%64)) != 0
}

// mark notes that a packet came, and says whether it is the first.
func (c *packetCount) mark(sequence uint64) bool {
	word, bit := &c.seen[sequence%seenWindow/64], uint64(1)<<(sequence%64)
	first := *word&bit == 0
	*word |= bit
	return first
}

// skip forgets what was seen at the places of the sequence numbers from next
// up to and with this one, which are reused.
func (c *packetCount) skip(sequence uint64) {
	if sequence-c.next >= seenWindow {
		clear(c.seen[:])
		return
	}
	for n := c.next; n <= sequence; {
		word := &c.seen[n%seenWindow/64]
		if n%64 == 0 && sequence-n >= 63 {
			*word = 0
			n += 64
			continue
		}
		*word &^= 1 << (n % 64)
		n++
	}
}
