// Package samples carries what the flows of a fleet counted from agents to where it is
// kept: in blocks of compressed columns, which an Outbox holds until they are
// acknowledged, and which are kept once by their Key. It knows no network and no disk.
package samples

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Sample is what one flow counted in one step of time.
type Sample struct {
	// At is when the step began, since the pair's own start, by the agent's clock.
	At time.Duration
	// Flow is counted from 1.
	Flow int
	// Bytes arrived in the step, by the receiver's count.
	Bytes int64
	// RTT is the smoothed round-trip time, 0 where it is not known.
	RTT time.Duration
	// CongestionWindow is in bytes, 0 where it is not known.
	CongestionWindow int64
	// Retransmits are the segments that were sent again in the step.
	Retransmits int64
}

// Bounds of a block. What it holds is bounded by its header, before anything of it is
// unpacked.
const (
	MaxBlockBytes = 512 << 10
	maxSamples    = 1 << 16
	maxTrial      = 255
	// maxValue bounds each value but a time, so that no sum overflows.
	maxValue = 1 << 46
	// columns are those of Sample; a value takes 1 to 10 bytes (binary.MaxVarintLen64).
	columns = 6
	version = 1
)

// errTooLarge says that samples do not fit one block.
var errTooLarge = errors.New("too many samples for a block")

// Key names a block: it is kept once, however often it is sent. Without Seq it names a test,
// as agent and coordinator do in JSON.
type Key struct {
	Trial   string `json:"trial"` // its id
	Seat    int    `json:"seat"`
	Attempt int    `json:"attempt"`
	// Seq counts the blocks of one agent from 1. A block that was dropped before it was
	// sent has none.
	Seq int64 `json:"-"`
}

// Header is what can be known of a block without unpacking it.
type Header struct {
	Key
	// From is when the first step began. Step is how long each is.
	From, Step time.Duration
	// Samples is how many are in it.
	Samples int
	// Dropped are the samples of the run that the agent had dropped when it numbered the
	// block, Coarsened how often it had made blocks coarser.
	Dropped, Coarsened int64
	Sums
}

// Sums are those of all samples of a block.
type Sums struct {
	Bytes, Retransmits int64
	// RTT is the sum of the RTTMeasured round-trip times that are known.
	RTT         time.Duration
	RTTMeasured int64
}

// Block is a block as it is sent and kept: Data has the header, too.
type Block struct {
	Header
	Data   []byte
	packed []byte // the samples, a part of Data
	raw    int    // their bytes before compression
}

// sum checks samples against the bounds and adds them up.
func sum(samples []Sample) (Header, error) {
	if len(samples) == 0 || len(samples) > maxSamples {
		return Header{}, fmt.Errorf("%w: %d, where 1 to %d fit", errTooLarge, len(samples), maxSamples)
	}
	h := Header{Samples: len(samples), From: samples[0].At}
	for i, s := range samples {
		if s.At < 0 || s.Flow < 1 || !fits(int64(s.Flow)) || !fits(s.Bytes) || !fits(int64(s.RTT)) || !fits(s.CongestionWindow) || !fits(s.Retransmits) {
			return Header{}, fmt.Errorf("sample %d is out of bounds: %+v", i, s)
		}
		h.From = min(h.From, s.At)
		h.Bytes += s.Bytes
		h.Retransmits += s.Retransmits
		if s.RTT > 0 {
			h.RTT += s.RTT
			h.RTTMeasured++
		}
	}
	return h, nil
}

func fits(v int64) bool { return v >= 0 && v <= maxValue }

// assemble puts header and packed samples together.
func assemble(h Header, raw int, packed []byte) Block {
	data := make([]byte, 0, 1+len(h.Trial)+16*binary.MaxVarintLen64+len(packed))
	data = append(data, version)
	data = binary.AppendUvarint(data, uint64(len(h.Trial)))
	data = append(data, h.Trial...)
	for _, v := range []int64{int64(h.Seat), int64(h.Attempt), h.Seq, h.Dropped, h.Coarsened, int64(h.From), int64(h.Step), int64(h.Samples),
		h.Bytes, h.Retransmits, int64(h.RTT), h.RTTMeasured, int64(raw), int64(len(packed))} {
		data = binary.AppendUvarint(data, uint64(v))
	}
	data = append(data, packed...)
	return Block{Header: h, Data: data, packed: data[len(data)-len(packed):], raw: raw}
}

// Read reads the header of a block that came from outside, and checks that all of the
// block is there. The block keeps data.
func Read(data []byte) (Block, error) {
	wrong := func(format string, args ...any) (Block, error) {
		return Block{}, fmt.Errorf("read a block of samples: "+format, args...)
	}
	if len(data) > MaxBlockBytes {
		return wrong("it has %d bytes, at most %d are allowed", len(data), MaxBlockBytes)
	}
	if len(data) == 0 || data[0] != version {
		return wrong("it is not of version %d, which this hopbench knows", version)
	}
	rest := data[1:]
	length, n := binary.Uvarint(rest)
	if n <= 0 || length == 0 || length > maxTrial || length > uint64(len(rest)-n) {
		return wrong("the name of its trial is cut off, empty or too long")
	}
	h := Header{Key: Key{Trial: string(rest[n : n+int(length)])}}
	if !utf8.ValidString(h.Trial) || strings.ContainsFunc(h.Trial, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return wrong("the name of its trial is no line of text")
	}
	rest = rest[n+int(length):]
	var seat, attempt, from, step, count, rtt, raw, packed int64
	for _, field := range []struct {
		name string
		to   *int64
		most int64
	}{
		{"seat", &seat, math.MaxInt32}, {"attempt", &attempt, math.MaxInt32}, {"seq", &h.Seq, math.MaxInt64}, {"dropped", &h.Dropped, math.MaxInt64}, {"coarsened", &h.Coarsened, math.MaxInt64},
		{"from", &from, math.MaxInt64}, {"step", &step, maxValue}, {"n", &count, maxSamples},
		{"sum of bytes", &h.Bytes, math.MaxInt64}, {"sum of retransmits", &h.Retransmits, math.MaxInt64},
		{"sum of round-trip times", &rtt, math.MaxInt64}, {"round-trip times", &h.RTTMeasured, maxSamples},
		{"length", &raw, columns * maxSamples * binary.MaxVarintLen64}, {"packed length", &packed, MaxBlockBytes},
	} {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > uint64(field.most) {
			return wrong("its %s is cut off or too large", field.name)
		}
		*field.to, rest = int64(v), rest[n:]
	}
	h.Seat, h.Attempt, h.From, h.Step, h.Samples, h.RTT = int(seat), int(attempt), time.Duration(from), time.Duration(step), int(count), time.Duration(rtt)
	switch {
	case h.Seq == 0 || h.Samples == 0 || h.Step == 0:
		return wrong("seq, n and step must not be 0")
	case raw < columns*count || raw > columns*count*binary.MaxVarintLen64:
		return wrong("%d samples do not take %d bytes", count, raw)
	case packed != int64(len(rest)):
		return wrong("%d bytes of samples are there, not %d", len(rest), packed)
	}
	return Block{Header: h, Data: data, packed: rest, raw: int(raw)}, nil
}
