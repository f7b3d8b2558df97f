package idps

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is what an inspector does with a flow that matches a rule.
type Mode string

// The modes.
const (
	Off   Mode = "off"   // nothing is looked at
	Alert Mode = "alert" // the flow is reported
	Deny  Mode = "deny"  // and no more of it passes; both its ends are reset
)

// Modes lists them.
func Modes() []Mode { return []Mode{Off, Alert, Deny} }

// maxEarlyBytes bounds what all flows keep of early segments, in bytes.
const maxEarlyBytes = 64 << 20

// Inspector compares frames with rules. Two threads may use it at a time, one
// for each direction; all other methods may be used by any.
type Inspector struct {
	automaton *automaton
	// byPattern are the rules that each pattern of the automaton stands for,
	// those first that set flowbits.
	byPattern [][]*Rule
	// plain rules have no content.
	plain    []*Rule
	flowbits int
	rules    int
	mode     atomic.Int32 // index into Modes
	table    table
	workers  [2]worker
	log      alertLog
	// switching orders SetMode's callers.
	switching sync.Mutex
}

// worker is what one direction's thread has for itself, but for the counters.
type worker struct {
	tally
	packet   packet // in hand; apart from the stack, to which it would not be confined
	scratch  []byte
	datagram stream
	back     []byte
	ahead    []byte
	_        [64]byte // the other direction's thread writes elsewhere
}

// New makes an inspector that holds the rules of a set.
func New(set *RuleSet, mode Mode) (*Inspector, error) {
	i := &Inspector{flowbits: set.flowbits, rules: len(set.Rules)}
	i.table.start, i.table.seed, i.table.budget.limit = time.Now(), maphash.MakeSeed(), maxEarlyBytes
	numbers := make(map[string]int)
	var patterns [][]byte
	for _, r := range set.Rules {
		if r.fast < 0 {
			i.plain = append(i.plain, r)
			continue
		}
		pattern := folded(r.steps[r.fast].content)
		n, known := numbers[string(pattern)]
		if !known {
			n = len(patterns)
			numbers[string(pattern)] = n
			patterns = append(patterns, pattern)
			i.byPattern = append(i.byPattern, nil)
		}
		i.byPattern[n] = append(i.byPattern[n], r)
	}
	for _, rules := range append(i.byPattern, i.plain) {
		slices.SortStableFunc(rules, settersFirst)
	}
	var err error
	if i.automaton, err = newAutomaton(patterns); err != nil {
		return nil, fmt.Errorf("prepare the rules of %s: %w", set.Name, err)
	}
	return i, i.SetMode(mode)
}

func settersFirst(a, b *Rule) int {
	switch {
	case a.sets() == b.sets():
		return 0
	case a.sets():
		return -1
	}
	return 1
}

// Mode is the mode in force.
func (i *Inspector) Mode() Mode { return Modes()[i.mode.Load()] }

// SetMode takes effect with the next frame. What an inspector knows of flows
// is forgotten when it is turned on or off.
func (i *Inspector) SetMode(mode Mode) error {
	n := slices.Index(Modes(), mode)
	if n < 0 {
		return fmt.Errorf("no mode of inspection is called %q; there are %q", mode, Modes())
	}
	i.switching.Lock()
	defer i.switching.Unlock()
	if before := i.Mode(); before == Off || mode == Off {
		i.table.clear()
	}
	i.mode.Store(int32(n))
	return nil
}

// Active tells whether Inspect looks at anything.
func (i *Inspector) Active() bool { return i.mode.Load() != 0 }

// Inspect looks at a frame, with its virtio header, of a direction, 0 or 1. It
// tells whether the frame may go on. When it may not, back is a frame for
// whoever sent it, and ahead one to go on in its place; either may be nil, and
// both are valid until the next call for the direction.
func (i *Inspector) Inspect(direction int, frame []byte) (pass bool, back, ahead []byte) {
	if !i.Active() {
		return true, nil, nil
	}
	w := &i.workers[direction]
	p := &w.packet
	*p = packet{}
	switch p.read(frame) {
	case kindFragment:
		w.fragments.Add(1)
		return true, nil, nil
	case kindOther:
		w.others.Add(1)
		return true, nil, nil
	}
	f, side, began, pushed := i.table.find(p)
	if began {
		w.flows.Add(1)
	}
	if pushed != nil {
		w.limit(pushed)
	}
	switch {
	case f == nil:
		return true, nil, nil
	case f.denied.Load():
		return w.refuse(p, 0, false)
	}
	v := visit{Inspector: i, worker: w, flow: f, side: side, packet: p}
	if p.protocol == protocolUDP {
		v.udp()
	} else {
		v.tcp()
	}
	if f.denied.Load() {
		return w.refuse(p, v.next, v.stopped)
	}
	return true, nil, nil
}

