package udp

// waitingKept is how many packets may wait for a leader: those of a few large
// buffers.
const waitingKept = 256

// followers finds the sequence numbers of packets that say only where they
// stand. One that stands behind the packet before it follows that, as all do
// whose buffer arrives whole. Where a network cuts buffers before the receiver and
// packets of one are lost or out of order, what comes next waits for a leader, so
// that all keep the order in which they came ([packetReceiver.settle]). However many
// laps were lost, each is counted once. It does not allocate.
type followers struct {
	leader leader
	// next is what a packet that follows the one before has as its number.
	next uint64
	// top is the largest number of a leader; copied says that one came twice.
	top     uint64
	copied  bool
	waiting [waitingKept]waiter
	waits   int
}

// leader is what a data packet says of itself.
type leader struct {
	sequence uint64
	sentAt   int64 // nanoseconds of the sender's clock
}

// waiter is a packet that waits: when it came, by the receiver's clock, and its
// length.
type waiter struct {
	follower
	arrival int64
	bytes   int
}

// lead notes a leader; nobody may be waiting.
func (f *followers) lead(l leader) {
	f.leader, f.next, f.top = l, l.sequence+1, max(f.top, l.sequence)
}

// follows takes a packet if it follows the one before it, whose leader is its own.
func (f *followers) follows(p follower) bool {
	if f.waits > 0 || !p.at(f.next) || f.next-f.leader.sequence != uint64(p.index) {
		return false
	}
	f.next++
	return true
}

// wait keeps a packet, and says whether it could.
func (f *followers) wait(w waiter) bool {
	if f.waits == waitingKept {
		return false
	}
	f.waiting[f.waits] = w
	f.waits++
	return true
}
