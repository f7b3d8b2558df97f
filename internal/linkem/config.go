package linkem

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// virtioHeaderBytes is the size of struct virtio_net_hdr without the field
	// of mergeable buffers (linux/virtio_net.h), which precedes every frame.
	virtioHeaderBytes = 10
	// maxFrameBytes bounds one frame with its virtio header: an IP packet of
	// 65535 bytes behind an Ethernet header and two VLAN tags, rounded up to
	// whole chunks.
	maxFrameBytes  = maxFrameChunks * chunkBytes
	maxFrameChunks = 17
	chunkBytes     = 4096
	// ReorderHold is the longest time for which a frame that was picked for
	// reordering waits to be overtaken. When no frame follows within it, the
	// frame goes on in its place and is not counted as reordered.
	ReorderHold = 10 * time.Millisecond

	// assumedRate sizes the memory of a direction that has a delay but no
	// rate, or a higher one: more than a link emulator carries on the machines of today.
	assumedRate = 20e9
	// maxBufferBytes bounds what a direction may be asked to hold.
	maxBufferBytes = 1 << 30
	maxDelay       = time.Minute
	maxRate        = 1e12
	minRate        = 1e3
)

// Direction is what a link emulator does to the frames of one direction. The zero
// value does nothing to them.
type Direction struct {
	// Delay is the time a frame spends on the wire after its last bit has
	// entered it.
	Delay time.Duration `json:"delay_nanoseconds,omitempty"`
	// Jitter is the standard deviation of a normal variation of Delay. Order
	// is kept: a frame never leaves before its predecessor, so in dense
	// traffic the variation between neighbours is less and the mean delay more
	// than planted. A delay is never varied below 0.
	Jitter time.Duration `json:"jitter_nanoseconds,omitempty"`
	// LossFraction is the probability, 0 to 1, that a frame is lost.
	LossFraction float64 `json:"loss_fraction,omitempty"`
	// DuplicateFraction is the probability, 0 to 1, that a frame that was not
	// lost is sent twice.
	DuplicateFraction float64 `json:"duplicate_fraction,omitempty"`
	// ReorderFraction is the share of frames, 0 to 0.5, that are overtaken by
	// the frame behind them: the ratio of RFC 4737 section 4.1 in dense
	// traffic. See [ReorderHold] for sparse traffic.
	ReorderFraction float64 `json:"reorder_fraction,omitempty"`
	// ReorderBy has these frames be later by so much instead, whoever overtakes
	// them meanwhile; 0 is by the frame behind.
	ReorderBy time.Duration `json:"reorder_by_nanoseconds,omitempty"`
	// RateBitsPerSecond is the speed of the wire; 0 is unlimited.
	RateBitsPerSecond float64 `json:"rate_bits_per_second,omitempty"`
	// QueueBytes bounds what waits for a wire with a rate, counted as
	// [WireBytes]; a frame that would exceed it is dropped. An idle wire takes
	// any frame. 0 means 50 ms at the rate, or 128 KiB if that is more, which is two
	// super-packets, but of these at most 1.5 s at the rate, and at least four frames.
	QueueBytes int `json:"queue_bytes,omitempty"`
	// InspectRateBitsPerSecond is the speed of the wire while the link emulator's
	// inspector is active, where that is less; 0 is that of RateBitsPerSecond.
	// The queue keeps its size in bytes.
	InspectRateBitsPerSecond float64 `json:"inspect_rate_bits_per_second,omitempty"`
	// PerFlowRateBitsPerSecond is the speed of a wire that each flow (addresses,
	// protocol and ports of the IP packet) has to itself before it comes to the
	// common one; 0 is unlimited. Its queue, for each flow, is as large as that of a
	// wire of this rate for which none is set.
	PerFlowRateBitsPerSecond float64 `json:"per_flow_rate_bits_per_second,omitempty"`
}

// Config is a link emulator.
type Config struct {
	// Forward acts on frames from New's first port to its second, Backward on
	// the others.
	Forward  Direction `json:"forward"`
	Backward Direction `json:"backward"`
	// Seed fixes every random draw. The stages draw independently: planting
	// jitter does not change which frames are lost.
	Seed uint64 `json:"seed,omitempty"`
	// MTU is set on a device that OpenTAP makes, in bytes; 0 leaves 1500.
	MTU int `json:"mtu,omitempty"`
	// NoOffload makes OpenTAP's device hand over single segments with complete
	// checksums instead of super-packets. For packet ports see OpenPacket.
	NoOffload bool `json:"no_offload,omitempty"`
}

// Validate reports every value that makes no sense.
func (c Config) Validate() error {
	errs := []error{c.Forward.validate("forward")}
	if c.Backward != c.Forward {
		errs = append(errs, c.Backward.validate("backward"))
	}
	if c.MTU != 0 && (c.MTU < 68 || c.MTU > 65521) {
		errs = append(errs, fmt.Errorf("mtu is %d, not 68 to 65521 (or 0 for the device's own)", c.MTU))
	}
	return errors.Join(errs...)
}

