package samples

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func coder(t testing.TB) *Coder {
	t.Helper()
	c, err := NewCoder()
	testutil.OK(t, err)
	return c
}

// drawSamples draws samples as flows count them, and some that none ever would.
func drawSamples(t *rapid.T) []Sample {
	value := rapid.OneOf(rapid.Int64Range(0, 200_000), rapid.Int64Range(0, maxValue))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sample {
		return Sample{
			At: time.Duration(rapid.Int64Min(0).Draw(t, "at")), Flow: rapid.IntRange(1, 64).Draw(t, "flow"), Bytes: value.Draw(t, "bytes"),
			RTT: time.Duration(value.Draw(t, "rtt")), CongestionWindow: value.Draw(t, "window"), Retransmits: value.Draw(t, "retransmits"),
		}
	}), 1, 200).Draw(t, "samples")
}

// sent is what comes out of an Outbox without bounds.
func sent(t testing.TB, c *Coder, key Key, step time.Duration, s []Sample) []Block {
	t.Helper()
	o := NewOutbox(c, 1<<40)
	testutil.OK(t, o.Acknowledge(0, 1<<40))
	testutil.OK(t, o.Add(key.Trial, key.Seat, key.Attempt, step, s))
	return drain(o)
}

func drain(o *Outbox) (out []Block) {
	for {
		b, ok := o.Next()
		if !ok {
			return out
		}
		out = append(out, b)
	}
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	c := coder(t)
	rapid.Check(t, func(r *rapid.T) {
		want := drawSamples(r)
		key := Key{Trial: rapid.StringMatching(`[a-z0-9-]{1,80}`).Draw(r, "trial"), Seat: rapid.IntRange(0, 1<<31-1).Draw(r, "seat"), Attempt: rapid.IntRange(0, 1<<31-1).Draw(r, "attempt")}
		step := time.Duration(rapid.Int64Range(1, maxValue).Draw(r, "step"))
		blocks := sent(t, c, key, step, want)
		if len(blocks) != 1 {
			r.Fatalf("%d blocks", len(blocks))
		}
		got, err := Read(blocks[0].Data)
		if err != nil {
			r.Fatal(err)
		}
		if !reflect.DeepEqual(got, blocks[0]) {
			r.Fatalf("read %+v, sent %+v", got.Header, blocks[0].Header)
		}
		key.Seq = 1
		if got.Key != key || got.Step != step {
			r.Fatalf("header %+v, want key %+v and step %v", got.Header, key, step)
		}
		var sums Sums
		for _, s := range want {
			sums.Bytes += s.Bytes
			sums.Retransmits += s.Retransmits
			sums.RTT += s.RTT
			if s.RTT > 0 {
				sums.RTTMeasured++
			}
		}
		if got.Sums != sums {
			r.Fatalf("sums %+v, want %+v", got.Sums, sums)
		}
		unpacked, err := c.Samples(got)
		if err != nil {
			r.Fatal(err)
		}
		if !reflect.DeepEqual(unpacked, want) {
			r.Fatalf("unpacked %v\nwant %v", unpacked, want)
		}
	})
}

// steady are the samples of so many flows over so many steps, as a quiet path gives.
func steady(flows, from, to int, step time.Duration) (out []Sample) {
	for flow := 1; flow <= flows; flow++ {
		for i := from; i < to; i++ {
			out = append(out, Sample{At: time.Duration(i) * step, Flow: flow, Bytes: int64(1_000_000 + (i*7919+flow*104729)%10_000),
				RTT: time.Millisecond + time.Duration((i*31+flow)%97)*time.Microsecond, CongestionWindow: 65536 + int64(flow%7)*1448, Retransmits: int64(i % 3 / 2)})
		}
	}
	return out
}

func TestBlocksAreSmall(t *testing.T) {
	blocks := sent(t, coder(t), Key{Trial: "b01-p-t"}, 100*time.Millisecond, steady(64, 0, 10, 100*time.Millisecond))
	if plain := 640 * columns * 8; len(blocks) != 1 || len(blocks[0].Data) > plain/4 {
		t.Errorf("640 samples take %d blocks, the first with %d bytes; as they are they take %d", len(blocks), len(blocks[0].Data), plain)
	}
}

func TestTooManySamplesTakeSeveralBlocks(t *testing.T) {
	c := coder(t)
	want := steady(3*maxSamples/20, 0, 10, time.Second)
	blocks := sent(t, c, Key{Trial: "t"}, time.Second, want)
	var got []Sample
	for i, b := range blocks {
		if b.Seq != int64(i+1) || len(b.Data) > MaxBlockBytes {
			t.Errorf("block %d has seq %d and %d bytes", i, b.Seq, len(b.Data))
		}
		s, err := c.Samples(b)
		testutil.OK(t, err)
		got = append(got, s...)
	}
	if len(blocks) < 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d blocks with %d samples, want %d", len(blocks), len(got), len(want))
	}
}

