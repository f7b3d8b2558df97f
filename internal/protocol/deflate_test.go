package protocol

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// capable is a buffer whose other end may read deflated frames.
type capable struct {
	bytes.Buffer
	deflates bool
}

func (c *capable) Deflates() bool { return c.deflates }

// A report is deflated only for who said that it reads that, and is the same then.
func TestDeflatedFrames(t *testing.T) {
	counts := Received{Bins: measurement.Bins{Width: 0.01, Bytes: make([]float64, 1000)}}
	for i := range counts.Bins.Bytes {
		counts.Bins.Bytes[i] = float64(1_000_000 + i*i%977)
	}
	plain, err := json.Marshal(counts)
	testutil.OK(t, err)
	for _, c := range []struct {
		name            string
		frame           Type
		v               any
		reads, deflated bool
	}{
		{"a report", TypeReceived, counts, true, true},
		{"to an old client", TypeReceived, counts, false, false},
		{"a short one", TypeReceived, Received{}, true, false},
		{"nothing", TypeReceived, nil, true, false},
		{"another frame", TypeReady, Ready{Client: strings.Repeat("x", 5000)}, true, false},
	} {
		w := &capable{deflates: c.reads}
		testutil.OK(t, WriteFrame(w, c.frame, c.v))
		sent := w.Len()
		h, err := ParseHeader(w.Bytes())
		testutil.OK(t, err)
		if h.Deflated != c.deflated || c.deflated && sent > len(plain)/2 {
			t.Errorf("%s: %+v, %d bytes of %d", c.name, h, sent, len(plain))
		}
		want, err := Encode(c.frame, c.v)
		testutil.OK(t, err)
		if ty, got, err := ReadFrame(w, MaxControl); err != nil || ty != c.frame || !bytes.Equal(got, want[HeaderBytes:]) {
			t.Errorf("%s: type %#x with %d bytes, %v", c.name, ty, len(got), err)
		}
	}
}

// deflated is a frame whose deflated payload is some text, so many times.
func deflated(t testing.TB, ty Type, text []byte, times int) []byte {
	out := bytes.NewBuffer(make([]byte, HeaderBytes))
	w, err := flate.NewWriter(out, flate.BestCompression)
	testutil.OK(t, err)
	_, err = w.Write(text)
	testutil.OK(t, errors.Join(err, w.Flush())) // the blocks up to here refer to nothing before them
	blocks := bytes.Clone(out.Bytes()[HeaderBytes:])
	for range times - 1 {
		out.Write(blocks)
	}
	testutil.OK(t, w.Close())
	frame := out.Bytes()
	PutHeader(frame, ty, len(frame)-HeaderBytes)
	frame[1] = flagDeflated
	return frame
}

// What a deflated frame becomes is bounded as any payload is.
func TestDeflatedFramesAreBounded(t *testing.T) {
	spaces := bytes.Repeat([]byte(" "), MaxControl)
	whole := deflated(t, TypeReport, spaces, 1)
	for _, c := range []struct {
		name  string
		frame []byte
		limit int
		ok    bool
	}{
		{"the longest", whole, MaxControl, true},
		{"a byte more", deflated(t, TypeReport, append(spaces, ' '), 1), MaxControl, false},
		{"a thousand times as much", deflated(t, TypeReport, spaces, 1<<10), MaxControl, false},
		{"more than is wanted here", whole, MaxError, false},
		{"nonsense", append([]byte{byte(TypeReport), flagDeflated, 0, 0, 0, 0, 0, 3}, "\xff\xff\xff"...), MaxControl, false},
		{"cut short", append([]byte{byte(TypeReport), flagDeflated, 0, 0, 0, 0, 0, 3}, whole[HeaderBytes:HeaderBytes+3]...), MaxControl, false},
		{"of a type that is never", deflated(t, TypeOpen, []byte("{}"), 1), MaxControl, false},
		{"after all those", whole, MaxControl, true},
	} {
		_, payload, err := ReadFrame(bytes.NewReader(c.frame), c.limit)
		if (err == nil) != c.ok || c.ok && len(payload) != MaxControl || !c.ok && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %d bytes, %v", c.name, len(payload), err)
		}
	}
}