// refuse drops p, a packet of a denied flow, and resets who sent it; also its
// receiver when p was stopped just now. next is the number that one waits for.
func (w *worker) refuse(p *packet, next uint32, stopped bool) (pass bool, back, ahead []byte) {
	w.denied.Add(1)
	if p.protocol != protocolTCP || p.flags&flagRST != 0 {
		return false, nil, nil
	}
	w.back = p.answer(w.back)
	if stopped {
		w.ahead = p.replace(w.ahead, next)
		ahead = w.ahead
	}
	return false, w.back, ahead
}

// limit counts a flow of which not all could be inspected that was to be, once.
func (w *worker) limit(f *flow) {
	if !f.passed.Load() && !f.limited.Swap(true) {
		w.limited.Add(1)
	}
}

// visit is one packet on its way through the inspection of its flow.
type visit struct {
	*Inspector
	*worker
	*flow
	packet *packet
	side   int
	// stopped is a TCP flow that the packet made a denied one; next is the
	// sequence number from which on its receiver gets no more.
	stopped bool
	next    uint32
}

func (v *visit) udp() {
	v.advance(v.packet, v.side)
	payload := v.packet.payload
	for more := true; more && !v.decided(); more = len(payload) > 0 {
		datagram := payload
		if n := v.packet.datagram; n > 0 && n < len(payload) {
			datagram = payload[:n]
		}
		payload = payload[len(datagram):]
		s := &v.worker.datagram
		s.interrupted(-s.end)
		v.search(s, datagram)
	}
}

func (v *visit) tcp() {
	p, f := v.packet, v.flow
	own, other := &f.sides[v.side], &f.sides[1-v.side]
	if p.flags&flagRST != 0 {
		if v.resets(own) {
			v.table.end(f)
		}
		return
	}
	v.advance(p, v.side)
	if p.flags&flagACK != 0 {
		own.acked.Store(acknowledged | uint64(p.ack))
	}
	if p.length() == 0 {
		return
	}
	own.mu.Lock()
	v.segment(own, other.acked.Load())
	own.mu.Unlock()
	if own.finished.Load() && (other.finished.Load() || f.opened && !other.began()) {
		v.table.end(f)
	}
}

// resets tells whether a reset ends the connection, as it does for its receiver:
// when its number is the next (RFC 9293, section 3.10.7.4), or no other is known.
func (v *visit) resets(own *side) bool {
	own.mu.Lock()
	defer own.mu.Unlock()
	return !own.started || own.next == v.packet.sequence
}

// segment takes a segment of one side in; acked is what the other acknowledged.
func (v *visit) segment(own *side, acked uint64) {
	p := v.packet
	s := segment{p.sequence, p.payload}
	if p.flags&flagSYN != 0 {
		s.sequence++
	}
	if !own.started {
		own.started, own.next = true, s.sequence
		own.joined = p.flags&flagSYN == 0
	}
	if missing := int32(uint32(acked) - own.next); acked&acknowledged != 0 && missing > 0 && int32(s.sequence-own.next) > 0 {
		// The receiver has what was never seen here, so it will not come again.
		v.worker.limit(v.flow)
		own.interrupted(int64(missing))
		own.skip(uint32(acked), &v.table.budget)
	}
	next := own.next
	for data := own.ready(&s, &v.table.budget); data != nil; data = own.ready(&s, &v.table.budget) {
		if !v.flow.passed.Load() {
			v.search(&own.stream, data)
		}
		if v.flow.denied.Load() {
			v.stopped, v.next = true, next
			return
		}
	}
	if len(s.data) > 0 && !own.gone && !own.keep(s, &v.table.budget) {
		v.worker.limit(v.flow)
	}
	if p.flags&flagFIN != 0 {
		own.ends, own.fin = true, p.sequence+p.length()-1
	}
	if own.ends && own.next == own.fin {
		own.finished.Store(true)
	}
}