func TestAddRefuses(t *testing.T) {
	fine := Sample{Flow: 1}
	for name, try := range map[string]struct {
		trial  string
		step   time.Duration
		sample Sample
	}{
		"no trial":      {"", 1, fine},
		"long trial":    {strings.Repeat("x", 256), 1, fine},
		"no step":       {"t", 0, fine},
		"no flow":       {"t", 1, Sample{}},
		"before 0":      {"t", 1, Sample{Flow: 1, At: -1}},
		"negative":      {"t", 1, Sample{Flow: 1, Bytes: -1}},
		"large":         {"t", 1, Sample{Flow: 1, Retransmits: maxValue + 1}},
		"large window":  {"t", 1, Sample{Flow: 1, CongestionWindow: maxValue + 1}},
		"negative time": {"t", 1, Sample{Flow: 1, RTT: -1}},
	} {
		o := NewOutbox(coder(t), 1<<20)
		if err := o.Add(try.trial, 1, 1, try.step, []Sample{fine, try.sample}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if c := o.Counts(); c.Added != 0 || c.HeldBytes != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Every cut and every changed byte of a block is noticed.
func TestDamagedBlocks(t *testing.T) {
	c := coder(t)
	good := sent(t, c, Key{Trial: "trial", Seat: 3, Attempt: 1}, time.Second, steady(4, 0, 3, time.Second))[0]
	for n := range good.Data {
		if _, err := Read(good.Data[:n]); err == nil {
			t.Errorf("cut to %d bytes: accepted", n)
		}
	}
	if _, err := Read(append(bytes.Clone(good.Data), 0)); err == nil {
		t.Error("one byte too many: accepted")
	}
	if _, err := Read(make([]byte, MaxBlockBytes+1)); err == nil {
		t.Error("too large: accepted")
	}
	want, err := c.Samples(good)
	testutil.OK(t, err)
	for i := range good.packed {
		data := bytes.Clone(good.Data)
		data[len(data)-len(good.packed)+i] ^= 0x10
		b, err := Read(data)
		testutil.OK(t, err)
		// Some bits of a frame's heading bear on nothing.
		if got, err := c.Samples(b); err == nil && !reflect.DeepEqual(got, want) || err != nil && !errors.Is(err, errDamaged) {
			t.Errorf("damaged byte %d: %v", i, err)
		}
	}
	for name, header := range map[string]func(*Header){
		"from":        func(h *Header) { h.From++ },
		"bytes":       func(h *Header) { h.Bytes++ },
		"retransmits": func(h *Header) { h.Retransmits++ },
		"rtt":         func(h *Header) { h.RTT++ },
		"samples":     func(h *Header) { h.Samples-- },
	} {
		h := good.Header
		header(&h)
		b, err := Read(assemble(h, good.raw, good.packed).Data)
		testutil.OK(t, err)
		if _, err := c.Samples(b); !errors.Is(err, errDamaged) {
			t.Errorf("another %s in the header: %v", name, err)
		}
	}
	for name, header := range map[string]func(*Header){
		"no seq":       func(h *Header) { h.Seq = 0 },
		"no step":      func(h *Header) { h.Step = 0 },
		"no samples":   func(h *Header) { h.Samples = 0 },
		"many samples": func(h *Header) { h.Samples = maxSamples + 1 },
		"more samples": func(h *Header) { h.Samples = maxSamples },
		"line end":     func(h *Header) { h.Trial = "a\nb" },
		"no text":      func(h *Header) { h.Trial = "a\xff" },
		"large seat":   func(h *Header) { h.Seat = 1 << 31 },
	} {
		h := good.Header
		header(&h)
		if _, err := Read(assemble(h, good.raw, good.packed).Data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever comes is refused or is a block that is the same when it is sent on.
func FuzzRead(f *testing.F) {
	c, err := NewCoder()
	testutil.OK(f, err)
	for _, s := range [][]Sample{steady(1, 0, 1, time.Second), steady(8, 3, 13, 100*time.Millisecond)} {
		f.Add(sent(f, c, Key{Trial: "b01-p-t", Seat: 2, Attempt: 1}, time.Second, s)[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Read(data)
		if err != nil {
			return
		}
		samples, err := c.Samples(b)
		if err != nil {
			return
		}
		if len(samples) != b.Samples {
			t.Fatalf("%d samples, its header says %d", len(samples), b.Samples)
		}
		h := b.Header
		raw, packed := c.pack(samples)
		again, err := Read(assemble(h, raw, packed).Data)
		if err != nil {
			if len(packed)+overhead > MaxBlockBytes {
				return
			}
			t.Fatalf("what was read is not written: %v", err)
		}
		if unpacked, err := c.Samples(again); err != nil || !reflect.DeepEqual(unpacked, samples) {
			t.Fatalf("written again: %v, %v", unpacked, err)
		}
	})
}
