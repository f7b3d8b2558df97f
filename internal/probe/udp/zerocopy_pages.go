package udp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// lapBuffers is how many large buffers a lap has: with twice as many, 4 MB, they
	// leave the receiver's cache.
	lapBuffers = 32
	// leastReferenced is the size in bytes of a large buffer from which on
	// referring to it takes less time than copying it: across one hop, buffers of
	// 8 KB carried 20 Gbit/s either way, those of 16 KB 46 instead of 28.
	leastReferenced = 16 << 10
	// mostPages bounds the memory of a test, of 8 MB each, whose flows differ in the
	// size of their packets or end at several servers.
	mostPages = 4
)

// packetPages is what the flows of a test share that send packets zero-copy.
type packetPages struct {
	mu   sync.Mutex
	made map[pagesKey]*sockets.PacketPages
}

type pagesKey struct {
	cookie        [protocol.CookieBytes]byte
	packets, size int
}

// errTooManyPages says that flows differ too much to share memory.
var errTooManyPages = fmt.Errorf("the flows of the test have more than %d sizes of packets or servers", mostPages)

// of makes a lap of large buffers for each of two phases, warm-up and measured, of
// so many packets each, or finds them made. What comes after the measured time
// counts no more than what came before.
func (p *packetPages) of(cookie []byte, packets, size int) (*sockets.PacketPages, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pagesKey{[protocol.CookieBytes]byte(cookie), packets, size}
	if pages := p.made[key]; pages != nil {
		return pages, nil
	}
	if len(p.made) == mostPages {
		return nil, errTooManyPages
	}
	pages, err := sockets.NewPacketPages(2*lapBuffers, packets, size, func(buffer, packet int, b []byte) {
		// The first of a buffer is written anew each time.
		if packet > 0 {
			lap, place := lapBuffers*packets, buffer%lapBuffers*packets+packet
			putFollower(b, cookie, follower{phase: byte(buffer / lapBuffers), lap: uint32(lap), place: uint32(place), index: uint32(packet)})
		}
	})
	if err != nil {
		return nil, err
	}
	if p.made == nil {
		p.made = map[pagesKey]*sockets.PacketPages{}
	}
	p.made[key] = pages
	return pages, nil
}

// bufferOf is the buffer for packets from a sequence number on, which is a
// multiple of how many it has.
func bufferOf(sequence uint64, packets int, phase byte) int {
	buffer := int(sequence / uint64(packets) % lapBuffers)
	if phase == phaseMeasured {
		buffer += lapBuffers
	}
	return buffer
}

// close gives the memory back; no flow may be left.
func (p *packetPages) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, pages := range p.made {
		errs = append(errs, pages.Close())
	}
	p.made = nil
	return errors.Join(errs...)
}