// decided tells that nothing more can change what becomes of the flow.
func (v *visit) decided() bool { return v.flow.passed.Load() || v.flow.denied.Load() }

// search runs the automaton over the next bytes of a stream.
func (v *visit) search(s *stream, data []byte) {
	v.worker.bytes.Add(uint64(len(data)))
	w := window{stream: s, data: data, begin: s.end, scratch: &v.worker.scratch}
	if s.end == 0 {
		for _, r := range v.plain {
			v.consider(&w, r, 0)
		}
	}
	waiting := s.pending
	s.pending = s.pending[:0]
	for _, p := range waiting {
		if w.adds(p.rule) {
			v.consider(&w, p.rule, p.at)
		} else if w.mayCome(p.at) {
			s.pending = append(s.pending, p)
		}
	}
	for at := 0; at < len(data) && !v.decided(); {
		next, n, found := v.automaton.search(s.state, data[at:])
		s.state, at = next, at+n
		for _, pattern := range found {
			for _, r := range v.byPattern[pattern] {
				v.consider(&w, r, w.begin+int64(at))
			}
		}
	}
	s.end += int64(len(data))
	s.remember(data)
	if s.limited {
		s.limited = false
		v.worker.limit(v.flow)
	}
}

// consider compares a rule, whose content ends at an offset of the stream, with
// flow and stream.
func (v *visit) consider(w *window, r *Rule, at int64) {
	if !v.applies(r) || !r.covers(v.packet.source, v.packet.destination) || !v.allows(r) {
		return
	}
	if !r.silent && !r.sets() && v.knows(r) {
		return
	}
	if r.fast >= 0 {
		matched, more := w.matches(r, at)
		switch {
		case matched:
		case more && len(w.pending) < maxPending:
			w.pending = append(w.pending, pending{r, at})
			return
		default:
			w.limited = w.limited || more
			return
		}
	}
	v.apply(r, v.flowbits)
	switch {
	case r.silent:
	case r.Action == ActionPass:
		v.flow.passed.Store(true)
	default:
		v.raise(r)
	}
}

// applies checks the protocol, and what the option flow says.
func (v *visit) applies(r *Rule) bool {
	if v.packet.protocol == protocolTCP && !r.tcp || v.packet.protocol == protocolUDP && !r.udp {
		return false
	}
	c := &r.flow
	fromClient := v.side == v.client
	return !(c.toServer && !fromClient || c.toClient && fromClient ||
		c.established && !v.established() || c.notEstablished && v.established())
}

// raise reports a rule that matched, and denies the flow where that is the mode.
func (v *visit) raise(r *Rule) {
	first, fresh := v.report(r)
	deny := v.Mode() == Deny
	if deny && !v.flow.denied.Swap(true) {
		v.worker.deniedFlows.Add(1)
	}
	if first {
		v.worker.alertedFlows.Add(1)
	}
	if !fresh {
		return
	}
	v.worker.alerts.Add(1)
	protocol := "tcp"
	if v.packet.protocol == protocolUDP {
		protocol = "udp"
	}
	v.log.add(AlertRecord{
		Time: time.Now(), SID: r.SID, GID: r.GID, Revision: r.Revision, Message: r.Message, Class: r.Class,
		Protocol: protocol, Source: v.packet.source, Destination: v.packet.destination, Denied: deny,
	})
}

// AlertRecord is a rule that a flow matched. Source sent what matched.
type AlertRecord struct {
	Time        time.Time      `json:"time"`
	SID         uint32         `json:"sid"`
	GID         uint32         `json:"gid"`
	Revision    uint32         `json:"rev"`
	Message     string         `json:"msg"`
	Class       string         `json:"classtype,omitempty"`
	Protocol    string         `json:"protocol"`
	Source      netip.AddrPort `json:"source"`
	Destination netip.AddrPort `json:"destination"`
	Denied      bool           `json:"denied"`
}
