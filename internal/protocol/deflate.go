package protocol

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"
)

// flagDeflated says that a payload is compressed (RFC 1951): what a server reports of a test is
// tens of kilobytes of counts, which take a minute on a path of 9600 bit/s.
const flagDeflated = 1

// leastDeflated is the length in bytes of a payload from which on it is worth to compress it.
const leastDeflated = 4 << 10

// deflates says that frames of a type may be deflated, by a server whose client asked for it.
func deflates(t Type) bool { return t == TypeReceived || t == TypeSent || t == TypeReport }

// compressor and decompressor are of one frame at a time: each has up to a megabyte of memory,
// and the flows of a test, of which there may be thousands, end together.
var (
	compressor struct {
		sync.Mutex
		*flate.Writer
	}
	decompressor struct {
		sync.Mutex
		io.ReadCloser
	}
)

// deflate compresses a frame, if its type may be and it is shorter then.
func deflate(frame []byte) []byte {
	if len(frame) < HeaderBytes+leastDeflated || !deflates(Type(frame[0])) {
		return frame
	}
	c := &compressor
	c.Lock()
	defer c.Unlock()
	out := bytes.NewBuffer(make([]byte, HeaderBytes, len(frame)/2))
	if c.Writer == nil {
		c.Writer, _ = flate.NewWriter(nil, flate.DefaultCompression) // fails for other levels alone
	}
	c.Reset(out)
	_, _ = c.Write(frame[HeaderBytes:]) // a buffer takes everything
	_ = c.Close()
	if out.Len() >= len(frame) {
		return frame
	}
	short := out.Bytes()
	PutHeader(short, Type(frame[0]), len(short)-HeaderBytes)
	short[1] = flagDeflated
	return short
}

// inflate is a payload before it was deflated, of at most limit bytes.
func inflate(payload []byte, limit int) ([]byte, error) {
	d := &decompressor
	d.Lock()
	defer d.Unlock()
	if d.ReadCloser == nil {
		d.ReadCloser = flate.NewReader(nil)
	}
	if err := d.ReadCloser.(flate.Resetter).Reset(bytes.NewReader(payload), nil); err != nil {
		return nil, err
	}
	whole, err := io.ReadAll(io.LimitReader(d, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: deflated payload: %w", ErrMalformed, err)
	case len(whole) > limit:
		return nil, fmt.Errorf("%w: payload of more than %d bytes when inflated", ErrMalformed, limit)
	}
	return whole, nil
}