func (d Direction) validate(name string) error {
	var errs []error
	refuse := func(field string, got any, want string) {
		errs = append(errs, fmt.Errorf("%s: %s is %v, not %s", name, field, got, want))
	}
	delay := func(field string, t time.Duration) {
		if t < 0 || t > maxDelay {
			refuse(field, t, "0 to "+maxDelay.String())
		}
	}
	delay("delay", d.Delay)
	delay("jitter", d.Jitter)
	delay("time of reordering", d.ReorderBy)
	fraction := func(field string, f, top float64) {
		if !(f >= 0 && f <= top) {
			refuse(field, f, fmt.Sprintf("a fraction from 0 to %v", top))
		}
	}
	fraction("loss fraction", d.LossFraction, 1)
	fraction("duplicate fraction", d.DuplicateFraction, 1)
	fraction("reorder fraction", d.ReorderFraction, 0.5)
	rate := func(field string, r float64) {
		if r != 0 && !(r >= minRate && r <= maxRate) {
			refuse(field, r, "1e3 to 1e12 bit/s (or 0 for unlimited)")
		}
	}
	rate("rate", d.RateBitsPerSecond)
	rate("rate while inspecting", d.InspectRateBitsPerSecond)
	rate("per-flow rate", d.PerFlowRateBitsPerSecond)
	if d.QueueBytes < 0 || d.QueueBytes > maxBufferBytes {
		refuse("queue", d.QueueBytes, fmt.Sprintf("0 to %d bytes", maxBufferBytes))
	}
	if len(errs) == 0 && d.RateBitsPerSecond > 0 {
		if buffered := d.bufferBytes(); buffered > maxBufferBytes {
			errs = append(errs, fmt.Errorf("%s: rate times delay, and the queue, would hold %.0f MB; at most %d MB are possible: lower the rate, the delay or the queue",
				name, buffered/1e6, maxBufferBytes/1000000))
		}
	}
	return errors.Join(errs...)
}

// direct reports whether frames need not wait, so that no queue is needed.
func (d Direction) direct() bool {
	return d.Delay == 0 && d.Jitter == 0 && d.RateBitsPerSecond == 0 && d.InspectRateBitsPerSecond == 0 && d.PerFlowRateBitsPerSecond == 0 && d.ReorderFraction == 0
}

// inspectedRate is the speed of the wire while the inspector is active, in bit/s.
func (d Direction) inspectedRate() float64 {
	if r := d.InspectRateBitsPerSecond; r > 0 && (d.RateBitsPerSecond == 0 || r < d.RateBitsPerSecond) {
		return r
	}
	return d.RateBitsPerSecond
}

// queueBytes is the limit in force.
func (d Direction) queueBytes() float64 {
	if d.QueueBytes > 0 {
		return float64(d.QueueBytes)
	}
	if d.RateBitsPerSecond == 0 {
		return queueBytes(d.InspectRateBitsPerSecond)
	}
	return queueBytes(d.RateBitsPerSecond)
}

// SuperPackets is the size of a queue, in bytes, that has room for two super-packets.
const SuperPackets = 128 << 10

// queueBytes is the limit of a queue for a wire of a rate that none was set for: 50 ms, or two
// super-packets where that is more. These would be many seconds at a slow rate, in which no
// test connects or brings back its counts, so of them there is no more than the wire sends in
// 1.5 s, but four full frames of Ethernet, without which TCP does not recover from a loss.
func queueBytes(bitsPerSecond float64) float64 {
	const most, longest, least = 0.050, 1.5, 4 * 1514 // seconds, seconds, bytes
	bytesPerSecond := bitsPerSecond / 8
	return max(bytesPerSecond*most, min(SuperPackets, max(bytesPerSecond*longest, least)))
}

// NarrowQueue says that a queue has no room for two super-packets, and would lose as a whole
// those that a network loses frame by frame.
func (d Direction) NarrowQueue() bool {
	return d.QueueBytes > 0 && d.QueueBytes < SuperPackets || (d.RateBitsPerSecond > 0 || d.InspectRateBitsPerSecond > 0) && d.queueBytes() < SuperPackets ||
		d.PerFlowRateBitsPerSecond > 0 && queueBytes(d.PerFlowRateBitsPerSecond) < SuperPackets
}

// QueueTime is how long a frame waits at most for a wire with a rate, while an inspector is active.
func (d Direction) QueueTime() time.Duration {
	rate := d.inspectedRate()
	if rate == 0 {
		return 0
	}
	return time.Duration(d.queueBytes() * 8 / rate * float64(time.Second))
}

// bufferBytes is how much is on the wire and in its queue at most.
func (d Direction) bufferBytes() float64 {
	rate, queue := d.RateBitsPerSecond, d.queueBytes()
	if rate == 0 || rate > assumedRate {
		rate = assumedRate
	}
	switch {
	case d.RateBitsPerSecond == 0 && d.InspectRateBitsPerSecond == 0:
		queue = 0
	case d.QueueBytes == 0:
		queue = min(queue, queueBytes(assumedRate))
	}
	return rate/8*(d.Delay+4*d.Jitter).Seconds() + queue
}

// slabChunks is how many chunks that takes. A small frame fills a chunk only
// partly, so there is one for each frame of the smallest size, where that is
// affordable; memory that is never written to costs nothing.
func (d Direction) slabChunks() int {
	const least, usual = 32 << 20, 256 << 20
	const smallest = 64 // bytes of a frame: fewer make no difference
	buffered := math.Min(d.bufferBytes(), maxBufferBytes)
	size := min(chunkBytes/smallest*buffered, usual)
	if d.RateBitsPerSecond > 0 {
		size = max(size, 1.25*buffered)
	}
	if d.PerFlowRateBitsPerSecond > 0 {
		// How many flows there will be is not known; what does not fit this
		// is dropped as from a queue.
		size = max(size, usual)
	}
	return int(max(size, least)) / chunkBytes
}
