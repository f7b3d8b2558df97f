package samples

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Coder packs and unpacks samples. It may be used by several goroutines, and has none
// of its own.
type Coder struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// NewCoder makes a Coder. Its memory is a few megabytes, so that many agents of one
// process share one.
func NewCoder() (*Coder, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("set up the compression of samples: %w", err)
	}
	// What it unpacks never grows beyond the room that it is given.
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("set up the decompression of samples: %w", err)
	}
	return &Coder{encoder: encoder, decoder: decoder}, nil
}

// values are the columns of a sample.
func (s *Sample) values() [columns]int64 {
	return [columns]int64{int64(s.At), int64(s.Flow), s.Bytes, int64(s.RTT), s.CongestionWindow, s.Retransmits}
}

// pack writes samples column by column, each value as its difference from the one
// before it, and compresses that.
func (c *Coder) pack(samples []Sample) (raw int, packed []byte) {
	plain := make([]byte, 0, 3*columns*len(samples))
	for column := range columns {
		var last int64
		for i := range samples {
			v := samples[i].values()[column]
			plain = binary.AppendVarint(plain, v-last)
			last = v
		}
	}
	return len(plain), c.encoder.EncodeAll(plain, make([]byte, 0, len(plain)/2+64))
}

var errDamaged = errors.New("a block of samples is damaged")

// Samples unpacks a block, in the order in which the samples were packed. What it holds
// is compared with its header.
func (c *Coder) Samples(b Block) ([]Sample, error) {
	plain, err := c.decoder.DecodeAll(b.packed, make([]byte, 0, b.raw))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(plain) != b.raw {
		return nil, fmt.Errorf("%w: %d bytes, not %d", errDamaged, len(plain), b.raw)
	}
	samples := make([]Sample, b.Samples)
	for column := range columns {
		var last int64
		for i := range samples {
			difference, n := binary.Varint(plain)
			if n <= 0 {
				return nil, fmt.Errorf("%w: column %d ends early", errDamaged, column+1)
			}
			plain = plain[n:]
			last += difference
			samples[i].set(column, last)
		}
	}
	if len(plain) > 0 {
		return nil, fmt.Errorf("%w: %d bytes are left", errDamaged, len(plain))
	}
	h, err := sum(samples)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if h.From != b.From || h.Sums != b.Sums {
		return nil, fmt.Errorf("%w: its sums are not those of its samples", errDamaged)
	}
	return samples, nil
}

func (s *Sample) set(column int, v int64) {
	switch column {
	case 0:
		s.At = time.Duration(v)
	case 1:
		s.Flow = int(v)
	case 2:
		s.Bytes = v
	case 3:
		s.RTT = time.Duration(v)
	case 4:
		s.CongestionWindow = v
	case 5:
		s.Retransmits = v
	}
}
