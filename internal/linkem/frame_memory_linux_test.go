package linkem

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/testutil"
)

// frameBytes is what would be written for a frame.
func frameBytes(s *slab, frame uint32) []byte {
	var b []byte
	for _, piece := range s.vector(frame) {
		b = append(b, unsafe.Slice(piece.Base, int(piece.Len))...)
	}
	return b
}

// Frames come back as they went in, whatever is taken and dropped in between,
// and no chunk is ever lost.
func TestSlabKeepsFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const chunks = 64
		s, err := newSlab(chunks)
		testutil.OK(t, err)
		defer func() {
			testutil.OK(t, s.close())
		}()
		type kept struct {
			frame uint32
			bytes []byte
			refs  int
		}
		var held []kept
		random := rand.NewChaCha8([32]byte{byte(rapid.IntRange(0, 255).Draw(t, "seed"))})
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "drop") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if got := frameBytes(s, held[i].frame); !bytes.Equal(got, held[i].bytes) {
					t.Fatalf("a frame of %d bytes came back changed, with %d", len(held[i].bytes), len(got))
				}
				s.drop(held[i].frame)
				if held[i].refs--; held[i].refs == 0 {
					held = append(held[:i], held[i+1:]...)
				}
				continue
			}
			n := rapid.IntRange(1, maxFrameBytes).Draw(t, "bytes")
			if !s.room(n) {
				continue
			}
			frame := make([]byte, n)
			if _, err := random.Read(frame); err != nil {
				t.Fatal(err)
			}
			s.fill(frame)
			if !bytes.Equal(s.head(n), frame[:min(n, chunkBytes)]) {
				t.Fatal("the start of the frame just read is not its start")
			}
			k := kept{s.take(n), frame, 1}
			if rapid.Bool().Draw(t, "twice") {
				s.refs[k.frame]++
				k.refs++
			}
			held = append(held, k)
		}
		for _, k := range held {
			for range k.refs {
				s.drop(k.frame)
			}
		}
		if s.left != chunks {
			t.Fatalf("%d chunks are free, want %d", s.left, chunks)
		}
	})
}

func TestSlabAllocatesNothing(t *testing.T) {
	s, err := newSlab(64)
	testutil.OK(t, err)
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	if n := testing.AllocsPerRun(1000, func() {
		frame := s.take(65_000)
		s.vector(frame)
		s.drop(frame)
	}); n != 0 {
		t.Errorf("%v allocations per frame, want none", n)
	}
}
