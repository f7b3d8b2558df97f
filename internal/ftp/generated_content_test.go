package ftp

import (
	"bytes"
	"compress/flate"
	"hash/crc32"
	"io"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// bytesOf makes a part of a file the plain way.
func bytesOf(c *Content, offset, n int64) []byte {
	b := make([]byte, n)
	c.at(b, offset)
	return b
}

func TestContentIsTheSameEverywhere(t *testing.T) {
	// Two versions that differ here could not talk to each other.
	if got := NewContent().CRC(0, 100_000_000); got != 0x2b833862 {
		t.Errorf("CRC-32 of the first 100 MB is %08x", got)
	}
}

func TestCRCOfAnyRange(t *testing.T) {
	c := NewContent()
	for _, r := range []struct{ offset, n int64 }{
		{0, 0}, {0, 1}, {3, 2}, {0, headBytes}, {5, headBytes}, {headBytes, 100}, {blockBytes - 3, 3}, {blockBytes - 3, 9},
		{0, blockBytes}, {1, blockBytes}, {blockBytes - 1, 2*blockBytes + 2}, {7*blockBytes + 11, 12345}, {1 << 40, 4096},
	} {
		if got, want := c.CRC(r.offset, r.n), crc32.ChecksumIEEE(bytesOf(c, r.offset, r.n)); got != want {
			t.Errorf("%d bytes from %d on: %08x, want %08x", r.n, r.offset, got, want)
		}
	}
}

func TestSourceReadsWhatItWrites(t *testing.T) {
	c := NewContent()
	for _, r := range []struct{ offset, size int64 }{{0, 1}, {0, 3 * chunkBytes}, {5, blockBytes + 20}, {blockBytes - 1, blockBytes + 1}, {9, 9}} {
		var written bytes.Buffer
		n, err := (&source{content: c, offset: r.offset, size: r.size}).WriteTo(&written)
		if err != nil || n != r.size-r.offset {
			t.Fatalf("%+v: %d bytes, %v", r, n, err)
		}
		read, err := io.ReadAll(struct{ io.Reader }{&source{content: c, offset: r.offset, size: r.size}})
		if err != nil || !bytes.Equal(read, written.Bytes()) || !bytes.Equal(read, bytesOf(c, r.offset, r.size-r.offset)) {
			t.Errorf("%+v: what is read is not what is written (%v)", r, err)
		}
	}
}

func TestContentIsNotCompressed(t *testing.T) {
	const n = 4 << 20
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	testutil.OK(t, err)
	if _, err := (&source{content: NewContent(), offset: blockBytes - n/2, size: blockBytes + n/2}).WriteTo(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || out.Len() < n {
		t.Errorf("%d bytes are %d after DEFLATE (%v)", n, out.Len(), err)
	}
}

// No two blocks are the same, so that a part of the file from a wrong place is
// seen even if it is whole blocks away.
func TestBlocksDiffer(t *testing.T) {
	c := NewContent()
	seen := map[uint32]int64{}
	for i := range int64(2000) {
		crc := c.CRC(i*blockBytes, blockBytes)
		if other, found := seen[crc]; found {
			t.Fatalf("blocks %d and %d have the same CRC-32", other, i)
		}
		seen[crc] = i
	}
}

func FuzzJoin(f *testing.F) {
	f.Add([]byte("123456789"), 4)
	f.Add([]byte(nil), 0)
	f.Add(bytes.Repeat([]byte{0}, 70_000), 69_999)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		if at < 0 || at > len(b) {
			return
		}
		first, second := crc32.ChecksumIEEE(b[:at]), crc32.ChecksumIEEE(b[at:])
		if got, want := Join(first, second, int64(len(b)-at)), crc32.ChecksumIEEE(b); got != want {
			t.Errorf("%08x and %08x of %d bytes give %08x, want %08x", first, second, len(b)-at, got, want)
		}
	})
}
