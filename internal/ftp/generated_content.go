package ftp

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
)

// blockBytes is the period of a file's noise. It is longer than the windows in
// which compressors look for what they have seen (32 kB of DEFLATE, 4 MB of
// zstd's usual levels), and short enough for a CPU's last cache. What
// removes repetitions over longer distances, as some WAN optimisers do, finds
// them.
const blockBytes = 8 << 20

// headBytes at the beginning of each block number it, so that no two blocks are
// the same: bytes from a wrong place, which a server that ignores REST sends,
// are wrong bytes.
const headBytes = 8

// Content is what every generated file consists of: noise that ordinary
// compression does not shorten, the same in every process, of which any range
// can be made and digested without the rest.
type Content struct {
	tail []byte // of each block, after its head
	crc  uint32 // of tail
	// pastTail and pastBlock carry a CRC over a tail and over a block.
	pastTail, pastBlock uint32
}

// NewContent takes a few milliseconds and 8 MiB.
func NewContent() *Content {
	tail := make([]byte, blockBytes-headBytes)
	noise := rand.NewChaCha8([32]byte{'h', 'o', 'p', 'b', 'e', 'n', 'c', 'h', ' ', 'f', 'i', 'l', 'e'})
	_, _ = noise.Read(tail) // documented never to fail
	return &Content{tail: tail, crc: crc32.ChecksumIEEE(tail), pastTail: power(int64(len(tail))), pastBlock: power(blockBytes)}
}

// head numbers a block; the factor, odd and near 2^64 divided by the golden
// ratio, spreads consecutive numbers over all bits and gives none twice.
func head(block int64) (b [headBytes]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(block+1)*0x9e3779b97f4a7c15)
	return b
}

// at fills p with the bytes of a file from offset on.
func (c *Content) at(p []byte, offset int64) {
	for len(p) > 0 {
		var n int
		if in := offset % blockBytes; in < headBytes {
			h := head(offset / blockBytes)
			n = copy(p, h[in:])
		} else {
			n = copy(p, c.tail[in-headBytes:])
		}
		p, offset = p[n:], offset+int64(n)
	}
}

// CRC is the CRC-32 of n bytes of a file from offset on.
func (c *Content) CRC(offset, n int64) uint32 {
	var crc uint32
	for n > 0 {
		in := offset % blockBytes
		if in == 0 && n >= blockBytes {
			h := head(offset / blockBytes)
			block := multiply(crc32.ChecksumIEEE(h[:]), c.pastTail) ^ c.crc
			crc = multiply(crc, c.pastBlock) ^ block
			offset, n = offset+blockBytes, n-blockBytes
			continue
		}
		part := min(n, blockBytes-in)
		crc = c.extend(crc, offset, part)
		offset, n = offset+part, n-part
	}
	return crc
}

// extend carries a CRC over n bytes that lie in one block.
func (c *Content) extend(crc uint32, offset, n int64) uint32 {
	in := offset % blockBytes
	if in < headBytes {
		h := head(offset / blockBytes)
		end := min(in+n, headBytes)
		crc = crc32.Update(crc, crc32.IEEETable, h[in:end])
		n, in = n-(end-in), end
	}
	if n == 0 {
		return crc
	}
	return crc32.Update(crc, crc32.IEEETable, c.tail[in-headBytes:in-headBytes+n])
}

// source reads a generated file from offset on up to its size. It is not to be
// used by several goroutines at a time.
type source struct {
	content      *Content
	offset, size int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.offset >= s.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.size-s.offset)]
	s.content.at(p, s.offset)
	s.offset += int64(len(p))
	return len(p), nil
}

// WriteTo hands w the noise itself where it can, in pieces of chunkBytes.
func (s *source) WriteTo(w io.Writer) (int64, error) {
	var done int64
	for s.offset < s.size {
		in := s.offset % blockBytes
		var piece []byte
		if in < headBytes {
			// The head is written with what follows it: a segment of eight bytes
			// would be a packet of its own.
			piece = make([]byte, min(chunkBytes, s.size-s.offset))
			s.content.at(piece, s.offset)
		} else {
			from := in - headBytes
			piece = s.content.tail[from:min(from+chunkBytes, int64(len(s.content.tail)))]
			piece = piece[:min(int64(len(piece)), s.size-s.offset)]
		}
		n, err := w.Write(piece)
		done, s.offset = done+int64(n), s.offset+int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
