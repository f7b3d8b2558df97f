package linkem

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slab is the memory of one direction's frames: chunks outside the Go heap, so
// that the garbage collector never looks at them and pages that were never
// needed are never there. A frame is a chain of chunks. Free chunks are used
// last in, first out, so that a short queue stays in the CPU's cache.
type slab struct {
	memory []byte
	next   []uint32 // the chain of a frame, or of the free chunks
	length []uint32 // of a frame, at its first chunk
	refs   []uint8  // copies of a frame that are on the wire, at its first chunk
	free   uint32
	left   int // free chunks

	// reading are the chunks that the next frame is read into.
	reading [maxFrameChunks]uint32
	input   [maxFrameChunks]unix.Iovec
	output  [maxFrameChunks]unix.Iovec
}

const noChunk = ^uint32(0)

func newSlab(chunks int) (*slab, error) {
	chunks += maxFrameChunks
	memory, err := unix.Mmap(-1, 0, chunks*chunkBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for frames: %w", chunks*chunkBytes, err)
	}
	s := &slab{
		memory: memory,
		next:   make([]uint32, chunks),
		length: make([]uint32, chunks),
		refs:   make([]uint8, chunks),
		left:   chunks,
	}
	for i := range s.next {
		s.next[i] = uint32(i) + 1
	}
	s.next[chunks-1] = noChunk
	for i := range s.reading {
		s.setReading(i, s.pop())
	}
	return s, nil
}

func (s *slab) close() error { return unix.Munmap(s.memory) }

func (s *slab) pop() uint32 {
	c := s.free
	s.free = s.next[c]
	s.left--
	return c
}

func (s *slab) setReading(i int, chunk uint32) {
	s.reading[i] = chunk
	s.input[i].Base = s.at(chunk)
	s.input[i].SetLen(chunkBytes)
}

func (s *slab) at(chunk uint32) *byte { return &s.memory[int(chunk)*chunkBytes] }

// head is the start of what was read last, n bytes long in all.
func (s *slab) head(n int) []byte {
	return unsafe.Slice(s.at(s.reading[0]), min(n, chunkBytes))
}

// room reports whether take can keep a frame of n bytes.
func (s *slab) room(n int) bool { return s.left >= (n+chunkBytes-1)/chunkBytes }

// fill copies a frame to where the next one would be read.
func (s *slab) fill(frame []byte) {
	for i := 0; len(frame) > 0; i++ {
		n := copy(unsafe.Slice(s.at(s.reading[i]), chunkBytes), frame)
		frame = frame[n:]
	}
}

// gather appends what was read last, n bytes long, to buffer.
func (s *slab) gather(buffer []byte, n int) []byte {
	for i := 0; n > 0; i++ {
		part := min(n, chunkBytes)
		buffer = append(buffer, unsafe.Slice(s.at(s.reading[i]), part)...)
		n -= part
	}
	return buffer
}

// take keeps what was read last, n > 0 bytes, as a frame with one reference;
// there must be room.
func (s *slab) take(n int) uint32 {
	chunks := (n + chunkBytes - 1) / chunkBytes
	first := s.reading[0]
	for i := range chunks {
		chunk := s.reading[i]
		if i+1 < chunks {
			s.next[chunk] = s.reading[i+1]
		} else {
			s.next[chunk] = noChunk
		}
		s.setReading(i, s.pop())
	}
	s.length[first] = uint32(n)
	s.refs[first] = 1
	return first
}

// vector describes a frame for writing.
func (s *slab) vector(frame uint32) []unix.Iovec {
	left := int(s.length[frame])
	n := 0
	for chunk := frame; left > 0; chunk = s.next[chunk] {
		s.output[n].Base = s.at(chunk)
		s.output[n].SetLen(min(left, chunkBytes))
		left -= chunkBytes
		n++
	}
	return s.output[:n]
}

// header is the first chunk of a frame.
func (s *slab) header(frame uint32) ([]byte, int) {
	n := int(s.length[frame])
	return unsafe.Slice(s.at(frame), min(n, chunkBytes)), n
}

// drop takes one reference back and frees the frame with the last.
func (s *slab) drop(frame uint32) {
	s.refs[frame]--
	if s.refs[frame] > 0 {
		return
	}
	for chunk := frame; chunk != noChunk; {
		next := s.next[chunk]
		s.next[chunk] = s.free
		s.free = chunk
		s.left++
		chunk = next
	}
}
