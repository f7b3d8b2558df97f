package filter

import (
	"encoding/binary"
	"time"
)

// stamp is a packet that a sampler saw at a moment.
type stamp struct {
	at  int64 // nanoseconds of the real-time clock
	ttl uint8
	key stampKey
}

// stampKey tells a packet from those at the same time in the same node. It is of
// what a node, also one that translates addresses, leaves as it is: the IPv4
// identification, length and protocol (RFC 791, section 3.1), and of TCP the
// sequence and acknowledgement numbers (RFC 9293, section 3.1).
type stampKey [13]byte

const (
	protocolTCP   = 6
	ipv4HeaderMin = 20
)

// readStamp reads a copied frame. It is false for what is no IPv4 packet.
func readStamp(frame []byte, at int64) (stamp, bool) {
	const etherTypeIPv4 = 0x0800
	if len(frame) < 14+ipv4HeaderMin || binary.BigEndian.Uint16(frame[12:]) != etherTypeIPv4 || frame[14]>>4 != 4 {
		return stamp{}, false
	}
	packet := frame[14:]
	s := stamp{at: at, ttl: packet[8]}
	copy(s.key[:], packet[2:6])
	s.key[4] = packet[9]
	if header := int(packet[0]&15) * 4; s.key[4] == protocolTCP && header >= ipv4HeaderMin && len(packet) >= header+12 {
		copy(s.key[5:], packet[header+4:header+12])
	}
	return s, true
}

// Bounds of what is taken for the stamps of one packet. They count in copies, of
// some 0.5 µs, so that they suit slow machines, too.
const (
	// longestVisit is what may be of one packet at all.
	longestVisit = int64(100 * time.Millisecond)
	// longestStay of a packet in a node, in times of a copy: what takes longer was
	// held up, by the machine's own hypervisor perhaps.
	longestStay = 2000
	// longestCopy, in times of the one before, which is slower, since its code is
	// not in the caches yet: what takes longer was interrupted.
	longestCopy = 3
	// maxVisits that have begun: many copies were lost.
	maxVisits = 1024
)

// visit is a packet that has come into a node and not left.
type visit struct {
	ttl uint8
	at  [StampsOnEntry]int64
	n   int
}

// kernelWork estimates what the kernel spends on all packets of a node from
// those that are stamped: the time from the last stamp on entry to that on
// leaving, less that of a copy, which is the time between the last two on entry.
// It is the CPU's time, since the kernel takes a packet from hook to hook
// in one go: a packet that waits is in a queue outside of that.
type kernelWork struct {
	visits map[stampKey]visit
	sum    int64 // of the packets stamped since the last estimate, in nanoseconds
	n      int64
	mean   float64 // of the last estimate's, in nanoseconds

	packets uint64 // of all that the node has received, at the last estimate
	spent   float64
}

// add takes stamps in the order of time.
func (w *kernelWork) add(s stamp) {
	if w.visits == nil || len(w.visits) >= maxVisits {
		w.visits = make(map[stampKey]visit)
	}
	v := w.visits[s.key]
	switch {
	case v.n == len(v.at) && s.ttl == v.ttl-1 && s.at-v.at[0] <= longestVisit:
		delete(w.visits, s.key)
		last := v.at[v.n-1]
		stay, copied, before := s.at-last, last-v.at[v.n-2], v.at[v.n-2]-v.at[v.n-3]
		if copied <= longestCopy*before && stay <= longestStay*copied {
			w.sum += stay - copied
			w.n++
		}
		return
	case v.n == 0 || v.n == len(v.at) || s.ttl != v.ttl || s.at-v.at[0] > longestVisit:
		v = visit{ttl: s.ttl} // another packet
	}
	v.at[v.n] = s.at
	v.n++
	w.visits[s.key] = v
}

// estimate is what was spent on all packets of a node so far, when it has
// received so many.
func (w *kernelWork) estimate(packets uint64) time.Duration {
	if w.n > 0 {
		w.mean = max(float64(w.sum)/float64(w.n), 0)
		w.sum, w.n = 0, 0
	}
	if w.mean > 0 && packets > w.packets {
		w.spent += w.mean * float64(packets-w.packets)
		w.packets = packets
	}
	return time.Duration(w.spent)
}
